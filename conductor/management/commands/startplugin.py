"""`novella startplugin`: write the package of a working plugin, with passing tests."""

from __future__ import annotations

import keyword
import re
from argparse import ArgumentParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.core.management.templates import TemplateCommand

from conductor.manual import ManualCommand

TEMPLATES = Path(__file__).resolve().parent.parent / "plugin_templates"
KINDS = ("filter", "weigher", "driver", "sink")
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


class _Written(TemplateCommand):
    """Django's template command, with our files."""

    rewrite_template_suffixes = ((".py-tpl", ".py"), (".toml-tpl", ".toml"), (".md-tpl", ".md"))

    def validate_name(self, name: str | None, name_or_dir: str = "name") -> None:
        """Accept any name: the plugin's name is validated before, and a folder may have any."""


class Command(ManualCommand):
    help = (
        "Write the package of a new plugin that works, with its tests. It has a pyproject.toml with the entry "
        "point, a filter, weigher, compute driver or notification sink, and tests of the contract for its kind."
    )
    requires_system_checks = []
    exit_codes = {
        0: "The package was written.",
        1: "Nothing was written; the reason is printed.",
    }
    examples = {
        "startplugin filter near_racks": "Write the package of a filter into the new folder near_racks.",
    }

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("kind", choices=KINDS, help="kind of the plugin")
        parser.add_argument("name", help="name of the Python package: small letters, digits and _, such as near_racks")
        parser.add_argument(
            "directory", nargs="?", default="", help="folder for the package (default: a new one with its name)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        kind, name = options["kind"], options["name"]
        if not NAME.fullmatch(name) or keyword.iskeyword(name):
            raise CommandError(f"name: {name[:60]} is no package name: small letters, digits and _.")
        if find_spec(name) is not None:
            raise CommandError(f"name: there is a Python package {name} already. Choose another.")
        target = Path(options["directory"] or name).resolve()
        if target.exists() and any(target.iterdir() if target.is_dir() else [target]):
            raise CommandError(f"directory: {target} is there already. Name one that is not, or an empty one.")
        _write(kind, name, target)
        self.stdout.write(f"Written: {target}\nTry it: cd {target} && python -m pytest")


def _write(kind: str, name: str, target: Path) -> None:
    stem = name.removesuffix(kind)
    class_name = "".join(part.capitalize() for part in (*stem.split("_"), kind))
    words = {
        "kind": kind,
        "distribution": name.replace("_", "-"),
        "class_name": class_name,
        "listed_as": class_name if kind in ("filter", "weigher") else name,
    }
    for template in ("package", kind):
        target.mkdir(parents=True, exist_ok=True)
        _Written().handle(
            "app",
            name,
            str(target),
            template=str(TEMPLATES / template),
            extensions=["py", "toml", "md"],
            files=[],
            verbosity=0,
            **words,
        )
