"""What must hold before anything starts; each fault is one line that names the variable and the fix."""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path
from typing import IO

from django.core.management.base import CommandError


def require_writable(directory: Path) -> None:
    """The data folder exists and takes files; raises CommandError."""
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
    """Hold the data folder for this process; keep the returned file open. Raises CommandError.

    The kernel lets go of it when the process ends, however it ends. So whoever holds it knows that every earlier
    owner of a lease in these databases is dead.
    """
    handle = (directory / "novella.lock").open("w")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise CommandError(
            f"NOVELLA_DATA: another Novella runs on {directory}. Stop it or choose another folder."
        ) from None
    return handle


def require_free_port(host: str, port: int) -> None:
    """Nobody listens where we are about to; raises CommandError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise CommandError(
                f"NOVELLA_PORT: cannot listen on {host}:{port} ({error.strerror}). Set NOVELLA_PORT to a free one."
            ) from None
