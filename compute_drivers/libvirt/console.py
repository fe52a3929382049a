"""Connections with the consoles of guests."""

from __future__ import annotations

import socket
from pathlib import Path

from conductor.core.errors import DriverError

JOIN_SECONDS = 5.0


def join(path: Path) -> socket.socket:
    """A connection with a console's socket. Raises DriverError when nobody is at its other end."""
    joined = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        joined.settimeout(JOIN_SECONDS)
        joined.connect(str(path))
        joined.settimeout(None)
    except OSError as error:
        joined.close()
        raise DriverError("The guest has no such console now: it is off, or was started without one.") from error
    return joined
