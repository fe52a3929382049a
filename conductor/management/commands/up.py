"""`novella up`: the embedded default, all of it in one process."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.conf import settings

from conductor.compute.hosts import HostConfig
from conductor.management import first_start, local_network, preflight
from conductor.management.default_fleet import default_fleet
from conductor.management.embedded import Embedded
from conductor.management.tiny_linux.builder import CannotBuild
from conductor.manual import ManualCommand
from conductor.services.accounts.credentials import PASSWORDS_FILE
from conductor.services.audit import seals


class Command(ManualCommand):
    help = (
        "Start the whole cloud in this process. It runs the web server, conductors, the scheduler and agents, on "
        "SQLite files."
    )
    exit_codes = {
        0: "A signal stopped it; workflows continue at the next start.",
        1: "It could not start; the reason is printed.",
    }
    examples = {
        "up": "Start on http://127.0.0.1:8000 and print how to sign in.",
    }

    def handle(self, *args: Any, **options: Any) -> None:
        self._spare_the_terminal()
        data_dir: Path = settings.NOVELLA_DATA
        preflight.require_writable(data_dir)
        held = preflight.require_alone(data_dir)
        preflight.require_membership()
        preflight.require_certificate(settings.NOVELLA_TLS_CERT, settings.NOVELLA_TLS_KEY)
        preflight.require_free_port(settings.NOVELLA_HOST, settings.NOVELLA_PORT)
        fleet = default_fleet(data_dir)
        self.stdout.write(fleet.remark)
        tiny_linux = self._tiny_linux(data_dir) if fleet.real_host else None
        passwords = first_start.prepare(data_dir, tiny_linux)
        # Until the server handles it, SIGTERM ends the start as Ctrl-C does, and leaves no network behind.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            with local_network.started(fleet, data_dir) as network:
                self._report(network.remark)
                self._serve(network.hosts, lambda: self._say_ready(data_dir, passwords))
        finally:
            held.close()

    def _report(self, remark: str) -> None:
        if remark:
            self.stdout.write(remark)

    def _serve(self, hosts: tuple[HostConfig, ...], on_ready: Callable[[], None]) -> None:
        embedded = Embedded(hosts)
        embedded.start()
        try:
            embedded.serve(on_ready)
        finally:
            embedded.stop()

    def _spare_the_terminal(self) -> None:
        """Log no seals of the audit log to a terminal: they are of use in a log that is kept."""
        if self.stderr.isatty():
            logging.getLogger(seals.__name__).setLevel(logging.WARNING)

    def _tiny_linux(self, data_dir: Path) -> Path | None:
        """Return the folder with a real Linux image; None when it cannot be built."""
        if not first_start.has_tiny_linux(data_dir):
            self.stdout.write(
                "Building the image tiny-linux from Debian packages; without a network this takes minutes."
            )
            self.stdout.flush()
        try:
            return first_start.build_tiny_linux(data_dir)
        except CannotBuild as reason:
            self.stdout.write(f"No image tiny-linux: {reason}")
            return None

    def _say_ready(self, data_dir: Path, passwords: dict[str, str]) -> None:
        """Print where to sign in; passwords only to a terminal, as other output may be a log that is kept."""
        kept_in = f"{data_dir}/{PASSWORDS_FILE}"
        sign_in = f"Sign in as demo or admin; their passwords are in {kept_in}"
        if self.stdout.isatty():
            sign_in = f"Sign in as demo with the password {passwords['demo']}; the password of admin is in {kept_in}"
        self.stdout.write(
            f"{sign_in}\n"
            f"For the openstack client: source {data_dir}/openrc.sh demo\n"
            f"Novella is ready: {first_start.base_url()}"
        )
        self.stdout.flush()
