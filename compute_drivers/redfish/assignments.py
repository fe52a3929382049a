"""Records which machine has which guest: one small file for each machine, so that later processes know."""

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

BUILDING, BUILT, CLEANING = "building", "made", "cleaning"
SUFFIX = ".json"


@dataclass(frozen=True)
class Assignment:
    """A guest on a machine.

    Attributes:
        token: Unguessable name of its media.
        is_armed: The next start is from the boot image.
        power_state: The last known one.
    """

    instance_uuid: str
    token: str
    stage: str = BUILDING
    is_armed: bool = False
    power_state: int = int(PowerState.SHUTDOWN)


class Assignments:
    """Files in a folder, each replaced atomically. Of two claims for a machine, also from two processes, one wins."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()

    def prepare(self) -> None:
        """Create the folder. Raises OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def all(self) -> dict[str, Assignment]:
        """Return the assignments by machine. Raises DriverError for an unreadable file."""
        found = {}
        for path in sorted(self._folder.glob(f"*{SUFFIX}")):
            name = path.name.removesuffix(SUFFIX)
            if not NAME.fullmatch(name):
                continue
            with suppress(FileNotFoundError):  # removed meanwhile
                found[name] = _read(path, name)
        return found

    def find(self, instance_uuid: str) -> tuple[str, Assignment] | None:
        """Return the guest's machine and assignment."""
        return next((entry for entry in self.all().items() if entry[1].instance_uuid == instance_uuid), None)

    def claim(self, machine: str, assignment: Assignment) -> bool:
        """Assign the machine where it is free; return whether it was."""
        part = self._write(machine, assignment)
        try:
            os.link(part, self._path(machine))
        except FileExistsError:
            return False
        except OSError as error:
            raise _not_kept(machine, error) from error
        finally:
            part.unlink(missing_ok=True)
        return True

    def save(self, machine: str, assignment: Assignment) -> None:
        part = self._write(machine, assignment)
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
        return self._folder / f"{machine}{SUFFIX}"

    def _write(self, machine: str, assignment: Assignment) -> Path:
        part = self._folder / f"{machine}.{os.getpid()}-{id(self)}-{next(self._numbers)}.part"
        try:
            with part.open("x") as file:
                json.dump(asdict(assignment), file)
                file.flush()
                os.fsync(file.fileno())  # a machine without a record would be given away and erased
        except OSError as error:
            raise _not_kept(machine, error) from error
        return part


def _read(path: Path, machine: str) -> Assignment:
    try:
        values = json.loads(path.read_text())
        known = {item.name for item in fields(Assignment)}
        return Assignment(**{name: value for name, value in values.items() if name in known})
    except FileNotFoundError:
        raise
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise DriverError(f"What was noted about machine {machine} cannot be read.") from error


def _not_kept(machine: str, error: OSError) -> DriverError:
    return DriverError(f"What is to be noted about machine {machine} cannot be kept: {error.strerror}.")
