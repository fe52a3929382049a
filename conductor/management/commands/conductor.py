"""`novella conductor`: a conductor in a process of its own."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings

from conductor.management import preflight
from conductor.management.conductor_process import ConductorProcess, charge, conductor_name, keep_to_core
from conductor.management.stopping import stop_requested
from conductor.manual import ManualCommand


class Command(ManualCommand):
    help = "Run a conductor. It serves the API level and all cells, or only those that are named."
    requires_system_checks = []
    exit_codes = {
        0: "A signal stopped the conductor.",
        1: "It could not start; the reason is printed.",
    }
    examples = {
        "conductor --name conductor-1": "Serve the API level and every cell.",
        "conductor --cell cell1 --core 0": "Serve one cell, on the first core of the machine.",
    }

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--cell", action="append", default=[], help="serve this cell; repeatable")
        parser.add_argument("--api-level", action="store_true", help="serve the API level (and cell0)")
        parser.add_argument(
            "--name",
            default=conductor_name(),
            help="unique name in the list of services (default: the machine's name)",
        )
        parser.add_argument("--core", type=int, help="pin it to this CPU core, counted from 0 (default: not pinned)")

    def handle(self, *args: Any, **options: Any) -> None:
        preflight.require_broker(settings.NOVELLA_BROKER_URL)
        preflight.require_server_databases()
        preflight.require_membership()
        served = charge(cells=options["cell"], is_api_level=options["api_level"])
        preflight.require_schema(served.aliases)
        preflight.require_signing()
        if options["core"] is not None:
            keep_to_core(options["core"])
        with preflight.beside_others(settings.NOVELLA_DATA):
            stop = stop_requested()
            process = ConductorProcess(served, options["name"])
            process.start()
            self.stdout.write(f"Novella conductor is ready: {options['name']} serves {served}")
            self.stdout.flush()
            try:
                process.serve(stop)
            finally:
                process.stop()
