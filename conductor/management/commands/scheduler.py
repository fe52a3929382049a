"""`novella scheduler`: a scheduler in a process of its own."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from conductor.cells.lookup import journal_aliases
from conductor.management import preflight
from conductor.management.compute_process import HOST_NAME
from conductor.management.scheduler_process import SchedulerProcess
from conductor.management.stopping import stop_requested
from conductor.manual import ManualCommand


class Command(ManualCommand):
    help = "Run a scheduler that conductors call over the broker. They do so if their NOVELLA_SCHEDULER is service."
    requires_system_checks = []
    exit_codes = {
        0: "A signal stopped the scheduler.",
        1: "It could not start; the reason is printed.",
    }
    examples = {
        "scheduler --name scheduler-1": "Answer calls of the conductors; run several, each with a name of its own.",
    }

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--name", required=True, help="unique name of the scheduler")

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["name"]
        if not HOST_NAME.fullmatch(name):
            raise CommandError(f'--name: "{name}" is not a name (letters, digits, dots, dashes and underscores).')
        preflight.require_broker(settings.NOVELLA_BROKER_URL)
        preflight.require_server_databases()
        preflight.require_membership()
        preflight.require_schema(journal_aliases())
        preflight.require_signing()
        with preflight.beside_others(settings.NOVELLA_DATA):
            stop = stop_requested()
            process = SchedulerProcess(name)
            process.start()
            self.stdout.write(f"Novella scheduler is ready: {name}")
            self.stdout.flush()
            try:
                process.serve(stop)
            finally:
                process.stop()
