"""Compares the locks with `requirements/advisories.toml`: fails when a locked version has a known vulnerability.

It needs no network, and finds only what is in the table, which is kept by hand from the packages' advisories.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packaging.version import Version

PROJECT_DIR = Path(__file__).resolve().parent.parent
TABLE = "requirements/advisories.toml"
NPM_LOCK = "package-lock.json"
_LOCKED = re.compile(r"^([a-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)


def findings(project_dir: Path) -> list[str]:
    """Return a line for each locked version below its bound, and for each bound of a package that no lock has."""
    table: dict[str, dict[str, Any]] = tomllib.loads((project_dir / TABLE).read_text())
    locked = {"python": list(_python_locks(project_dir)), "npm": list(_npm_lock(project_dir))}
    found = []
    for kind, bounds in table.items():
        for package, bound in bounds.items():
            versions = [(lock, version) for lock, name, version in locked[kind] if name == package]
            if not versions:
                found.append(f"{TABLE}: no lock has {package}; remove the row")
            why = f"{', '.join(bound['advisories'])}: {bound['reason']}"
            found += [
                f"{lock}: {package} {version} is below {bound['least']} ({why})"
                for lock, version in versions
                if Version(version) < Version(bound["least"])
            ]
    return found


def _python_locks(project_dir: Path) -> Iterator[tuple[str, str, str]]:
    for path in sorted((project_dir / "requirements").glob("*.lock")):
        for name, version in _LOCKED.findall(path.read_text()):
            yield f"requirements/{path.name}", name, version


def _npm_lock(project_dir: Path) -> Iterator[tuple[str, str, str]]:
    for place, package in json.loads((project_dir / NPM_LOCK).read_text())["packages"].items():
        if place:
            yield NPM_LOCK, place.removeprefix("node_modules/"), package["version"]


def main() -> int:
    found = findings(PROJECT_DIR)
    print("\n".join(found) or "no locked version is below a known bound")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
