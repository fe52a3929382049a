"""Consoles of guests: logs that QEMU appends to and that never take more than their share of the disk, and sockets."""

from __future__ import annotations

import ctypes
import os
import socket
from pathlib import Path

from conductor.core.errors import DriverError

LARGEST_READ = 1 << 20
JOIN_SECONDS = 5.0
KEPT_BYTES = 4 << 20
PUNCH_AFTER_BYTES = 16 << 20
BLOCK = 4096
_KEEP_SIZE, _PUNCH_HOLE = 0x01, 0x02
_libc = ctypes.CDLL(None, use_errno=True)


def read(path: Path, offset: int) -> bytes:
    """At most a MiB from `offset` on; b"" when there is no more, or no file."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(LARGEST_READ)
    except FileNotFoundError:
        return b""


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


def trim(path: Path) -> None:
    """Give the blocks of all but the last few MiB of a large log back to the disk; every offset stays true.

    What was there then reads as zeros. Where the file system cannot do that, nothing happens.
    """
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return
    try:
        found = os.fstat(file)
        length = (found.st_size - KEPT_BYTES) // BLOCK * BLOCK
        if found.st_blocks * 512 > PUNCH_AFTER_BYTES and length > 0:
            _libc.fallocate(file, _PUNCH_HOLE | _KEEP_SIZE, ctypes.c_long(0), ctypes.c_long(length))
    finally:
        os.close(file)
