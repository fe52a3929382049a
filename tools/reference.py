"""Writes the pages of the reference that are generated from the code: `make reference`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
django.setup()

from portal.api.compute import fields, reference  # noqa: E402
from tools import (  # noqa: E402 - they read Django's registry
    command_reference,
    flow_reference,
    name_references,
    plugin_reference,
    setting_reference,
    table_reference,
)

PROJECT_DIR = Path(__file__).resolve().parent.parent
PAGES: Mapping[str, Callable[[], str]] = {
    fields.PAGE: fields.page,
    reference.PAGE: reference.page,
    "docs/reference/api/microversions.md": name_references.microversions,
    "docs/reference/commands.md": command_reference.page,
    "docs/reference/configuration.md": setting_reference.page,
    "docs/reference/event-types.md": name_references.event_types,
    "docs/reference/glossary.md": table_reference.page,
    "docs/reference/metrics.md": name_references.metric_names,
    "docs/reference/plugin-classes.md": plugin_reference.page,
    "docs/reference/workflows.md": flow_reference.page,
}


def main() -> int:
    for path, page in PAGES.items():
        (PROJECT_DIR / path).write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
