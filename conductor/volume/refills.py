"""Giving a volume other data than it has."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from conductor.volume.store import fill, path_of


def refill(volume_uuid: UUID | str, size_gb: int, source: Path, disk_format: str) -> None:
    """Have what is in `source` instead of what is there. The old data come back where the new ones cannot be had.

    Raises as `store.fill`. Called again after it was cut off, it begins anew.
    """
    path = path_of(volume_uuid)
    aside = path.with_suffix(".old")
    if path.exists():
        path.replace(aside)
    try:
        fill(volume_uuid, size_gb, source, disk_format)
    except BaseException:
        if aside.exists() and not path.exists():
            aside.replace(path)
        raise
    aside.unlink(missing_ok=True)
