"""Checks free space on the disks of images, volumes, backups and databases. Writers leave some of it free."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conductor.core.errors import StorageFull

GIB = 1 << 30
_lock = threading.Lock()
_reserved: dict[int, int] = {}  # bytes that writers of this process still need, by device


def require(folder: Path, kept_free_gb: float, size: int = 0) -> None:
    """Raise StorageFull unless `size` bytes fit on the disk of `folder` and `kept_free_gb` GiB stay free."""
    _require(_existing(folder), kept_free_gb, size)


@contextmanager
def reserved(folder: Path, kept_free_gb: float, size: int) -> Iterator[None]:
    """Check free space as `require` does, and reserve `size` bytes for this writer until the end of the block.

    Other writers of this process count reserved bytes as taken.
    """
    there = _existing(folder)
    device = there.stat().st_dev
    with _lock:
        _require(there, kept_free_gb, size + _reserved.get(device, 0))
        _reserved[device] = _reserved.get(device, 0) + size
    try:
        yield
    finally:
        with _lock:
            _reserved[device] -= size


def _require(there: Path, kept_free_gb: float, size: int) -> None:
    found = os.statvfs(there)
    if found.f_bavail * found.f_frsize - size < kept_free_gb * GIB:
        raise StorageFull("The storage of this cloud has no room for that; ask its operator for more.")


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())
