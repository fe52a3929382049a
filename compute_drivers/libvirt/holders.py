"""Whose a guest's folder is, where several hosts see it: each has a note, and who is not named leaves it alone."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

NOTE = "holder.json"


@dataclass(frozen=True)
class Holder:
    """The host that has the guest. `taken_from` is the one that had it, until the guest runs here."""

    host: str
    taken_from: str = ""


def holder_of(folder: Path) -> Holder | None:
    """None where there is no such folder, or nobody's."""
    try:
        said = json.loads((folder / NOTE).read_text())
        return Holder(str(said["host"]), str(said.get("taken_from", "")))
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None


def hold(folder: Path, holder: Holder) -> None:
    """Say whose it is, so that nobody ever reads the half of it. Raises OSError."""
    part = folder / f"{NOTE}.part"
    with part.open("w") as file:
        json.dump(asdict(holder), file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, folder / NOTE)
