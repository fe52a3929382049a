"""Hands a report to the cloud whose settings are in force: its catalogue shows it with its date."""

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

SETTINGS = "portal.settings"  # as manage.py


class NotRecorded(Exception):
    """Why the cloud did not take the report."""


def record(report: Mapping[str, Any]) -> None:
    """Raises NotRecorded; then the report can still be given to `manage.py plugins record` where the cloud is."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", SETTINGS)
    try:
        django.setup()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "report.json"
            path.write_text(json.dumps(report))
            call_command("plugins", "record", str(path), stdout=io.StringIO())
    except CommandError as error:
        raise NotRecorded(f"{error}") from None
    except Exception as error:  # settings that are wrong, a database that is not there: foreign texts may hold secrets
        raise NotRecorded(f"the cloud's settings or database cannot be used ({type(error).__name__})") from None
