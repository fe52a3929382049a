"""`novella upgrade_check`: processes of older versions, and workflows that this version cannot continue."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from typing import Any

from django.db.models import Count

from conductor.cell_db.models import Service
from conductor.cells.lookup import cell_aliases, journal_aliases
from conductor.core.states import FINAL_RUN_STATES
from conductor.journal.models import WorkflowRun
from conductor.manual import ManualCommand
from conductor.rpc.versions import SERVICE_VERSION
from conductor.workflows import catalog

CANNOT_GO_ON = 1


class Command(ManualCommand):
    help = (
        "List processes of older versions and the workflows that need them. A workflow needs an older version when "
        "it follows a flow that this version does not have: stop the older version when it has ended."
    )
    requires_system_checks = []
    exit_codes = {
        0: "This version can continue every workflow.",
        1: "A workflow needs an older version.",
    }
    examples = {
        "upgrade_check --json": "Print the answer for a program.",
    }

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        older = [row for alias in cell_aliases() for row in _older(alias)]
        flows = [row for alias in journal_aliases() for row in _flows(alias)]
        body = {"service_version": SERVICE_VERSION, "older": older, "flows": flows}
        self.stdout.write(json.dumps(body, indent=2) if options["json"] else "\n".join(_lines(older, flows)))
        if not all(row["is_known"] for row in flows):
            sys.exit(CANNOT_GO_ON)


def _older(alias: str) -> list[dict[str, Any]]:
    rows = Service.objects.using(alias).filter(version__lt=SERVICE_VERSION).order_by("binary", "host")
    return [{"cell": alias, **row} for row in rows.values("binary", "host", "version")]


def _flows(alias: str) -> list[dict[str, Any]]:
    """Return unfinished workflows by flow and version; version 0 has not begun, and begins with the newest."""
    rows = WorkflowRun.objects.using(alias).exclude(state__in=FINAL_RUN_STATES).values("flow", "flow_version")
    return [
        {
            "database": alias,
            "flow": row["flow"],
            "version": row["flow_version"],
            "runs": row["runs"],
            "is_known": catalog.is_known(row["flow"], row["flow_version"]),
        }
        for row in rows.annotate(runs=Count("pk")).order_by("flow", "flow_version")
    ]


def _lines(older: list[dict[str, Any]], flows: list[dict[str, Any]]) -> list[str]:
    lines = [f"{row['binary']} {row['host']} in {row['cell']} runs version {row['version']}" for row in older]
    lines += [
        f"{row['runs']} of {row['flow']} version {row['version']} in {row['database']} "
        + ("go on" if row["is_known"] else "need another version of Novella")
        for row in flows
    ]
    return [f"This is service version {SERVICE_VERSION}.", *lines]
