"""The disc that tells a guest who it is, as ISO 9660 with the label that cloud-init looks for."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

LABEL = "config-2"


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
