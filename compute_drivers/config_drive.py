"""Config drives: ISO 9660 images with a guest's metadata, under the label that cloud-init looks for."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from compute_drivers.metadata_files import metadata_files
from conductor.core.compute_driver import GuestSpec
from conductor.core.errors import DriverError

LABEL = "config-2"
NAME, RESCUE_NAME = "config.iso", "config-rescue.iso"


def write(
    path: Path, guest: GuestSpec, password: str = "", vendor_data: Mapping[str, Any] = MappingProxyType({})
) -> None:
    """Replace the config drive at `path`, readable for its owner only. Raises BuildAborted, DriverError."""
    part = path.with_name(f"{path.name}.part")
    try:
        data = build_iso(metadata_files(guest, password, vendor_data))
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
        os.replace(part, path)
    except OSError as error:
        raise DriverError(f"The config drive of the guest could not be made: {error.strerror}.") from error
    finally:
        part.unlink(missing_ok=True)


def build_iso(files: Mapping[str, bytes]) -> bytes:
    """Return an ISO 9660 image of `files` by path, with the long names that Linux (Rock Ridge) and Windows read."""
    import pycdlib  # imported here: only hosts that build guests need it

    iso = pycdlib.PyCdlib()
    iso.new(interchange_level=3, joliet=3, rock_ridge="1.09", vol_ident=LABEL)
    folders: dict[str, str] = {"": ""}  # long path → short path for readers without extensions
    for number, (path, data) in enumerate(sorted(files.items())):
        folder, _, name = path.rpartition("/")
        _add_folder(iso, folders, folder)
        short = f"{folders[folder]}/F{number}.;1"
        iso.add_fp(io.BytesIO(data), len(data), short, rr_name=name, joliet_path=f"/{path}")
    image = io.BytesIO()
    iso.write_fp(image)
    iso.close()
    return image.getvalue()


def _add_folder(iso: Any, folders: dict[str, str], folder: str) -> None:
    if folder in folders:
        return
    parent, _, name = folder.rpartition("/")
    _add_folder(iso, folders, parent)
    folders[folder] = f"{folders[parent]}/D{len(folders)}"
    iso.add_directory(folders[folder], rr_name=name, joliet_path=f"/{folder}")
