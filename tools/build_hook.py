"""Prepares a build of the package: compiles the catalogues, and refuses a wheel without the browser packages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from babel.messages import mofile, pofile
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BuildHook(BuildHookInterface[Any]):
    """Hook that Hatchling calls before it collects the files; `artifacts` in pyproject.toml names generated ones."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Prepare the tree. An editable install uses the tree as it is, and its processes compile what they need."""
        if version == "editable":
            return
        portal = Path(self.root) / "portal"
        if not (portal / "static" / "vendor").is_dir():
            raise SystemExit("portal/static/vendor is missing: run `make wheel`, which fetches the browser packages")
        for source in portal.glob("locale/*/LC_MESSAGES/*.po"):
            with source.open("rb") as text, source.with_suffix(".mo").open("wb") as compiled:
                mofile.write_mo(compiled, pofile.read_po(text, abort_invalid=True))
