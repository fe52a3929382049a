"""Which machine has which guest, written down so that every later process knows: one small file for each machine."""

from __future__ import annotations

import itertools
import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from compute_drivers.redfish.machines import NAME
from conductor.core.errors import DriverError
from conductor.core.states import PowerState

BUILDING, MADE, CLEANING = "building", "made", "cleaning"
ENDING = ".json"


@dataclass(frozen=True)
class Note:
    """A guest on a machine. `token` is the unguessable name of its media.

    `is_armed` says that the next start is from the boot image. `power_state` is the last one seen.
    """

    instance_uuid: str
    token: str
    stage: str = BUILDING
    is_armed: bool = False
    power_state: int = int(PowerState.SHUTDOWN)


class Notes:
    """Files in a folder, each replaced as a whole. Of two who claim a machine, also from two processes, one wins."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()

    def prepare(self) -> None:
        """Make the folder. Raises OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def all(self) -> dict[str, Note]:
        """By machine. Raises DriverError for a note that cannot be read: its machine may have a guest."""
        found = {}
        for path in sorted(self._folder.glob(f"*{ENDING}")):
            name = path.name.removesuffix(ENDING)
            if not NAME.fullmatch(name):
                continue
            with suppress(FileNotFoundError):  # it went meanwhile
                found[name] = _read(path, name)
        return found

    def of(self, instance_uuid: str) -> tuple[str, Note] | None:
        """The machine that has the guest."""
        return next(((name, note) for name, note in self.all().items() if note.instance_uuid == instance_uuid), None)

    def claim(self, machine: str, note: Note) -> bool:
        """Whether the machine was free, and has this guest now."""
        part = self._write(machine, note)
        try:
            os.link(part, self._path(machine))
        except FileExistsError:
            return False
        except OSError as error:
            raise _not_kept(machine, error) from error
        finally:
            part.unlink(missing_ok=True)
        return True

    def save(self, machine: str, note: Note) -> None:
        part = self._write(machine, note)
        try:
            os.replace(part, self._path(machine))
        except OSError as error:
            raise _not_kept(machine, error) from error

    def drop(self, machine: str) -> None:
        try:
            self._path(machine).unlink(missing_ok=True)
        except OSError as error:
            raise _not_kept(machine, error) from error

    def _path(self, machine: str) -> Path:
        return self._folder / f"{machine}{ENDING}"

    def _write(self, machine: str, note: Note) -> Path:
        part = self._folder / f"{machine}.{os.getpid()}-{id(self)}-{next(self._numbers)}.part"
        try:
            with part.open("x") as file:
                json.dump(asdict(note), file)
                file.flush()
                os.fsync(file.fileno())  # a machine that is taken for free is wiped
        except OSError as error:
            raise _not_kept(machine, error) from error
        return part


def _read(path: Path, machine: str) -> Note:
    try:
        told = json.loads(path.read_text())
        known = {item.name for item in fields(Note)}
        return Note(**{name: value for name, value in told.items() if name in known})
    except FileNotFoundError:
        raise
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise DriverError(f"What was noted about machine {machine} cannot be read.") from error


def _not_kept(machine: str, error: OSError) -> DriverError:
    return DriverError(f"What is to be noted about machine {machine} cannot be kept: {error.strerror}.")
