"""`novella prune`: delete ended records that are older than their retention."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from typing import Any

from conductor.manual import ManualCommand
from conductor.services.operations.pruning import pruner

LEFT_OUT = 1


class Command(ManualCommand):
    help = (
        "Remove records that are older than NOVELLA_KEEP_…_DAYS. These are ended workflows, events, decisions and "
        "the hosts that they saw, consoles, metrics, audit records, deliveries and closed findings. Conductors do the "
        "same each hour."
    )
    requires_system_checks = []
    exit_codes = {
        0: "Every database was pruned.",
        1: "A database did not answer and was left out.",
    }
    examples = {
        "prune --dry-run": "Count what is old enough to be removed.",
    }

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only count, and change nothing")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        pruned = pruner.prune(is_dry_run=options["dry_run"])
        if options["json"]:
            self.stdout.write(json.dumps({"rows": pruned.counts, "missing_databases": pruned.down}, indent=2))
        else:
            self.stdout.write("\n".join(_lines(pruned)))
        if pruned.down:
            sys.exit(LEFT_OUT)


def _lines(pruned: pruner.PruneResult) -> list[str]:
    lines = [
        f"{alias}: {count} {kind}" for alias, kinds in sorted(pruned.counts.items()) for kind, count in kinds.items()
    ]
    lines += [f"{alias} was left out" for alias in pruned.down]
    return lines or ["Nothing is old enough."]
