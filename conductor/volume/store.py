"""The data of volumes: one sparse file for each under the data directory, which hosts open by its path."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import UUID

from django.conf import settings

GIB = 1 << 30


def path_of(volume_uuid: UUID | str) -> Path:
    """Where the data of a volume are."""
    return Path(settings.NOVELLA_DATA) / "volumes" / f"{volume_uuid}.raw"


def ensure(volume_uuid: UUID | str, size_gb: int) -> None:
    """Have a file of this size; what is in it stays, and it never shrinks."""
    path = path_of(volume_uuid)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(descriptor).st_size < size_gb * GIB:
            os.ftruncate(descriptor, size_gb * GIB)
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(volume_uuid: UUID | str) -> None:
    """Drop the data, if there are any."""
    path_of(volume_uuid).unlink(missing_ok=True)
