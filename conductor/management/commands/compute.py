"""`novella compute`: the compute agent of one host, in a process of its own."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from conductor.management import preflight
from conductor.management.compute_process import ComputeProcess, forbid_databases, host_config, load_identity
from conductor.management.stopping import stop_requested
from conductor.manual import ManualCommand


class Command(ManualCommand):
    help = "Run the compute agent of one host. It needs the broker and its data directory, and no database."
    requires_system_checks = []
    exit_codes = {
        0: "A signal stopped the agent.",
        1: "It could not start, or no conductor took a report of its host in time; the reason is printed.",
    }
    examples = {
        "compute --host rack1-03 --cell cell1 --driver libvirt --zone az-1": "Run the agent of a host with QEMU.",
        "compute --host sim-1 --cell cell1 --driver fake --option memory_mb=65536": "Run a simulated host of 64 GiB.",
    }

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", required=True, help="unique name of the host")
        parser.add_argument("--cell", required=True, help="cell to which the host belongs")
        parser.add_argument("--driver", required=True, help="name of the driver, such as libvirt or fake")
        parser.add_argument("--zone", default="nova", help="availability zone of a new host (default: nova)")
        parser.add_argument(
            "--option", action="append", default=[], metavar="KEY=VALUE", help="option of the driver; repeatable"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        forbid_databases()
        preflight.require_broker(settings.NOVELLA_BROKER_URL)
        preflight.require_writable(settings.NOVELLA_DATA)
        config = host_config(
            options["host"], options["cell"], options["driver"], zone=options["zone"], options=options["option"]
        )
        load_identity(config)
        stop = stop_requested()
        process = ComputeProcess(config)
        try:
            process.serve(
                stop,
                lambda: self._say_ready(f"{config.host} of {config.cell} by driver {config.driver}"),
                lambda: self._say_waiting(config.cell),
                limit_seconds=settings.NOVELLA_CONDUCTOR_SECONDS,
            )
        finally:
            process.stop()

    def _say_waiting(self, cell: str) -> None:
        broker = urlsplit(settings.NOVELLA_BROKER_URL)
        address = broker._replace(netloc=broker.netloc.rpartition("@")[2], query="").geturl()
        self.stdout.write(f"Waiting for a conductor of {cell} at {address}")
        self.stdout.flush()

    def _say_ready(self, what: str) -> None:
        self.stdout.write(f"Novella compute is ready: {what}")
        self.stdout.flush()
