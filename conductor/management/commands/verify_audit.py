"""`novella verify_audit`: check that no record of the audit log was changed."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.db import DatabaseError, InterfaceError

from conductor.cells.lookup import journal_aliases
from conductor.core.audit_chain import plain
from conductor.core.errors import Invalid
from conductor.manual import ManualCommand
from conductor.services.audit import files, seals

CHANGED, LEFT_OUT = 1, 2
MOST_LINES = 20  # of a file, that are named


class Command(ManualCommand):
    help = (
        "Check every record of the audit log against its seal. It reads the log in every database, or a file that "
        "was exported from the audit page."
    )
    requires_system_checks = []
    exit_codes = {
        0: "All records are as they were written.",
        1: "A record was changed; the first one is named.",
        2: "A database did not answer.",
    }
    examples = {
        "verify_audit --file audit.csv": "Compare an export of the audit page with the databases.",
    }

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--file", type=Path, help="exported CSV file, which is checked by itself and against the databases"
        )
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["file"]:
            self._check_file(options["file"], is_json=options["json"])
        else:
            self._check_databases(is_json=options["json"])

    def _check_databases(self, *, is_json: bool) -> None:
        views, down = [], []
        for alias in journal_aliases():
            try:
                seals.check(alias)
                views.append(seals.view(alias))
            except (DatabaseError, InterfaceError):
                down.append(alias)
        if is_json:
            body = {"databases": [plain(asdict(one)) for one in views], "missing_databases": down}
            self.stdout.write(json.dumps(body, indent=2))
        else:
            self.stdout.write("\n".join([*map(_line, views), *(f"{alias} did not answer" for alias in down)]))
        if any(one.trouble for one in views):
            sys.exit(CHANGED)
        if down:
            sys.exit(LEFT_OUT)

    def _check_file(self, path: Path, *, is_json: bool) -> None:
        try:
            with path.open(encoding="utf-8", newline="") as lines:
                found = list(files.faults(lines))
        except (OSError, UnicodeDecodeError, Invalid) as error:
            raise CommandError(f"{path}: {getattr(error, 'message', error)}") from None
        except (DatabaseError, InterfaceError):
            self.stderr.write("A database that the file names did not answer.")
            sys.exit(LEFT_OUT)
        if is_json:
            self.stdout.write(json.dumps({"faults": found}, indent=2))
        else:
            more = [f"and {len(found) - MOST_LINES} more"] if len(found) > MOST_LINES else []
            self.stdout.write("\n".join([*found[:MOST_LINES], *more] or ["All records are as they were written."]))
        if found:
            sys.exit(CHANGED)


def _line(one: seals.SealView) -> str:
    waits = f", {one.unsealed} not yet sealed" if one.unsealed else ""
    if one.trouble:
        return f"{one.database}: {one.trouble}{waits}"
    since = f" since {plain(one.begun_at)}" if one.begun_at else ""
    head = f"; the last is number {one.number}, digest {one.digest}" if one.number else ""
    return f"{one.database}: {one.sealed} records as they were written{since}{waits}{head}"
