"""A simulated hypervisor: guests that are notes in a file, on a host as large as you say, that fails as it is told."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from compute_drivers.fake.faults import Faults
from compute_drivers.fake.options import FakeOptions
from compute_drivers.options import parse
from conductor.core.compute_driver import (
    ComputeDriver,
    GuestInfo,
    GuestSpec,
    Inventory,
    NodeReport,
    OpenImage,
    Progress,
)
from conductor.core.errors import DriverError
from conductor.core.states import PowerState

TICK_SECONDS = 0.1


class FakeDriver(ComputeDriver):
    """Builds nothing. What it says is stable: the same guest has the same console before and after a restart."""

    name: ClassVar[str] = "fake"
    is_simulated: ClassVar[bool] = True
    supports_console_log: ClassVar[bool] = True

    def __init__(self, host: str, options: Mapping[str, Any], open_image: OpenImage) -> None:
        super().__init__(host, options, open_image)
        self._options = parse(FakeOptions, options, self.name)
        self._faults = Faults(host, self._options.faults, self._options.faults_file)
        self._gate = threading.Lock()
        self._guests: dict[str, dict[str, Any]] = {}

    def start(self) -> None:
        """Find the guests of earlier processes. Raises DriverError when the state file cannot be read."""
        file = self._options.state_file
        if file is None:
            return
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            if file.exists():
                self._guests = dict(json.loads(file.read_text())["guests"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DriverError(f"The state of the simulated host {self.host} cannot be read: {error}") from error

    def report(self) -> NodeReport:
        self._faults.meet("report")
        has = self._options
        return NodeReport(
            node=self.host,
            hypervisor_type="fake",
            hypervisor_version=1,
            inventory={
                "VCPU": Inventory(has.vcpus, max_unit=has.vcpus, allocation_ratio=has.cpu_allocation_ratio),
                "MEMORY_MB": Inventory(
                    has.memory_mb,
                    reserved=min(has.reserved_memory_mb, has.memory_mb - 1),
                    max_unit=has.memory_mb,
                    allocation_ratio=has.ram_allocation_ratio,
                ),
                "DISK_GB": Inventory(has.disk_gb, max_unit=has.disk_gb, allocation_ratio=has.disk_allocation_ratio),
            },
            traits=frozenset({"COMPUTE_NODE", "CUSTOM_SIMULATED"}),
            supported_instances=(("x86_64", "fake", "hvm"),),
            cpu_info={"arch": "x86_64", "model": "simulated", "topology": {"cores": has.vcpus}},
        )

    def guests(self) -> list[GuestInfo]:
        self._faults.meet("guests")
        with self._gate:
            return [GuestInfo(uuid, PowerState.RUNNING) for uuid in sorted(self._guests)]

    def spawn(self, guest: GuestSpec, progress: Progress) -> None:
        progress("simulating a build", 0.0)
        self._faults.meet("spawn", guest.name, lambda seconds: _wait(seconds, lambda _: progress("being late", None)))
        _wait(self._options.latency_seconds, lambda share: progress("simulating a build", share))
        with self._gate:
            if guest.instance_uuid not in self._guests:
                self._keep({**self._guests, guest.instance_uuid: _note(guest)})

    def destroy(self, instance_uuid: str) -> None:
        note = self._guests.get(instance_uuid)
        if note is None:
            return
        self._faults.meet("destroy", note["name"])
        time.sleep(self._options.latency_seconds)
        with self._gate:
            self._keep({uuid: note for uuid, note in self._guests.items() if uuid != instance_uuid})

    def console_log(self, instance_uuid: str, offset: int) -> bytes:
        note = self._guests.get(instance_uuid)
        self._faults.meet("console_log", note["name"] if note else "")
        return _console(note)[offset:] if note else b""

    def _keep(self, guests: dict[str, dict[str, Any]]) -> None:
        """Make `guests` the truth, in the file first: a killed process finds what it had answered for."""
        file = self._options.state_file
        if file is not None:
            part = file.with_name(f"{file.name}.part")
            try:
                # No fsync: real guests do not survive a power cut either.
                part.write_text(json.dumps({"guests": guests}))
                os.replace(part, file)
            except OSError as error:
                raise DriverError(f"The state of the simulated host {self.host} cannot be written: {error}") from error
        self._guests = guests


def _wait(seconds: float, tell: Callable[[float], None]) -> None:
    """Sleep in ticks, telling the share gone after each; what `tell` raises ends the waiting."""
    began = time.monotonic()
    while (gone := time.monotonic() - began) < seconds:
        time.sleep(min(TICK_SECONDS, seconds - gone))
        tell(min((time.monotonic() - began) / seconds, 1.0))


def _note(guest: GuestSpec) -> dict[str, Any]:
    return {
        "name": guest.name,
        "hostname": guest.hostname,
        "vcpus": guest.flavor.vcpus,
        "memory_mb": guest.flavor.memory_mb,
        "image": guest.image.name,
        "addresses": [f"{port.ip_address}/{port.prefix_length}" for port in guest.ports],
    }


def _console(note: Mapping[str, Any]) -> bytes:
    """A few lines that nobody takes for a real machine's."""
    facts = [
        "simulated guest: nothing runs behind this console",
        f"simulated guest: {note['vcpus']} vCPU, {note['memory_mb']} MB, image {note['image'] or 'none'}",
        *[f"simulated guest: eth{index} has {address}" for index, address in enumerate(note["addresses"])],
        f"simulated guest: hostname {note['hostname']}",
    ]
    lines = [f"[{0.4 * index:12.6f}] {fact}" for index, fact in enumerate(facts)]
    return "".join(f"{line}\r\n" for line in [*lines, "", f"{note['hostname']} login: (simulated guest)"]).encode()
