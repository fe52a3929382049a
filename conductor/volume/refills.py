"""Replaces the data of a volume."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from conductor.volume.store import fill, path_of


def refill(volume_uuid: UUID | str, size_gb: int, source: Path, disk_format: str) -> None:
    """Replace the data by the content of `source`. The old data are restored where that fails.

    Raises as `store.fill`. Repeatable after an interruption.
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
