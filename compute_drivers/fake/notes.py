"""What a simulated host writes down about its guests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from time import time
from typing import Any
from uuid import uuid4

from conductor.core.compute_driver import GuestSpec
from conductor.core.states import PowerState

MB = 1 << 20


@dataclass(frozen=True)
class Note:
    """One guest. Two ids tell whether it is still the same.

    `life` is what a process with its memory would be: it goes along through pause, suspend, soft reboot and live
    migration, and is another after each start. `disk` is the root disk: it goes along through every move, and is
    another after a rebuild. Passwords are never written down, only that one was set.
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
    rescued_from: str | None = None  # the image that the guest had before it was rescued
    dumps: int = 0
    started_at: float = 0.0
    mark: str = ""  # while it leaves: the file that says that it has arrived elsewhere

    @property
    def is_on(self) -> bool:
        return self.power_state in (PowerState.RUNNING, PowerState.PAUSED)

    def started(self) -> Note:
        """After a start: another life."""
        return replace(
            self, power_state=int(PowerState.RUNNING), life=str(uuid4()), boots=self.boots + 1, started_at=time()
        )

    def in_state(self, state: PowerState) -> Note:
        return replace(self, power_state=int(state))

    def defined_by(self, guest: GuestSpec) -> Note:
        """With names, size, ports and volumes of `guest`; image and disk stay."""
        return replace(self, **_definition(guest))

    @cached_property
    def text(self) -> str:
        """As JSON."""
        return json.dumps(_fields(self))

    def console(self) -> bytes:
        """A few lines per boot that nobody takes for a real machine's."""
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
        """What is on its disk, as far as a simulated one has anything: a small file that says where it is from."""
        return f"simulated disk {self.disk} of {self.hostname}, from image {self.image or 'none'}\n".encode()


def note_of(guest: GuestSpec) -> Note:
    """A guest that was built just now."""
    return Note(
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
    """A guest that is expected by live migration, or has come and was not yet made permanent.

    While it moves `note` is what will be here as soon as the file `mark` exists, and `source` the file of the host
    that it comes from.
    """

    ticket: str
    mark: str
    name: str = ""
    source: str = ""
    note: Note | None = None
    is_here: bool = False

    @property
    def text(self) -> str:
        """As JSON."""
        return json.dumps(_fields(self) | {"note": self.note and _fields(self.note)})


@dataclass(frozen=True)
class Notes:
    """All of one host: its guests, what `migrate_out` keeps of others, and who is expected."""

    guests: Mapping[str, Note] = field(default_factory=dict)
    kept: Mapping[str, Note] = field(default_factory=dict)
    arrivals: Mapping[str, Arrival] = field(default_factory=dict)

    def to_text(self) -> str:
        """What is written with each change, as JSON. Of guests that did not change their text is taken as it was."""
        parts = {
            "guests": {uuid: note.text for uuid, note in self.guests.items()},
            "kept": {uuid: note.text for uuid, note in self.kept.items()},
            "arrivals": {uuid: it.text for uuid, it in self.arrivals.items()},
        }
        return _object({name: _object(texts) for name, texts in parts.items()})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Notes:
        """The inverse of `to_text`, once it is read; raises KeyError or TypeError for what is no state of a host."""
        return cls(
            guests={uuid: Note(**_known(Note, it)) for uuid, it in data["guests"].items()},
            kept={uuid: Note(**_known(Note, it)) for uuid, it in data.get("kept", {}).items()},
            arrivals={uuid: _arrival(it) for uuid, it in data.get("arrivals", {}).items()},
        )

    def with_guest(self, uuid: str, note: Note) -> Notes:
        return replace(self, guests={**self.guests, uuid: note})

    def without(self, uuid: str, *names: str) -> Notes:
        """Without what the mappings called `names` have under `uuid`."""
        changed = {name: {key: it for key, it in getattr(self, name).items() if key != uuid} for name in names}
        return replace(self, **changed)


def _object(texts: Mapping[str, str]) -> str:
    """The JSON of an object whose values are JSON already."""
    return "{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in texts.items()) + "}"


def _fields(it: Note | Arrival) -> dict[str, Any]:
    """As they lie there, where `asdict` would copy all that is in them."""
    return {item.name: getattr(it, item.name) for item in fields(it)}


def _known(cls: type[Any], data: Mapping[str, Any]) -> dict[str, Any]:
    names = {item.name for item in fields(cls)}
    return {name: value for name, value in data.items() if name in names}


def _arrival(data: Mapping[str, Any]) -> Arrival:
    note = data.get("note")
    return Arrival(**{**_known(Arrival, data), "note": Note(**_known(Note, note)) if note else None})
