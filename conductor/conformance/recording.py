"""Records a report in the cloud whose settings are in force: its catalogue shows it with its date."""

from __future__ import annotations

import io
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import django
from django.core.management import CommandError, call_command

SETTINGS = "portal.settings"  # as in manage.py


class NotRecorded(Exception):
    """The report was not recorded; the text says why."""


def record(report: Mapping[str, Any]) -> None:
    """Record the report. Raises NotRecorded; `novella plugins record` can then record it on a host of the cloud."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", SETTINGS)
    try:
        django.setup()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "report.json"
            path.write_text(json.dumps(report))
            call_command("plugins", "record", str(path), stdout=io.StringIO())
    except CommandError as error:
        raise NotRecorded(f"{error}") from None
    except Exception as error:  # wrong settings, a missing database: foreign texts may hold secrets
        raise NotRecorded(f"the cloud's settings or database cannot be used ({type(error).__name__})") from None
