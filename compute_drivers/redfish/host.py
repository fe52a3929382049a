"""The host itself: its machines, what they offer, which guests they have, and how those go."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from compute_drivers.image_cache import ImageCache
from compute_drivers.options import parse
from compute_drivers.redfish import machines
from compute_drivers.redfish.media import Media
from compute_drivers.redfish.notes import CLEANING, MADE, Note, Notes
from compute_drivers.redfish.options import ALWAYS, RedfishOptions
from conductor.core.compute_driver import ComputeDriver, GuestInfo, Inventory, NodeReport, OpenImage
from conductor.core.errors import BuildAborted, DriverError, GuestMissing, Invalid
from conductor.core.identifiers import uuid_or_none
from conductor.core.states import PowerState

if TYPE_CHECKING:  # these need sushy, which only a host that has started needs
    from compute_drivers.redfish.bmc import Bmc
    from compute_drivers.redfish.figures import Figures

log = logging.getLogger(__name__)

T = TypeVar("T")
TRAITS = ("COMPUTE_NODE", "COMPUTE_IMAGE_TYPE_ISO")
KIND, MODE = "baremetal", "hvm"
MOST_AT_ONCE = 16
GB = 1 << 30


class RedfishHost(ComputeDriver):
    """Controllers of machines, and notes of which machine has which guest."""

    def __init__(self, host: str, options: Mapping[str, Any], open_image: OpenImage) -> None:
        super().__init__(host, options, open_image)
        has = self._options = parse(RedfishOptions, options, self.name)
        if not machines.CUSTOM.fullmatch(has.resource_class):
            raise Invalid(f"Option redfish.resource_class: {has.resource_class!r} is not like CUSTOM_BAREMETAL.")
        self._machines = machines.read(has.machines_file)
        self._notes = Notes(has.state_dir.absolute() / "machines")
        self._media = Media(has.media_dir, has.media_url, host)
        self._images = ImageCache(
            has.state_dir.absolute() / "images",
            lambda image_id: self.open_image(image_id),
            most_bytes=has.image_cache_gb * GB,
            keep_seconds=has.image_cache_seconds,
        )
        self._bmcs: dict[str, Bmc] = {}
        self._figures: dict[str, Figures] = {}
        self._wrong: dict[str, str] = {}  # machine → why it cannot be used now, empty where it can
        self._cleanable: set[str] = set()
        self._silent: set[str] = set()  # machines that are not asked again before the next look
        self._states: dict[str, PowerState] = {}  # instance → as it was seen last
        self._look_at = 0.0

    def start(self) -> None:
        """Read the notes of earlier processes, and look at every machine. Some may be silent, not all."""
        try:
            from compute_drivers.redfish.bmc import Bmc
        except ImportError:
            raise DriverError("sushy is not installed on this host: install novella[redfish].") from None
        try:
            self._options.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._notes.prepare()
            self._images.prepare()
            notes = self._notes.all()
            self._media.prepare({note.token for note in notes.values()})
        except OSError as error:
            raise DriverError(f"The folders of this host cannot be used: {error.strerror}.") from error
        lost = sorted(notes.keys() - self._machines.keys())
        if lost:
            raise DriverError(f"Machine {lost[0]} has a guest and is not in the machines file; put it back.")
        self._bmcs = {name: Bmc(machine, self._options) for name, machine in self._machines.items()}
        self._look()
        self._require_some()

    def stop(self) -> None:
        for bmc in self._bmcs.values():
            bmc.forget()

    def report(self) -> NodeReport:
        self._images.expire_sometimes(frozenset)
        if time.monotonic() >= self._look_at:
            self._look()
        self._require_some()
        return NodeReport(
            node=self.host,
            hypervisor_type=KIND,
            hypervisor_version=1,
            inventory=self._inventory(),
            traits=frozenset({*TRAITS, f"HW_ARCH_{self._options.architecture.upper()}"}),
            supported_instances=((self._options.architecture, KIND, MODE),),
            cpu_info={"arch": self._options.architecture},
            capabilities={"machines": self._told()},
        )

    def guests(self) -> list[GuestInfo]:
        """The guest of a silent controller is as it was seen last. Begun or half-removed ones are NOSTATE."""
        notes = self._notes.all()
        names = [name for name, note in notes.items() if note.stage == MADE]
        seen = dict(zip(names, self._at_once(lambda name: self._seen(name, notes[name]), names), strict=True))
        return [GuestInfo(note.instance_uuid, seen.get(name, PowerState.NOSTATE)) for name, note in notes.items()]

    def destroy(self, instance_uuid: str) -> None:
        """The machine is free again once it is off and empty, and as clean as `erase` says; else it keeps its note."""
        require_uuid(instance_uuid)
        held = self._notes.of(instance_uuid)
        if held is None:
            return
        name, note = held
        bmc = self._bmcs[name]
        self._notes.save(name, replace(note, stage=CLEANING))
        bmc.power_off(0.0)
        bmc.eject()
        bmc.boot_as_set_up()
        if self._options.erase == ALWAYS:
            bmc.erase()
        self._media.remove(note.token)
        self._notes.drop(name)
        self._states.pop(instance_uuid, None)

    def console_log(self, instance_uuid: str, offset: int) -> bytes:
        """Redfish has no word for what a machine wrote."""
        return b""

    # -- for the rest of the driver

    def _made(self, instance_uuid: str) -> tuple[str, Note, Bmc]:
        """A guest that was built to the end. Raises GuestMissing."""
        held = self._notes.of(instance_uuid)
        if held is None or held[1].stage != MADE:
            raise GuestMissing()
        name, note = held
        return name, note, self._bmcs[name]

    def _look(self) -> None:
        """At every machine anew. What is known of one that is silent now stays."""
        for name, wrong in zip(self._bmcs, self._at_once(self._look_at_one, self._bmcs), strict=True):
            if wrong and self._wrong.get(name) != wrong:
                log.warning("machine %s of host %s is out of service: %s", name, self.host, wrong)
            self._wrong[name] = wrong
        self._look_at = time.monotonic() + self._options.look_seconds

    def _look_at_one(self, name: str) -> str:
        """Why the machine is of no use now; empty for one that is. It is measured once, unless something was wrong."""
        bmc = self._bmcs[name]
        try:
            if name not in self._figures or self._wrong.get(name):
                self._figures[name] = bmc.figures()
            if self._options.erase == ALWAYS and name not in self._cleanable:
                if not bmc.can_clean():
                    return f"Machine {name} has drives that cannot erase themselves, and the option erase is always."
                self._cleanable.add(name)
            had_guest = name in self._notes.all()
            is_on = bmc.is_on()
        except DriverError as error:
            self._silent.add(name)
            return error.message
        self._silent.discard(name)
        if is_on and not had_guest and name not in self._notes.all():
            # Perhaps somebody's, whose note was lost: it is not wiped because of that.
            return f"Machine {name} is on and has no guest; power it off to have it used."
        return ""

    def _seen(self, name: str, note: Note) -> PowerState:
        """A controller that is silent must not hold up what is told of the others: it is asked once per look."""
        if name not in self._silent:
            try:
                is_on = self._bmcs[name].is_on()
                self._states[note.instance_uuid] = PowerState.RUNNING if is_on else PowerState.SHUTDOWN
            except DriverError as error:
                log.warning("the guest of machine %s cannot be seen: %s", name, error.message)
                self._wrong[name] = error.message
                self._silent.add(name)
        return self._states.get(note.instance_uuid, PowerState(note.power_state))

    def _at_once(self, ask: Callable[[str], T], names: Iterable[str]) -> list[T]:
        names = list(names)
        if not names:
            return []
        with ThreadPoolExecutor(min(len(names), MOST_AT_ONCE)) as threads:
            return list(threads.map(ask, names))

    def _require_some(self) -> None:
        taken = self._notes.all()
        if not any(name in taken or not self._wrong[name] for name in self._figures):
            why = next(filter(None, self._wrong.values()), "")
            raise DriverError(f"No machine of this host can be used. {why}")

    def _inventory(self) -> dict[str, Inventory]:
        """Sums over all machines that are known; what is out of service and free is reserved."""
        known, taken = self._figures, self._notes.all()
        closed = [found for name, found in known.items() if self._wrong[name] and name not in taken]
        amounts: dict[str, Callable[[Figures], int]] = {
            "VCPU": lambda found: found.vcpus,
            "MEMORY_MB": lambda found: found.memory_mb,
            "DISK_GB": lambda found: found.disk_gb,
            self._options.resource_class: lambda found: 1,
        }
        return {
            name: Inventory(
                total=sum(map(amount, known.values())),
                reserved=sum(map(amount, closed)),
                max_unit=max(map(amount, known.values())),
            )
            for name, amount in amounts.items()
        }

    def _told(self) -> list[dict[str, Any]]:
        """For operators: where the consoles of machines are, and which of them is out of service."""
        return [
            {
                "name": name,
                "bmc": machine.bmc,
                "model": self._figures[name].model if name in self._figures else "",
                "cards": list(self._figures[name].cards) if name in self._figures else [],
                "consoles": list(self._figures[name].consoles) if name in self._figures else [],
                "wrong": self._wrong[name],
            }
            for name, machine in self._machines.items()
        ]


def require_uuid(instance_uuid: str) -> None:
    if uuid_or_none(instance_uuid) is None:
        raise BuildAborted("The instance has no usable uuid.")
