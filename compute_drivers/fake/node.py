"""State that all parts of the fake driver share: options, state file, faults and consoles of one simulated host."""

from __future__ import annotations

import shutil
import socket
import tempfile
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from compute_drivers.fake import consoles
from compute_drivers.fake.faults import EVENTS, Faults
from compute_drivers.fake.options import FakeOptions
from compute_drivers.fake.state import GuestRecord, HostState, StateFile, locked, new_record
from conductor.core.compute_driver import GuestInfo, GuestSpec, Inventory, NodeReport, Progress
from conductor.core.consoles import ConsoleKind
from conductor.core.errors import DriverError, GuestMissing, Invalid
from conductor.core.hardware.topology import HostCell, Pages, PciDevice
from conductor.core.hardware.wire import cell_to_json, device_to_json
from conductor.core.metrics import NAMES, kept
from conductor.core.states import PowerState

TICK_SECONDS = 0.1
TRAITS = frozenset({"COMPUTE_NODE", "CUSTOM_SIMULATED"})
HYPERTHREADING_TRAITS = frozenset({"HW_CPU_HYPERTHREADING"})
SMALL_PAGE_KB, HUGE_PAGE_KB = 4, 2048
KB_PER_MB = 1024
Sleep = Callable[[float], None]
RecordChange = Callable[[GuestRecord], GuestRecord]


class FakeNode:
    """One simulated host. It runs nothing; guests and their consoles are the same before and after a restart."""

    def __init__(self, host: str, options: FakeOptions) -> None:
        """Raises Invalid for options that contradict each other."""
        self.host = host
        self.options = options
        numa_cells(options)
        _check_metrics(options.metrics)
        self.faults = Faults(host, options.faults, options.faults_file)
        self._state_file: StateFile | None = None
        self._screens: defaultdict[str, consoles.GuestScreens] = defaultdict(consoles.GuestScreens)

    @property
    def state_file(self) -> StateFile:
        """Raises DriverError before `start`."""
        if self._state_file is None:
            raise DriverError(f"The simulated host {self.host} has not been started.")
        return self._state_file

    @property
    def address(self) -> dict[str, Any]:
        """Location of this host's state, for other hosts of this machine."""
        return {"host": self.host, "state_file": str(self.state_file.path)}

    def start(self) -> None:
        """Find the guests of earlier processes. Raises DriverError when the state file cannot be read."""
        if self._state_file is not None:
            return
        state_file = StateFile((self.options.state_file or self._temporary_file()).absolute())
        state_file.prepare()
        self._state_file = state_file

    def _temporary_file(self) -> Path:
        folder = tempfile.mkdtemp(prefix="novella-fake-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return Path(folder) / "guests.json"

    # -- the report

    def report(self) -> NodeReport:
        self.faults.meet("report")
        return self._report

    @cached_property
    def _report(self) -> NodeReport:
        options = self.options
        return NodeReport(
            node=self.host,
            hypervisor_type="fake",
            hypervisor_version=1,
            inventory=self._inventory(),
            traits=TRAITS | (HYPERTHREADING_TRAITS if options.threads_per_core > 1 else frozenset()),
            supported_instances=(("x86_64", "fake", "hvm"),),
            cpu_info={"arch": "x86_64", "model": "simulated", "topology": {"cores": options.vcpus}},
            numa_cells=tuple(map(cell_to_json, numa_cells(options))),
            pci_devices=tuple(map(device_to_json, pci_devices(options))),
            metrics=dict(options.metrics),
        )

    def _inventory(self) -> dict[str, Inventory]:
        """Return the inventory by resource class. CPUs for pinning (PCPU) are never overcommitted."""
        options = self.options
        shared = options.vcpus - options.pinned_vcpus
        found = {
            "MEMORY_MB": Inventory(
                options.memory_mb,
                reserved=min(options.reserved_memory_mb, options.memory_mb - 1),
                max_unit=options.memory_mb,
                allocation_ratio=options.ram_allocation_ratio,
            ),
            "DISK_GB": Inventory(
                options.disk_gb, max_unit=options.disk_gb, allocation_ratio=options.disk_allocation_ratio
            ),
        }
        if shared:
            found["VCPU"] = Inventory(shared, max_unit=shared, allocation_ratio=options.cpu_allocation_ratio)
        if options.pinned_vcpus:
            found["PCPU"] = Inventory(options.pinned_vcpus, max_unit=options.pinned_vcpus)
        return found

    # -- guests

    def list_guests(self) -> list[GuestInfo]:
        self.faults.meet("guests")
        guests = self.glance().guests
        if guests and self.faults.has_any(EVENTS):
            self._apply_events()
            guests = self.read_state().guests
        return [GuestInfo(uuid, PowerState(guests[uuid].power_state)) for uuid in sorted(guests)]

    def _apply_events(self) -> None:
        """Have guests shut down or crash by themselves, where the faults say so."""
        with locked(self.state_file):
            state = self.state_file.load()
            changed = state
            for uuid, record in state.guests.items():
                for event, power_state in EVENTS.items():
                    if record.power_state == PowerState.RUNNING and self.faults.happens(event, record.name):
                        changed = changed.with_guest(uuid, record.in_state(power_state))
            if changed is not state:
                self.state_file.save(changed)

    def spawn(self, guest: GuestSpec, progress: Progress) -> None:
        latency = self.options.latency_seconds
        if latency:  # a build without latency has no progress to read
            progress("simulating a build", 0.0)
        with self.call("spawn", guest.name, interruptible_sleep(progress)):
            sleep_in_ticks(latency, lambda share: progress("simulating a build", share))
            with locked(self.state_file):
                state = self.state_file.load()
                found = state.guests.get(guest.instance_uuid)
                if found is None or found.power_state != PowerState.RUNNING:
                    self.state_file.save(state.with_guest(guest.instance_uuid, new_record(guest)))

    def destroy(self, instance_uuid: str) -> None:
        state = self.read_state()
        found = state.guests.get(instance_uuid) or state.arrivals.get(instance_uuid)
        if found is None:
            return
        with self.call("destroy", found.name):
            time.sleep(self.options.latency_seconds)
            with locked(self.state_file):
                self.state_file.save(self.state_file.load().without(instance_uuid, "guests", "arrivals"))
            self._screens.pop(instance_uuid, None)

    def glance(self) -> HostState:
        """Return a state that the host had during this call, without waiting for a writer: enough for a report."""
        return self.state_file.load()

    def read_state(self) -> HostState:
        """Return the present state of the host."""
        with locked(self.state_file, is_shared=True):
            return self.state_file.load()

    def change(self, method: str, instance_uuid: str, change: RecordChange, progress: Progress | None = None) -> None:
        """Replace a guest's record by what `change` returns, with the faults of `method`. Raises GuestMissing."""
        sleep = interruptible_sleep(progress) if progress else time.sleep
        with self.call(method, find_guest(self.read_state(), instance_uuid).name, sleep):
            sleep(self.options.action_seconds)
            with locked(self.state_file):
                state = self.state_file.load()
                record = find_guest(state, instance_uuid)
                changed = change(record)
                if changed != record:
                    self.state_file.save(state.with_guest(instance_uuid, changed))

    @contextmanager
    def call(self, method: str, name: str, sleep: Sleep = time.sleep) -> Iterator[None]:
        """Apply the faults of a driver method before and after the block."""
        self.faults.meet(method, name, sleep)
        yield
        self.faults.meet(method, name, sleep, is_after=True)

    # -- consoles

    def console_log(self, instance_uuid: str, offset: int) -> bytes:
        record = self.read_state().guests.get(instance_uuid)
        self.faults.meet("console_log", record.name if record else "")
        return record.console()[offset:] if record else b""

    def open_console(self, instance_uuid: str, kind: ConsoleKind) -> socket.socket:
        """Raises GuestMissing, DriverError."""
        record = find_guest(self.read_state(), instance_uuid)
        self.faults.meet("open_console", record.name)
        if not record.is_on:
            raise DriverError("The guest is off: it has no console.")

        def is_on() -> bool:
            found = self.read_state().guests.get(instance_uuid)
            return found is not None and found.is_on

        guest = consoles.ConsoleGuest(record.hostname, record.console(), is_on, self._screens[instance_uuid])
        return consoles.connect(guest, kind)


def find_guest(state: HostState, instance_uuid: str) -> GuestRecord:
    """Raises GuestMissing."""
    if instance_uuid not in state.guests:
        raise GuestMissing()
    return state.guests[instance_uuid]


def interruptible_sleep(progress: Progress) -> Sleep:
    """Return a sleep that reports progress, so that a stale command ends it."""
    return lambda seconds: sleep_in_ticks(seconds, lambda _: progress("being late", None))


def sleep_in_ticks(seconds: float, report: Callable[[float], None]) -> None:
    """Sleep, calling `report` with the elapsed share after each tick; what it raises ends the sleep."""
    began = time.monotonic()
    while (elapsed := time.monotonic() - began) < seconds:
        time.sleep(min(TICK_SECONDS, seconds - elapsed))
        report(min((time.monotonic() - began) / seconds, 1.0))


def _check_metrics(metrics: Mapping[str, Any]) -> None:
    """Raises Invalid for an unknown metric or a value that is no number."""
    wrong = sorted(metrics.keys() - kept(metrics).keys())
    if wrong:
        known = ", ".join(NAMES)
        raise Invalid(f"Option fake.metrics: {wrong[0]!r} is no metric with a number. Metrics are: {known}.")


# -- NUMA cells and PCI devices


def numa_cells(options: FakeOptions) -> tuple[HostCell, ...]:
    """Return cells with equal parts of CPUs and memory. The last CPUs of each cell are those for pinning.

    Raises Invalid where the parts are not equal.
    """
    count, threads = options.numa_cells, options.threads_per_core
    if not count:
        if options.pinned_vcpus or options.huge_pages:
            raise Invalid("pinned_vcpus and huge_pages need numa_cells: they are in them.")
        return ()
    unit = count * threads
    if options.vcpus % unit or options.pinned_vcpus % unit or options.pinned_vcpus > options.vcpus:
        raise Invalid(f"vcpus and pinned_vcpus must be whole cores in {count} equal cells, each of {threads} threads.")
    if options.huge_pages * HUGE_PAGE_KB > options.memory_mb // count * KB_PER_MB:
        raise Invalid(f"huge_pages: {options.huge_pages} of 2 MB do not go into a cell's memory.")
    return tuple(_cell(number, options) for number in range(count))


def pci_devices(options: FakeOptions) -> tuple[PciDevice, ...]:
    """Return `options.pci_devices` devices for each cell, or in all on a host without cells."""
    nodes = range(options.numa_cells) if options.numa_cells else (None,)
    return tuple(
        PciDevice(f"0000:{0x10 + (node or 0):02x}:{number:02x}.0", "1af4", "1110", node, tags={"dev_type": "type-PCI"})
        for node in nodes
        for number in range(options.pci_devices)
    )


def _cell(number: int, options: FakeOptions) -> HostCell:
    size, pinned = options.vcpus // options.numa_cells, options.pinned_vcpus // options.numa_cells
    first, threads = number * size, options.threads_per_core
    cpus = range(first, first + size)
    memory_mb = options.memory_mb // options.numa_cells
    small_kb = memory_mb * KB_PER_MB - options.huge_pages * HUGE_PAGE_KB
    return HostCell(
        id=number,
        cpus=frozenset(cpus[: size - pinned]),
        pcpus=frozenset(cpus[size - pinned :]),
        memory_mb=memory_mb,
        siblings=tuple(frozenset(cpus[at : at + threads]) for at in range(0, size, threads)),
        pages=(Pages(SMALL_PAGE_KB, small_kb // SMALL_PAGE_KB), Pages(HUGE_PAGE_KB, options.huge_pages)),
        socket=number,
    )
