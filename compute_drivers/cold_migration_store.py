"""Retains guests at the source of a cold migration until it is confirmed or reverted.

A ticket in the retained folder proves to the destination that it sees the very folder that the source means.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from compute_drivers.host_paths import HostPaths, os_errors_as
from conductor.core.identifiers import uuid_or_none

TICKET = "ticket"
# Marks a folder whose restore has begun, so that an interrupted restore is continued.
RESTORING = "coming-back"
CONSOLE = "console.log"


class ColdMigrationStore:
    """Moves folders of guests between `instances` and `kept`."""

    def __init__(self, paths: HostPaths) -> None:
        self._paths = paths

    def retain(self, uuid: str) -> None:
        """Move the guest's folder and console log to the retained ones. Raises DriverError."""
        folder = self._paths.folder_of(uuid)
        with os_errors_as("The guest could not be put aside"):
            (folder / TICKET).write_text(secrets.token_hex(16))
            _move_if_exists(self._paths.console_of(uuid), folder / CONSOLE)
            os.replace(folder, self._paths.kept_of(uuid))

    def handle_of(self, uuid: str) -> Mapping[str, Any]:
        """Return path and ticket, by which `find_retained` finds the folder at the destination. Raises DriverError."""
        kept = self._paths.kept_of(uuid)
        with os_errors_as("The guest that was put aside cannot be read"):
            return {"path": str(kept), "ticket": (kept / TICKET).read_text()}

    def discard(self, uuid: str) -> None:
        """Remove the retained folder after the migration was confirmed. Raises DriverError."""
        with os_errors_as("What was kept of the guest could not be removed"):
            if self._paths.kept_of(uuid).exists():
                shutil.rmtree(self._paths.kept_of(uuid))

    def list_retained(self) -> list[str]:
        """Return the uuids of retained guests. Raises DriverError."""
        with os_errors_as("What was put aside cannot be listed"):
            folder = self._paths.kept_dir
            return sorted(path.name for path in folder.iterdir() if uuid_or_none(path.name)) if folder.exists() else []

    def is_retained(self, uuid: str) -> bool:
        """Return whether the guest was retained and is not completely restored."""
        return self._paths.kept_of(uuid).exists() or (self._paths.folder_of(uuid) / RESTORING).exists()

    def begin_restore(self, uuid: str, destroy: Callable[[str], None]) -> None:
        """Move the folder back, after `destroy` removed what took its place. Raises OSError."""
        folder, kept = self._paths.folder_of(uuid), self._paths.kept_of(uuid)
        if kept.exists():
            destroy(uuid)
            (kept / RESTORING).touch()
            os.replace(kept, folder)
        _move_if_exists(folder / CONSOLE, self._paths.console_of(uuid))

    def end_restore(self, uuid: str) -> None:
        """Remove ticket and mark: the guest is as it was before the migration. Raises OSError."""
        folder = self._paths.folder_of(uuid)
        (folder / TICKET).unlink(missing_ok=True)
        (folder / RESTORING).unlink()


def find_retained(handle: Mapping[str, Any]) -> Path | None:
    """Return the folder that the source's `handle_of` names; None when this host does not see that very folder."""
    folder = Path(str(handle.get("path", "")))
    try:
        if folder.is_absolute() and (folder / TICKET).read_text() == handle.get("ticket"):
            return folder
    except OSError:
        pass
    return None


def _move_if_exists(path: Path, target: Path) -> None:
    if path.exists():
        os.replace(path, target)
