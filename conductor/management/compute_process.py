"""Process of a compute agent: one host, one queue, a local journal, and no database."""

from __future__ import annotations

import json
import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import connections

from conductor import plugins
from conductor.actors import compute as compute_actors
from conductor.compute.agent import ComputeAgent
from conductor.compute.console_relay import RelayAddress
from conductor.compute.hosts import HostConfig
from conductor.core import garbage
from conductor.image import store
from conductor.rpc import broker, identities, keys, trust
from conductor.rpc.identities import HostIdentity, IdentityUnusable
from conductor.rpc.messages import RefusalsCounted
from conductor.rpc.refusals import Refusals

log = logging.getLogger(__name__)

THREADS = 2  # they only receive commands: the agent executes them on threads of its own
PREFETCH = 8
STOP_MILLISECONDS = 5_000
DRAIN_SECONDS = 2.0
START_POLL_SECONDS = 0.05
QUIET_SECONDS = 3.0  # without an answer, until the process says that it waits
REFUSALS_SECONDS = 5.0  # interval of reports of refused messages
HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
ALL_ADDRESSES = ("0.0.0.0", "::")
NO_DATABASE = "conductor.management.no_database"


def forbid_databases() -> None:
    """Remove all databases from this process: no query can succeed, and no address or password is left in it."""
    for connection in connections.all(initialized_only=True):
        connection.close()
        del connections[connection.alias]
    keys.use(None)
    none = connections.configure_settings({"default": {"ENGINE": NO_DATABASE}})["default"]
    for alias in connections:
        connections.settings[alias] = dict(none)


def host_config(host: str, cell: str, driver: str, *, zone: str, options: Sequence[str]) -> HostConfig:
    """Return the validated configuration of the command line. Raises CommandError."""
    for name, value in (("--host", host), ("--cell", cell)):
        if not HOST_NAME.fullmatch(value):
            raise CommandError(f'{name}: "{value}" is not a name (letters, digits, dots, dashes and underscores).')
    known = plugins.registry().drivers
    if driver not in known:
        raise CommandError(f"--driver: there is no driver {driver}. Known drivers: {', '.join(sorted(known))}.")
    return HostConfig(
        host=host,
        cell=cell,
        driver=driver,
        availability_zone=zone,
        options=dict(_option(text) for text in options),
        journal_path=Path(settings.NOVELLA_DATA) / "agents" / f"{host}.sqlite3",
    )


def load_identity(config: HostConfig) -> None:
    """Sign as the host, and trust the conductors in its identity. Raises CommandError for one that is not enrolled."""
    path = identities.path_of(Path(settings.NOVELLA_DATA), config.host)
    try:
        found = identities.read(path)
    except FileNotFoundError:
        raise CommandError(
            f"Host {config.host} is not enrolled: {path} is missing. Where the databases are, run novella hosts "
            f"enroll {config.host} --cell {config.cell} and bring the file here, or get a token with --token and run "
            "novella hosts redeem here."
        ) from None
    except IdentityUnusable as error:
        raise CommandError(error.message) from None
    if (found.host, found.cell) != (config.host, config.cell):
        raise CommandError(f"{path} is the identity of host {found.host} in cell {found.cell}.")
    identity = HostIdentity(path, found)
    identity.is_answer_requested = True
    keys.serve_as(identity)


def _option(text: str) -> tuple[str, Any]:
    """Parse `key=value`; a value that is JSON (a number, true, a list) is taken as such, any other as text."""
    key, found, value = text.partition("=")
    if not found or not key:
        raise CommandError(f'--option: "{text}" is not of the form key=value.')
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def console_place() -> RelayAddress | None:
    """Return the configured address for console connections; None without one."""
    if settings.NOVELLA_CONSOLE_LISTEN is None:
        return None
    listen, port = settings.NOVELLA_CONSOLE_LISTEN
    own = socket.getfqdn() if listen in ALL_ADDRESSES else listen
    return RelayAddress(listen, port, settings.NOVELLA_CONSOLE_ADDRESS or own)


class ComputeProcess:
    """The agent of one host, with its queue."""

    def __init__(self, config: HostConfig, drivers: Mapping[str, Any] | None = None) -> None:
        self._agent = ComputeAgent(
            [config],
            drivers or plugins.registry().drivers,
            store.open_image,
            settings.NOVELLA_HEARTBEAT_SECONDS,
            store_image=store.store_image,
        )
        self._agent.relay_consoles(console_place())
        self._config, self._refusals = config, Refusals()
        trust.on_refusal(self._refusals.note)
        self._worker = broker.make_worker([broker.compute_queue(config.host)], threads=THREADS, prefetch=PREFETCH)

    def serve(
        self,
        stop: threading.Event,
        on_ready: Callable[[], None],
        on_waiting: Callable[[], None] = lambda: None,
        *,
        limit_seconds: float = 0.0,
    ) -> None:
        """Serve until `stop`; `on_ready` is called once a conductor has stored a report of the host.

        `on_waiting` is called once when a started host gets no answer for a few seconds. Raises CommandError when it
        gets none within `limit_seconds`; 0 is no limit.
        """
        compute_actors.serve(self._agent)
        self._agent.start()
        self._worker.start()
        while not self._agent.has_started():
            if stop.wait(START_POLL_SECONDS):
                return
        if not self._await_conductor(stop, on_waiting, limit_seconds):
            return
        garbage.settle()
        on_ready()
        while not stop.wait(REFUSALS_SECONDS):
            self._report_refusals()

    def _await_conductor(self, stop: threading.Event, on_waiting: Callable[[], None], limit_seconds: float) -> bool:
        """Wait until a conductor has stored a report; False when stopped before."""
        identity = keys.identity_of(self._config.host)
        began_at, is_announced = time.monotonic(), False
        while identity is not None and identity.is_answer_requested:
            if stop.wait(START_POLL_SECONDS):
                return False
            waited = time.monotonic() - began_at
            if not is_announced and waited >= QUIET_SECONDS:
                is_announced = True
                on_waiting()
            if limit_seconds and waited >= limit_seconds:
                raise CommandError(
                    f"No conductor of {self._config.cell} has taken a report of {self._config.host} within "
                    f"{limit_seconds:g} seconds (NOVELLA_CONDUCTOR_SECONDS)."
                )
        return True

    def _report_refusals(self) -> None:
        """Report the refused commands to the conductor, which audits them."""
        rows = self._refusals.take()
        if rows:
            log.warning("commands refused: %s", [row.to_json() for row in rows])
            counted = RefusalsCounted(host=self._config.host, refusals=[row.to_json() for row in rows])
            broker.send_to_conductor(self._config.cell, counted)

    def stop(self) -> None:
        """Stop: receive no more commands, and wait briefly for those under way. Conductors resend interrupted ones."""
        self._worker.stop(timeout=STOP_MILLISECONDS)
        self._agent.stop()
        broker.drain(DRAIN_SECONDS)
