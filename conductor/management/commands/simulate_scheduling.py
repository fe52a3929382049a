"""`novella simulate_scheduling`: the scheduler's decisions on fleets and requests in a file."""

from __future__ import annotations

import json
import os
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from conductor.core.errors import Invalid
from conductor.core.scheduling.cases import BuiltinPlugins, answers_of, read
from conductor.manual import ManualCommand
from conductor.plugins import SHIPPED, PluginOptions, load


class Command(ManualCommand):
    help = "Schedule the requests of a file onto the fleets of that file. It needs no database."
    requires_system_checks = []
    examples = {
        "simulate_scheduling cases.json --output decisions.json": "Write one decision per line.",
    }

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("cases", metavar="CASES.json", help="file with fleets and requests")
        parser.add_argument(
            "--output", metavar="DECISIONS.json", help="file for the decisions (default: standard output)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        plugins = load(SHIPPED, PluginOptions(), finds_installed=False)
        shipped = BuiltinPlugins(
            [type(one) for one in plugins.loaded_filters], [type(one) for one in plugins.loaded_weighers]
        )
        try:
            text = Path(options["cases"]).read_text(encoding="utf-8")
            cases = read(text)
            lines = [json.dumps(answer) for case in cases for answer in answers_of(case, shipped)]
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{options['cases']} cannot be read: {error}.") from None
        except Invalid as error:
            raise CommandError(error.message) from None
        for case in cases:
            for path in case.strange_keys:
                self.stderr.write(f'Case "{case.name}": {path}: the format has no such key; it was passed over.')
        if options["output"]:
            _write_whole(Path(options["output"]), lines)
        else:
            self.stdout.write("\n".join(lines))


def _write_whole(path: Path, lines: Iterable[str]) -> None:
    """Write a file atomically: a reader never sees a part of it. Raises CommandError."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error}.") from None
