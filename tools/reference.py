"""Writes the pages of the reference that are generated from the code: `make reference`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
django.setup()

from tools import command_reference, plugin_reference, table_reference  # noqa: E402 - they read Django's registry

PROJECT_DIR = Path(__file__).resolve().parent.parent
PAGES: Mapping[str, Callable[[], str]] = {
    "docs/reference/commands.md": command_reference.page,
    "docs/reference/glossary.md": table_reference.page,
    "docs/reference/plugin-classes.md": plugin_reference.page,
}


def main() -> int:
    for path, page in PAGES.items():
        (PROJECT_DIR / path).write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
