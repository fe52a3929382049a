"""The disc that tells a guest who it is: metadata, keys, password and user data, as cloud-init reads them."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compute_drivers.guest_files import files_of
from conductor.core.compute_driver import GuestSpec
from conductor.core.errors import DriverError

NAME, RESCUE_NAME = "config.iso", "config-rescue.iso"
LABEL = "config-2"


def write(path: Path, guest: GuestSpec, password: str = "") -> None:
    """Make the disc anew; only its owner may read the file. Raises BuildAborted, DriverError."""
    part = path.with_name(f"{path.name}.part")
    try:
        data = disc(files_of(guest, password))
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
        os.replace(part, path)
    except OSError as error:
        raise DriverError(f"The config drive of the guest could not be made: {error.strerror}.") from error
    finally:
        part.unlink(missing_ok=True)


def disc(files: Mapping[str, bytes]) -> bytes:
    """An ISO 9660 image, with the long names that Linux and Windows look for."""
    import pycdlib  # here: it is only wanted where guests are built

    iso = pycdlib.PyCdlib()
    iso.new(interchange_level=3, joliet=3, rock_ridge="1.09", vol_ident=LABEL)
    folders: dict[str, str] = {"": ""}  # ours → the short name that the oldest readers see
    for number, (path, data) in enumerate(sorted(files.items())):
        folder, _, name = path.rpartition("/")
        _add_folder(iso, folders, folder)
        short = f"{folders[folder]}/F{number}.;1"
        iso.add_fp(io.BytesIO(data), len(data), short, rr_name=name, joliet_path=f"/{path}")
    made = io.BytesIO()
    iso.write_fp(made)
    iso.close()
    return made.getvalue()


def _add_folder(iso: Any, folders: dict[str, str], folder: str) -> None:
    if folder in folders:
        return
    parent, _, name = folder.rpartition("/")
    _add_folder(iso, folders, parent)
    folders[folder] = f"{folders[parent]}/D{len(folders)}"
    iso.add_directory(folders[folder], rr_name=name, joliet_path=f"/{folder}")
