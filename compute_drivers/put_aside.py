"""How a guest that is off leaves its host: its folder is put aside until the move is confirmed or reverted.

A ticket in it tells the destination that what it sees at a path is the very folder that the source means.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from compute_drivers.host_places import HostPlaces, files
from conductor.core.identifiers import uuid_or_none

TICKET = "ticket"
# A folder that has this is on its way back; whoever finds it goes on with that.
COMING_BACK = "coming-back"
CONSOLE = "console.log"


def put_aside(places: HostPlaces, uuid: str) -> None:
    """With its console. Raises DriverError."""
    folder = places.folder_of(uuid)
    with files("The guest could not be put aside"):
        (folder / TICKET).write_text(secrets.token_hex(16))
        _move(places.console_of(uuid), folder / CONSOLE)
        os.replace(folder, places.kept_of(uuid))


def told_of(places: HostPlaces, uuid: str) -> Mapping[str, Any]:
    """What the destination needs to find it. Raises DriverError."""
    kept = places.kept_of(uuid)
    with files("The guest that was put aside cannot be read"):
        return {"path": str(kept), "ticket": (kept / TICKET).read_text()}


def found(told: Mapping[str, Any]) -> Path | None:
    """The folder that the source told of; None when this host does not see the very same."""
    source = Path(str(told.get("path", "")))
    try:
        if source.is_absolute() and (source / TICKET).read_text() == told.get("ticket"):
            return source
    except OSError:
        pass
    return None


def drop(places: HostPlaces, uuid: str) -> None:
    """What was kept is not needed any more. Raises DriverError."""
    with files("What was kept of the guest could not be removed"):
        if places.kept_of(uuid).exists():
            shutil.rmtree(places.kept_of(uuid))


def kept(places: HostPlaces) -> list[str]:
    """Uuids of the guests that are put aside. Raises DriverError."""
    with files("What was put aside cannot be listed"):
        folder = places.kept_dir
        return sorted(path.name for path in folder.iterdir() if uuid_or_none(path.name)) if folder.exists() else []


def is_away(places: HostPlaces, uuid: str) -> bool:
    """Whether it went out, and is not all the way back."""
    return places.kept_of(uuid).exists() or (places.folder_of(uuid) / COMING_BACK).exists()


def begin_return(places: HostPlaces, uuid: str, destroy: Callable[[str], None]) -> None:
    """Bring its folder back, over whatever lies there. Raises OSError."""
    folder, kept = places.folder_of(uuid), places.kept_of(uuid)
    if kept.exists():
        destroy(uuid)
        (kept / COMING_BACK).touch()
        os.replace(kept, folder)
    _move(folder / CONSOLE, places.console_of(uuid))


def end_return(places: HostPlaces, uuid: str) -> None:
    """It is there again as if it had never gone. Raises OSError."""
    folder = places.folder_of(uuid)
    (folder / TICKET).unlink(missing_ok=True)
    (folder / COMING_BACK).unlink()


def _move(path: Path, target: Path) -> None:
    """Nothing where there is nothing, or no more."""
    if path.exists():
        os.replace(path, target)
