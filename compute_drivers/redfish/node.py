"""State that all parts of the redfish driver share: machines, controllers, assignments, media and images."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from compute_drivers.image_cache import ImageCache
from compute_drivers.redfish import machines
from compute_drivers.redfish.assignments import BUILT, CLEANING, Assignment, Assignments
from compute_drivers.redfish.media import MediaStore
from compute_drivers.redfish.options import ALWAYS, RedfishOptions
from conductor.core.compute_driver import GuestInfo, Inventory, NodeReport, OpenImage
from conductor.core.errors import BuildAborted, DriverError, GuestMissing, Invalid
from conductor.core.identifiers import uuid_or_none
from conductor.core.states import PowerState

if TYPE_CHECKING:  # these load sushy, which only a host that has started needs
    from compute_drivers.redfish.bmc import Bmc
    from compute_drivers.redfish.hardware import MachineHardware

log = logging.getLogger(__name__)

T = TypeVar("T")
TRAITS = ("COMPUTE_NODE", "COMPUTE_IMAGE_TYPE_ISO")
HYPERVISOR_TYPE, VM_MODE = "baremetal", "hvm"
MAX_PARALLEL_REQUESTS = 16
GB = 1 << 30


class RedfishNode:
    """One host: the controllers of its machines, and records of which machine has which guest.

    Attributes:
        hardware: Hardware of the machines that have been measured.
        faults: Why a machine cannot be used now, "" where it can.
    """

    def __init__(self, host: str, options: RedfishOptions, open_image: OpenImage) -> None:
        """Raises Invalid for wrong options or a wrong machines file."""
        self.host = host
        self.options = options
        if not machines.CUSTOM.fullmatch(options.resource_class):
            raise Invalid(f"Option redfish.resource_class: {options.resource_class!r} is not like CUSTOM_BAREMETAL.")
        self.machines = machines.read(options.machines_file)
        self.assignments = Assignments(options.state_dir.absolute() / "machines")
        self.media = MediaStore(options.media_dir, options.media_url, host)
        self.images = ImageCache(
            options.state_dir.absolute() / "images",
            open_image,
            most_bytes=options.image_cache_gb * GB,
            keep_seconds=options.image_cache_seconds,
        )
        self.bmcs: dict[str, Bmc] = {}
        self.hardware: dict[str, MachineHardware] = {}
        self.faults: dict[str, str] = {}
        self._erasable: set[str] = set()
        self._unresponsive: set[str] = set()  # not asked again before the next inspection
        self._last_states: dict[str, PowerState] = {}  # by instance
        self._inspect_at = 0.0

    def start(self) -> None:
        """Read the assignments of earlier processes and inspect every machine; at least one must be usable."""
        try:
            from compute_drivers.redfish.bmc import Bmc
        except ImportError:
            raise DriverError("sushy is not installed on this host: install novella[redfish].") from None
        try:
            self.options.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.assignments.prepare()
            self.images.prepare()
            assignments = self.assignments.all()
            self.media.prepare({assignment.token for assignment in assignments.values()})
        except OSError as error:
            raise DriverError(f"The folders of this host cannot be used: {error.strerror}.") from error
        lost = sorted(assignments.keys() - self.machines.keys())
        if lost:
            raise DriverError(f"Machine {lost[0]} has a guest and is not in the machines file; put it back.")
        self.bmcs = {name: Bmc(machine, self.options) for name, machine in self.machines.items()}
        self._inspect()
        self._require_usable_machine()

    def stop(self) -> None:
        """End the sessions with the controllers."""
        for bmc in self.bmcs.values():
            bmc.forget()

    def report(self) -> NodeReport:
        """Return what this host offers now. Raises DriverError when no machine can be used."""
        self.images.expire_if_due(frozenset)
        if time.monotonic() >= self._inspect_at:
            self._inspect()
        self._require_usable_machine()
        return NodeReport(
            node=self.host,
            hypervisor_type=HYPERVISOR_TYPE,
            hypervisor_version=1,
            inventory=self._inventory(),
            traits=frozenset({*TRAITS, f"HW_ARCH_{self.options.architecture.upper()}"}),
            supported_instances=((self.options.architecture, HYPERVISOR_TYPE, VM_MODE),),
            cpu_info={"arch": self.options.architecture},
            capabilities={"machines": self._describe_machines()},
        )

    def list_guests(self) -> list[GuestInfo]:
        """Return every guest. An unresponsive machine keeps its last state; unfinished guests are NOSTATE."""
        assignments = self.assignments.all()
        names = [name for name, assignment in assignments.items() if assignment.stage == BUILT]
        states = self._in_parallel(lambda name: self._power_state(name, assignments[name]), names)
        by_machine = dict(zip(names, states, strict=True))
        return [
            GuestInfo(assignment.instance_uuid, by_machine.get(name, PowerState.NOSTATE))
            for name, assignment in assignments.items()
        ]

    def built_guest(self, instance_uuid: str) -> tuple[str, Assignment, Bmc]:
        """Return machine, assignment and controller of a completely built guest. Raises GuestMissing."""
        found = self.assignments.find(instance_uuid)
        if found is None or found[1].stage != BUILT:
            raise GuestMissing()
        machine, assignment = found
        return machine, assignment, self.bmcs[machine]

    def destroy(self, instance_uuid: str) -> None:
        """Power the machine off, eject its media and erase it as the options say; then it is free again.

        Until all of that succeeded the machine keeps its assignment.
        """
        require_uuid(instance_uuid)
        found = self.assignments.find(instance_uuid)
        if found is None:
            return
        machine, assignment = found
        bmc = self.bmcs[machine]
        self.assignments.save(machine, replace(assignment, stage=CLEANING))
        bmc.power_off(0.0)
        bmc.eject()
        bmc.boot_as_set_up()
        if self.options.erase == ALWAYS:
            bmc.erase()
        self.media.remove(assignment.token)
        self.assignments.drop(machine)
        self._last_states.pop(instance_uuid, None)

    # -- inspection of machines

    def _inspect(self) -> None:
        """Inspect all machines. The hardware of an unresponsive machine stays known."""
        for name, fault in zip(self.bmcs, self._in_parallel(self._inspect_one, self.bmcs), strict=True):
            if fault and self.faults.get(name) != fault:
                log.warning("machine %s of host %s is out of service: %s", name, self.host, fault)
            self.faults[name] = fault
        self._inspect_at = time.monotonic() + self.options.look_seconds

    def _inspect_one(self, name: str) -> str:
        """Return why the machine cannot be used, "" where it can. Hardware is read once, and again after a fault."""
        bmc = self.bmcs[name]
        try:
            if name not in self.hardware or self.faults.get(name):
                self.hardware[name] = bmc.hardware()
            if self.options.erase == ALWAYS and name not in self._erasable:
                if not bmc.can_clean():
                    return f"Machine {name} has drives that cannot erase themselves, and the option erase is always."
                self._erasable.add(name)
            had_guest = name in self.assignments.all()
            is_on = bmc.is_on()
        except DriverError as error:
            self._unresponsive.add(name)
            return error.message
        self._unresponsive.discard(name)
        if is_on and not had_guest and name not in self.assignments.all():
            # Its record may have been lost: a machine that runs is never erased because of that.
            return f"Machine {name} is on and has no guest; power it off to have it used."
        return ""

    def _power_state(self, name: str, assignment: Assignment) -> PowerState:
        """Return the power state; an unresponsive controller is asked once per inspection, to delay no other."""
        if name not in self._unresponsive:
            try:
                is_on = self.bmcs[name].is_on()
                self._last_states[assignment.instance_uuid] = PowerState.RUNNING if is_on else PowerState.SHUTDOWN
            except DriverError as error:
                log.warning("the power state of machine %s cannot be read: %s", name, error.message)
                self.faults[name] = error.message
                self._unresponsive.add(name)
        return self._last_states.get(assignment.instance_uuid, PowerState(assignment.power_state))

    def _in_parallel(self, ask: Callable[[str], T], names: Iterable[str]) -> list[T]:
        names = list(names)
        if not names:
            return []
        with ThreadPoolExecutor(min(len(names), MAX_PARALLEL_REQUESTS)) as threads:
            return list(threads.map(ask, names))

    def _require_usable_machine(self) -> None:
        assigned = self.assignments.all()
        if not any(name in assigned or not self.faults[name] for name in self.hardware):
            fault = next(filter(None, self.faults.values()), "")
            raise DriverError(f"No machine of this host can be used. {fault}")

    # -- the report

    def _inventory(self) -> dict[str, Inventory]:
        """Return sums over all known machines; free machines that are out of service are reserved."""
        known, assigned = self.hardware, self.assignments.all()
        out_of_service = [found for name, found in known.items() if self.faults[name] and name not in assigned]
        amounts: dict[str, Callable[[MachineHardware], int]] = {
            "VCPU": lambda found: found.vcpus,
            "MEMORY_MB": lambda found: found.memory_mb,
            "DISK_GB": lambda found: found.disk_gb,
            self.options.resource_class: lambda found: 1,
        }
        return {
            name: Inventory(
                total=sum(map(amount, known.values())),
                reserved=sum(map(amount, out_of_service)),
                max_unit=max(map(amount, known.values())),
            )
            for name, amount in amounts.items()
        }

    def _describe_machines(self) -> list[dict[str, Any]]:
        """Return what operators need: where the consoles of machines are, and which machines are out of service."""
        return [
            {
                "name": name,
                "bmc": machine.bmc,
                "model": self.hardware[name].model if name in self.hardware else "",
                "cards": list(self.hardware[name].cards) if name in self.hardware else [],
                "consoles": list(self.hardware[name].consoles) if name in self.hardware else [],
                "wrong": self.faults[name],
            }
            for name, machine in self.machines.items()
        ]


def require_uuid(instance_uuid: str) -> None:
    """Raises BuildAborted for anything but a uuid."""
    if uuid_or_none(instance_uuid) is None:
        raise BuildAborted("The instance has no usable uuid.")
