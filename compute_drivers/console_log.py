"""Reads the console logs of guests, and limits the disk space that they take."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

LARGEST_READ = 1 << 20
KEPT_BYTES = 4 << 20
PUNCH_AFTER_BYTES = 16 << 20
BLOCK = 4096
_KEEP_SIZE, _PUNCH_HOLE = 0x01, 0x02
_libc = ctypes.CDLL(None, use_errno=True)


def read(path: Path, offset: int) -> bytes:
    """Return at most a MiB from `offset` on; b"" at the end, or where there is no file."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(LARGEST_READ)
    except FileNotFoundError:
        return b""


def trim(path: Path) -> None:
    """Free the blocks of all but the last MiB of a large log by punching a hole, so that offsets stay valid.

    The hole reads as zeros. Does nothing where the file system cannot punch holes.
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
