"""Preflight checks before a process starts; each failure is one line that names the variable and the fix."""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from django.core.management.base import CommandError
from django.db import DatabaseError, InterfaceError, connections

from conductor.actors import liveness
from conductor.core.errors import Invalid, Unavailable
from conductor.rpc.key_store import STORE
from conductor.services.operations import readiness

log = logging.getLogger(__name__)


def require_writable(directory: Path) -> None:
    """Require that the data folder exists and is writable. Raises CommandError."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe = directory / f".probe-{os.getpid()}"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise CommandError(
            f"NOVELLA_DATA: cannot write to {directory} ({error.strerror}). Choose another folder or mend its rights."
        ) from None


def require_alone(directory: Path) -> IO[str]:
    """Lock the data folder for this process; keep the returned file open. Raises CommandError.

    The kernel releases the lock when the process ends, in any way. So its holder knows that every earlier owner of a
    lease in these databases is dead.
    """
    return _hold(directory, fcntl.LOCK_EX, f"another Novella runs on {directory}. Stop it or choose another folder.")


@contextmanager
def beside_others(directory: Path) -> Iterator[None]:
    """Share the data folder with other processes, unless one has it exclusively. Raises CommandError."""
    require_writable(directory)
    refusal = f"a Novella that is one process (novella up) runs on {directory}. Stop it or choose another folder."
    with _hold(directory, fcntl.LOCK_SH, refusal):
        yield


def _hold(directory: Path, kind: int, refusal: str) -> IO[str]:
    handle = (directory / "novella.lock").open("a")
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except OSError:
        handle.close()
        raise CommandError(f"NOVELLA_DATA: {refusal}") from None
    return handle


def require_broker(url: str) -> None:
    """Require a broker outside the process, for separate processes. Raises CommandError."""
    if not url:
        raise CommandError(
            "NOVELLA_BROKER_URL: not set, and a broker in memory reaches no other process. Set it to amqp://… or "
            "redis://…, the same for all processes."
        )


def require_server_databases() -> None:
    """Raise CommandError unless every database is on a PostgreSQL server, as several processes need it.

    A SQLite file has one writer at a time, and the group commit that makes up for that works within one process.
    """
    if any(connection.vendor == "sqlite" for connection in connections.all()):
        raise CommandError(
            "NOVELLA_DATABASE_URL: not set for every database, and SQLite serves one process. "
            "Set it to postgresql://…, the same for all processes, or run everything in one process with up."
        )


def require_membership() -> None:
    """Require that the configured group service is of a known kind; it need not respond. Raises CommandError."""
    try:
        liveness.memberships()
    except Invalid as error:
        raise CommandError(error.message) from None


def require_schema(aliases: Iterable[str]) -> None:
    """Require the schema of this code; a database that is down may be up later. Raises CommandError."""
    for alias, reason in readiness.missing(aliases).items():
        if reason != readiness.UNRESPONSIVE:
            raise CommandError(f"Database {alias}: {reason}. Run novella seed once, before the other processes.")
        log.warning("database %s %s; going on without it", alias, reason)


def require_certificate(certificate: Path | None, key: Path | None) -> None:
    """Require that the certificate and its key are usable, if configured. Raises CommandError."""
    if certificate is None or key is None:
        return
    for variable, path in (("NOVELLA_TLS_CERT", certificate), ("NOVELLA_TLS_KEY", key)):
        if not os.access(path, os.R_OK):
            raise CommandError(f"{variable}: cannot read {path}. Name a PEM file that this account can read.")
    if key.stat().st_mode & 0o007:
        raise CommandError(f"NOVELLA_TLS_KEY: every account can use {key}. Keep it to yourself: chmod o= {key}")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except (ssl.SSLError, OSError) as error:
        reason = getattr(error, "reason", None) or error.strerror
        raise CommandError(
            f"NOVELLA_TLS_CERT: {certificate} and {key} are no certificate with its key ({reason})."
        ) from None


def require_signing() -> None:
    """Require that this process can sign messages; a database that is down may be up later. Raises CommandError."""
    try:
        STORE.signer()
    except Unavailable as error:
        raise CommandError(f"NOVELLA_SECRET_KEY: {error.message}") from None
    except (DatabaseError, InterfaceError):
        log.warning("the keys for messages cannot be read now; messages leave once they can")


def require_free_port(host: str, port: int) -> None:
    """Require that no other process listens on the address and port. Raises CommandError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise CommandError(
                f"NOVELLA_PORT: cannot listen on {host}:{port} ({error.strerror}). Set NOVELLA_PORT to a free one."
            ) from None
