"""The state of a simulated host: records of its guests, and the file that keeps them."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from time import time
from typing import Any
from uuid import uuid4

from conductor.core.compute_driver import GuestSpec
from conductor.core.errors import DriverError
from conductor.core.states import PowerState

MB = 1 << 20
LOCK_SUFFIX = ".lock"


@dataclass(frozen=True)
class GuestRecord:
    """One guest. Passwords are never written, only that one was set.

    Attributes:
        life: Identifies the running guest with its memory: kept by pause, suspend, soft reboot and live migration,
            new after each start.
        disk: Identifies the root disk: kept by every migration, new after a rebuild.
        rescued_from: The image that the guest had before its rescue.
        mark: While it leaves by live migration, the file that says that it has arrived elsewhere.
    """

    name: str
    hostname: str
    vcpus: int
    memory_mb: int
    image: str
    image_id: str = ""
    root_gb: int = 0
    power_state: int = int(PowerState.RUNNING)
    life: str = ""
    disk: str = ""
    boots: int = 1
    ports: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    volumes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    has_admin_password: bool = False
    rescued_from: str | None = None
    dumps: int = 0
    started_at: float = 0.0
    mark: str = ""

    @property
    def is_on(self) -> bool:
        return self.power_state in (PowerState.RUNNING, PowerState.PAUSED)

    def started(self) -> GuestRecord:
        """Return the record after a start, with a new life."""
        return replace(
            self, power_state=int(PowerState.RUNNING), life=str(uuid4()), boots=self.boots + 1, started_at=time()
        )

    def in_state(self, state: PowerState) -> GuestRecord:
        return replace(self, power_state=int(state))

    def defined_by(self, guest: GuestSpec) -> GuestRecord:
        """Return the record with names, size, ports and volumes of `guest`; image and disk stay."""
        return replace(self, **_definition(guest))

    @cached_property
    def text(self) -> str:
        """The record as JSON."""
        return json.dumps(_fields(self))

    def console(self) -> bytes:
        """Return the console log: a few lines per boot that are clearly simulated."""
        addresses = [f"{port['ip_address']}/{port['prefix_length']}" for port in self.ports.values()]
        facts = [
            "simulated guest: nothing runs behind this console",
            f"simulated guest: {self.vcpus} vCPU, {self.memory_mb} MB, image {self.image or 'none'}",
            *[f"simulated guest: eth{index} has {address}" for index, address in enumerate(addresses)],
            f"simulated guest: hostname {self.hostname}",
        ]
        lines = [f"[{0.4 * index:12.6f}] {fact}" for index, fact in enumerate(facts)]
        lines += ["", f"{self.hostname} login: (simulated guest)"]
        return "".join(f"{line}\r\n" for line in lines).encode() * self.boots

    def disk_data(self) -> bytes:
        """Return the content of the simulated disk, a line that names its origin."""
        return f"simulated disk {self.disk} of {self.hostname}, from image {self.image or 'none'}\n".encode()


def new_record(guest: GuestSpec) -> GuestRecord:
    """Return the record of a guest that has just been built."""
    return GuestRecord(
        **_definition(guest),
        image=guest.image.name,
        image_id=guest.image.image_id,
        life=str(uuid4()),
        disk=str(uuid4()),
        has_admin_password=bool(guest.admin_password),
        started_at=time(),
    )


def _definition(guest: GuestSpec) -> dict[str, Any]:
    return {
        "name": guest.name,
        "hostname": guest.hostname,
        "vcpus": guest.flavor.vcpus,
        "memory_mb": guest.flavor.memory_mb,
        "root_gb": guest.flavor.root_gb,
        "ports": {port.port_uuid: asdict(port) for port in guest.ports},
        "volumes": {volume.volume_uuid: asdict(volume) for volume in guest.volumes},
    }


@dataclass(frozen=True)
class Arrival:
    """A guest that is expected by live migration, or has arrived and is not settled yet.

    Attributes:
        mark: The file whose creation moves the guest here.
        source: The state file of the source.
        record: The guest as it will be here once the mark exists.
    """

    ticket: str
    mark: str
    name: str = ""
    source: str = ""
    record: GuestRecord | None = None
    is_here: bool = False

    @property
    def text(self) -> str:
        """The record as JSON."""
        return json.dumps(_fields(self) | {"record": self.record and _fields(self.record)})


@dataclass(frozen=True)
class HostState:
    """Guests of one host, guests that a cold migration retains, and expected arrivals."""

    guests: Mapping[str, GuestRecord] = field(default_factory=dict)
    kept: Mapping[str, GuestRecord] = field(default_factory=dict)
    arrivals: Mapping[str, Arrival] = field(default_factory=dict)

    def to_text(self) -> str:
        """Return the state as JSON. The texts of unchanged guests are reused."""
        parts = {
            "guests": {uuid: record.text for uuid, record in self.guests.items()},
            "kept": {uuid: record.text for uuid, record in self.kept.items()},
            "arrivals": {uuid: it.text for uuid, it in self.arrivals.items()},
        }
        return _object({name: _object(texts) for name, texts in parts.items()})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> HostState:
        """Build the state from the parsed JSON of `to_text`. Raises KeyError or TypeError for other JSON."""
        return cls(
            guests={uuid: GuestRecord(**_known(GuestRecord, it)) for uuid, it in data["guests"].items()},
            kept={uuid: GuestRecord(**_known(GuestRecord, it)) for uuid, it in data.get("kept", {}).items()},
            arrivals={uuid: _arrival(it) for uuid, it in data.get("arrivals", {}).items()},
        )

    def with_guest(self, uuid: str, record: GuestRecord) -> HostState:
        return replace(self, guests={**self.guests, uuid: record})

    def without(self, uuid: str, *names: str) -> HostState:
        """Return the state without `uuid` in the mappings `names`."""
        changed = {name: {key: it for key, it in getattr(self, name).items() if key != uuid} for name in names}
        return replace(self, **changed)

    def name_of(self, uuid: str) -> str:
        """Return the name of a guest in any of the mappings; "" for an unknown one."""
        found = self.guests.get(uuid) or self.kept.get(uuid) or self.arrivals.get(uuid)
        return found.name if found else ""


def _object(texts: Mapping[str, str]) -> str:
    """Return the JSON of an object whose values are JSON already."""
    return "{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in texts.items()) + "}"


def _fields(it: GuestRecord | Arrival) -> dict[str, Any]:
    """Return the fields without the deep copy of `asdict`."""
    return {item.name: getattr(it, item.name) for item in fields(it)}


def _known(cls: type[Any], data: Mapping[str, Any]) -> dict[str, Any]:
    names = {item.name for item in fields(cls)}
    return {name: value for name, value in data.items() if name in names}


def _arrival(data: Mapping[str, Any]) -> Arrival:
    record = data.get("record")
    return Arrival(
        **{**_known(Arrival, data), "record": GuestRecord(**_known(GuestRecord, record)) if record else None}
    )


# -- the file


class StateFile:
    """A JSON file with the state of one host, replaced atomically. Call `load` and `save` inside of `locked`.

    During a live migration both hosts' files contain the guest. A third file, the mark, decides which one counts: its
    creation moves the guest atomically.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._cached: tuple[tuple[int, int, int], HostState] | None = None

    def prepare(self) -> None:
        """Create the folder. Raises DriverError when that fails or the file is not a state of a host."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DriverError(f"The state file {self.path.name} cannot be kept: {error}") from error
        with locked(self):
            self.load()

    def load(self) -> HostState:
        """Return the state with arrivals whose mark exists, and without guests that have left."""
        return _apply_marks(self._read())

    def save(self, state: HostState) -> None:
        """Replace the file. Raises DriverError."""
        part = self.path.with_name(f"{self.path.name}.part")
        try:
            # No fsync: after a power cut real guests would not run either.
            part.write_text(state.to_text())
            os.replace(part, self.path)
            self._cached = (_version(self.path), state)
        except OSError as error:
            raise DriverError(f"The state file {self.path.name} cannot be written: {error}") from error

    def _read(self) -> HostState:
        try:
            version = _version(self.path)
        except FileNotFoundError:
            return HostState()
        if self._cached is None or self._cached[0] != version:
            try:
                self._cached = (version, HostState.from_json(json.loads(self.path.read_text())))
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                raise DriverError(f"The state file {self.path.name} cannot be read: {error}") from error
        return self._cached[1]


def _version(path: Path) -> tuple[int, int, int]:
    """Return inode, modification time and size, of which any other writer changes one."""
    found = os.stat(path)
    return found.st_ino, found.st_mtime_ns, found.st_size


@contextmanager
def locked(*files: StateFile, is_shared: bool = False) -> Iterator[None]:
    """Lock files against other processes; `is_shared` allows other readers. The kernel unlocks them at exit."""
    with ExitStack() as stack:
        # In one order for all processes, so that two opposite migrations cannot deadlock.
        for path in sorted({file.path for file in files}):
            try:
                lock = stack.enter_context(path.with_name(f"{path.name}{LOCK_SUFFIX}").open("a"))
            except OSError as error:
                raise DriverError(f"The state file {path.name} cannot be locked: {error}") from error
            fcntl.flock(lock, fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX)
        yield


def state_file_at(address: Mapping[str, Any]) -> StateFile:
    """Return the state file of another host of this machine, from its `FakeNode.address`. Raises DriverError."""
    path = Path(str(address.get("state_file", "")))
    if not path.is_absolute() or not path.parent.is_dir():
        raise DriverError("The state of the other simulated host is not on this machine.")
    return StateFile(path)


def _apply_marks(state: HostState) -> HostState:
    arrived = {uuid: it for uuid, it in state.arrivals.items() if it.record is not None and Path(it.mark).exists()}
    left = {uuid for uuid, record in state.guests.items() if record.mark and Path(record.mark).exists()}
    if not arrived and not left:
        return state
    stayed = {uuid: record for uuid, record in state.guests.items() if uuid not in left}
    new = {uuid: it.record for uuid, it in arrived.items() if it.record is not None}
    arrivals = {**state.arrivals, **{uuid: replace(it, record=None, is_here=True) for uuid, it in arrived.items()}}
    return replace(state, guests={**stayed, **new}, arrivals=arrivals)
