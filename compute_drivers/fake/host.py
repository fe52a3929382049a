"""The simulated host itself: what it offers, and how its guests come, go and are looked at."""

from __future__ import annotations

import shutil
import socket
import tempfile
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from compute_drivers.fake import consoles, inside
from compute_drivers.fake.faults import EVENTS, Faults
from compute_drivers.fake.notes import Note, Notes, note_of
from compute_drivers.fake.options import FakeOptions
from compute_drivers.fake.store import Store, held
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
from conductor.core.consoles import ConsoleKind
from conductor.core.errors import DriverError, GuestMissing, Invalid
from conductor.core.hardware.wire import cell_to_json, device_to_json
from conductor.core.metrics import NAMES, kept
from conductor.core.states import PowerState

TICK_SECONDS = 0.1
TRAITS = frozenset({"COMPUTE_NODE", "CUSTOM_SIMULATED"})
THREADS = frozenset({"HW_CPU_HYPERTHREADING"})
Pause = Callable[[float], None]
Change = Callable[[Note], Note]


class FakeHost(ComputeDriver):
    """Builds nothing. What it says is stable: the same guest has the same console before and after a restart."""

    def __init__(self, host: str, options: Mapping[str, Any], open_image: OpenImage) -> None:
        super().__init__(host, options, open_image)
        self._options = parse(FakeOptions, options, self.name)
        inside.cells(self._options)  # what cannot be is refused before anything starts
        _check_metrics(self._options.metrics)
        self._faults = Faults(host, self._options.faults, self._options.faults_file)
        self._store_or_none: Store | None = None
        self._viewers: defaultdict[str, consoles.Viewers] = defaultdict(consoles.Viewers)

    def start(self) -> None:
        """Find the guests of earlier processes. Raises DriverError when the state file cannot be read."""
        if self._store_or_none is not None:
            return
        store = Store((self._options.state_file or self._scratch_file()).absolute())
        store.prepare()
        self._store_or_none = store

    def report(self) -> NodeReport:
        self._faults.meet("report")
        has = self._options
        return NodeReport(
            node=self.host,
            hypervisor_type="fake",
            hypervisor_version=1,
            inventory=self._inventory(),
            traits=TRAITS | (THREADS if has.threads_per_core > 1 else frozenset()),
            supported_instances=(("x86_64", "fake", "hvm"),),
            cpu_info={"arch": "x86_64", "model": "simulated", "topology": {"cores": has.vcpus}},
            numa_cells=tuple(map(cell_to_json, inside.cells(has))),
            pci_devices=tuple(map(device_to_json, inside.devices(has))),
            metrics=dict(has.metrics),
        )

    def _inventory(self) -> dict[str, Inventory]:
        """CPUs for pinning are a class of their own, and nobody shares them."""
        has = self._options
        shared = has.vcpus - has.pinned_vcpus
        found = {
            "MEMORY_MB": Inventory(
                has.memory_mb,
                reserved=min(has.reserved_memory_mb, has.memory_mb - 1),
                max_unit=has.memory_mb,
                allocation_ratio=has.ram_allocation_ratio,
            ),
            "DISK_GB": Inventory(has.disk_gb, max_unit=has.disk_gb, allocation_ratio=has.disk_allocation_ratio),
        }
        if shared:
            found["VCPU"] = Inventory(shared, max_unit=shared, allocation_ratio=has.cpu_allocation_ratio)
        if has.pinned_vcpus:
            found["PCPU"] = Inventory(has.pinned_vcpus, max_unit=has.pinned_vcpus)
        return found

    def guests(self) -> list[GuestInfo]:
        self._faults.meet("guests")
        if any(self._faults.has(event) for event in EVENTS):
            self._let_things_happen()
        guests = self._look().guests
        return [GuestInfo(uuid, PowerState(guests[uuid].power_state)) for uuid in sorted(guests)]

    def spawn(self, guest: GuestSpec, progress: Progress) -> None:
        if self._options.latency_seconds:  # what takes no time is done before anybody could read of it
            progress("simulating a build", 0.0)
        with self._call("spawn", guest.name, late(progress)):
            wait(self._options.latency_seconds, lambda share: progress("simulating a build", share))
            with held(self._store):
                notes = self._store.load()
                found = notes.guests.get(guest.instance_uuid)
                if found is None or found.power_state != PowerState.RUNNING:
                    self._store.save(notes.with_guest(guest.instance_uuid, note_of(guest)))

    def destroy(self, instance_uuid: str) -> None:
        notes = self._look()
        found = notes.guests.get(instance_uuid) or notes.arrivals.get(instance_uuid)
        if found is None:
            return
        with self._call("destroy", found.name):
            time.sleep(self._options.latency_seconds)
            with held(self._store):
                self._store.save(self._store.load().without(instance_uuid, "guests", "arrivals"))
            self._viewers.pop(instance_uuid, None)

    def console_log(self, instance_uuid: str, offset: int) -> bytes:
        note = self._look().guests.get(instance_uuid)
        self._faults.meet("console_log", note.name if note else "")
        return note.console()[offset:] if note else b""

    def open_console(self, instance_uuid: str, kind: ConsoleKind) -> socket.socket:
        note = present(self._look(), instance_uuid)
        self._faults.meet("open_console", note.name)
        if not note.is_on:
            raise DriverError("The guest is off: it has no console.")

        def is_on() -> bool:
            found = self._look().guests.get(instance_uuid)
            return found is not None and found.is_on

        guest = consoles.Guest(note.hostname, note.console(), is_on, self._viewers[instance_uuid])
        return consoles.connect(guest, kind)

    def _let_things_happen(self) -> None:
        """Have guests shut themselves down or crash, where the faults say so."""
        with held(self._store):
            notes = self._store.load()
            changed = notes
            for uuid, note in notes.guests.items():
                for event, state in EVENTS.items():
                    if note.power_state == PowerState.RUNNING and self._faults.happens(event, note.name):
                        changed = changed.with_guest(uuid, note.in_state(state))
            if changed is not notes:
                self._store.save(changed)

    @contextmanager
    def _call(self, verb: str, name: str, pause: Pause = time.sleep) -> Iterator[None]:
        """Around a call's work: what the faults have for it, before and after."""
        self._faults.meet(verb, name, pause)
        yield
        self._faults.meet(verb, name, pause, is_after=True)

    def _change(self, verb: str, instance_uuid: str, change: Change, progress: Progress | None = None) -> None:
        """Have a guest be what `change` makes of it. Raises GuestMissing."""
        pause = late(progress) if progress else time.sleep
        with self._call(verb, present(self._look(), instance_uuid).name, pause):
            pause(self._options.action_seconds)
            with held(self._store):
                notes = self._store.load()
                note = present(notes, instance_uuid)
                changed = change(note)
                if changed != note:
                    self._store.save(notes.with_guest(instance_uuid, changed))

    def _look(self) -> Notes:
        with held(self._store, is_shared=True):
            return self._store.load()

    @property
    def _store(self) -> Store:
        if self._store_or_none is None:
            raise DriverError(f"The simulated host {self.host} has not been started.")
        return self._store_or_none

    def _scratch_file(self) -> Path:
        folder = tempfile.mkdtemp(prefix="novella-fake-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return Path(folder) / "guests.json"


def present(notes: Notes, instance_uuid: str) -> Note:
    """The guest. Raises GuestMissing."""
    if instance_uuid not in notes.guests:
        raise GuestMissing()
    return notes.guests[instance_uuid]


def late(progress: Progress) -> Pause:
    """A pause that ends when nobody wants the call any more."""
    return lambda seconds: wait(seconds, lambda _: progress("being late", None))


def wait(seconds: float, tell: Callable[[float], None]) -> None:
    """Sleep in ticks, telling the share gone after each; what `tell` raises ends the waiting."""
    began = time.monotonic()
    while (gone := time.monotonic() - began) < seconds:
        time.sleep(min(TICK_SECONDS, seconds - gone))
        tell(min((time.monotonic() - began) / seconds, 1.0))


def _check_metrics(metrics: Mapping[str, Any]) -> None:
    """Raises Invalid for a metric that nobody knows, or that is no number."""
    wrong = sorted(metrics.keys() - kept(metrics).keys())
    if wrong:
        known = ", ".join(NAMES)
        raise Invalid(f"Option fake.metrics: {wrong[0]!r} is no metric with a number. Metrics are: {known}.")
