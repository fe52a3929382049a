"""`novella web`: pages, APIs and websockets in a process of their own, or in several behind one port."""

from __future__ import annotations

from argparse import ArgumentParser
from functools import partial
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from conductor.actors import periodic
from conductor.cells.lookup import API_ALIAS
from conductor.management import preflight, web_server
from conductor.management.first_start import url_of
from conductor.manual import ManualCommand
from conductor.rpc import broker

DRAIN_SECONDS = 2.0


class Command(ManualCommand):
    help = "Serve pages, APIs and WebSockets. Conductors and hosts run in other processes."
    requires_system_checks = []
    exit_codes = {
        0: "A signal stopped it.",
        1: "It could not start; the reason is printed.",
    }
    examples = {
        "web --port 8000 --workers 4": "Serve one port with four processes.",
    }

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--host", default=settings.NOVELLA_HOST, help="address to listen on (default: NOVELLA_HOST)"
        )
        parser.add_argument("--port", default=settings.NOVELLA_PORT, type=int, help="port (default: NOVELLA_PORT)")
        parser.add_argument("--workers", default=1, type=int, help="number of processes behind the port (default: 1)")

    def handle(self, *args: Any, **options: Any) -> None:
        host, port, workers = options["host"], options["port"], options["workers"]
        if workers < 1:
            raise CommandError("--workers: at least 1")
        preflight.require_broker(settings.NOVELLA_BROKER_URL)
        preflight.require_server_databases()
        preflight.require_certificate(settings.NOVELLA_TLS_CERT, settings.NOVELLA_TLS_KEY)
        preflight.require_free_port(host, port)
        with preflight.beside_others(settings.NOVELLA_DATA):
            preflight.require_schema([API_ALIAS])
            preflight.require_signing()
            tickers = periodic.web_tickers()
            for ticker in tickers:
                ticker.start()
            config = web_server.config_of(settings.NOVELLA_WEB_APPLICATION, host, port, workers=workers)
            try:
                web_server.serve(config, partial(self._say_ready, url_of(host, port)))
            finally:
                for ticker in tickers:
                    ticker.stop()
                broker.drain(DRAIN_SECONDS)

    def _say_ready(self, url: str) -> None:
        self.stdout.write(f"Novella web is ready: {url}")
        self.stdout.flush()
