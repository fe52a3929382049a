"""`novella reconcile`: find discrepancies between databases and hosts, and repair what is safe."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from conductor.cells.lookup import cell_aliases
from conductor.manual import ManualCommand
from conductor.services.operations.reconciliation import reconciler
from conductor.services.operations.reconciliation.reconciler import ReconciledFinding, ReconciliationReport

SOMETHING_LEFT = 1


class Command(ManualCommand):
    help = (
        "Find where databases and hosts disagree and repair what is safe. It compares instances, guests, "
        "allocations, ports, volumes, locks, moves and workflows in all databases."
    )
    requires_system_checks = []
    exit_codes = {
        0: "Nothing is left.",
        1: "A finding is left, or a cell did not answer.",
    }
    examples = {
        "reconcile --dry-run": "Report findings and change nothing.",
        "reconcile --cell cell1 --grace 0": "Repair one cell without waiting.",
    }

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only report findings, and change nothing")
        parser.add_argument(
            "--cell", action="append", default=[], metavar="NAME", help="compare only this cell; repeatable"
        )
        parser.add_argument(
            "--grace", type=float, metavar="SECONDS", help="repair what was first found so long ago; 0: at once"
        )
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        known, grace = cell_aliases(), options["grace"]
        for name in options["cell"]:
            if name not in known:
                raise CommandError(f"--cell: there is no cell {name}. Known cells: {', '.join(known)}.")
        if grace is not None and not grace >= 0:
            raise CommandError(f"--grace: {grace:g} is not a number of seconds from 0 on.")
        report = reconciler.reconcile(options["cell"], is_dry_run=options["dry_run"], grace_seconds=grace)
        self.stdout.write(json.dumps(_body(report), indent=2) if options["json"] else "\n".join(_lines(report)))
        if report.left or report.down:
            sys.exit(SOMETHING_LEFT)


def _body(report: ReconciliationReport) -> dict[str, Any]:
    return {"findings": [_finding(one) for one in report.judged], "missing_cells": report.down}


def _finding(one: ReconciledFinding) -> dict[str, Any]:
    return {
        "kind": one.kind.name,
        "severity": one.kind.severity,
        "subject": one.found.subject,
        "cell": one.found.cell,
        "instance_uuid": one.found.instance_uuid,
        "detail": one.found.detail,
        "outcome": one.outcome,
        "note": one.note,
    }


def _lines(report: ReconciliationReport) -> list[str]:
    lines = [
        f"{one.outcome}: {one.kind.name} ({one.kind.severity}): {one.found.detail} {one.note}".rstrip()
        for one in report.judged
    ]
    lines += [f"{cell} was left out: {reason}" for cell, reason in sorted(report.down.items())]
    return lines or ["Everything agrees."]
