"""What a container reads about itself: a folder with the files of a config drive."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from compute_drivers.guest_files import files_of
from compute_drivers.host_places import files
from conductor.core.compute_driver import GuestSpec


def write(folder: Path, guest: GuestSpec, first_id: int, password: str = "") -> None:
    """Make the folder anew; only root of the container may read it. Raises BuildAborted, DriverError."""
    said = files_of(guest, password)
    part = folder.with_name(f"{folder.name}.part")
    with files("What the guest shall know could not be written"):
        for left in (part, folder):
            if left.exists():
                shutil.rmtree(left)
        part.mkdir(mode=0o700)
        for path, data in said.items():
            (part / path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            (part / path).write_bytes(data)
        for parent, _, names in os.walk(part):
            os.chown(parent, first_id, first_id)
            for name in names:
                os.chmod(Path(parent) / name, 0o400)
                os.chown(Path(parent) / name, first_id, first_id)
        os.replace(part, folder)
