"""One guest as libvirt has it. With `connection` and `migration`, the only module that speaks with libvirt."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import libvirt
import libvirt_qemu

from compute_drivers.libvirt import figures
from compute_drivers.libvirt import guest_agent as agent
from compute_drivers.libvirt.disks import create_blank
from compute_drivers.libvirt.domain_xml import NAMESPACE
from compute_drivers.libvirt.guest_volumes import GuestVolumes
from compute_drivers.libvirt.user_network import FIRST_SLOT, MOST_PORTS
from compute_drivers.libvirt.wishes import SECURE
from conductor.core.errors import DriverError
from conductor.core.states import PowerState

POWER_STATES = {
    libvirt.VIR_DOMAIN_RUNNING: PowerState.RUNNING,
    libvirt.VIR_DOMAIN_BLOCKED: PowerState.RUNNING,
    libvirt.VIR_DOMAIN_PAUSED: PowerState.PAUSED,
    libvirt.VIR_DOMAIN_SHUTDOWN: PowerState.RUNNING,  # it is being shut down, and still runs
    libvirt.VIR_DOMAIN_SHUTOFF: PowerState.SHUTDOWN,
    libvirt.VIR_DOMAIN_CRASHED: PowerState.CRASHED,
    libvirt.VIR_DOMAIN_PMSUSPENDED: PowerState.SUSPENDED,
}
UNEXPECTED_ENDS = {libvirt.VIR_DOMAIN_SHUTOFF_CRASHED, libvirt.VIR_DOMAIN_SHUTOFF_FAILED}
GONE = {libvirt.VIR_ERR_NO_DOMAIN}
ALREADY_OFF = GONE | {libvirt.VIR_ERR_OPERATION_INVALID}
# The guest was asked to let go of the device, and is still at it; or it has just done so.
LETTING_GO = {
    *(libvirt.VIR_ERR_OPERATION_FAILED, libvirt.VIR_ERR_INTERNAL_ERROR),
    *(libvirt.VIR_ERR_DEVICE_MISSING, libvirt.VIR_ERR_OPERATION_TIMEOUT),
}
POLL_SECONDS = 0.1
COUNTED = libvirt.VIR_DOMAIN_STATS_VCPU | libvirt.VIR_DOMAIN_STATS_BALLOON | libvirt.VIR_DOMAIN_STATS_BLOCK
# What plugs into a slot, as QEMU describes devices.
Describe = Callable[[int], dict[str, Any]]


class Guest:
    """A domain. Everything here is done at once or fails; what takes its guest's goodwill says so."""

    def __init__(self, domain: Any) -> None:
        self._domain = domain

    def power_state(self) -> PowerState:
        """NOSTATE for one that is gone."""
        state = reason = libvirt.VIR_DOMAIN_NOSTATE
        with passing_over(GONE):  # it went between listing and looking
            state, reason = self._domain.state()
            if state == libvirt.VIR_DOMAIN_SHUTOFF and self._domain.hasManagedSaveImage():
                return PowerState.SUSPENDED
        if state == libvirt.VIR_DOMAIN_SHUTOFF and reason in UNEXPECTED_ENDS:
            return PowerState.CRASHED
        return POWER_STATES.get(state, PowerState.NOSTATE)

    def mark(self) -> dict[str, str]:
        """What we wrote into its description; nothing for a guest of somebody else."""
        told = ""
        with passing_over(GONE | {libvirt.VIR_ERR_NO_DOMAIN_METADATA}):
            told = self._domain.metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, NAMESPACE)
        found = ElementTree.fromstring(told) if told else ()
        return {entry.tag.rpartition("}")[2]: entry.text or "" for entry in found}

    def set_password(self, password: str) -> None:
        """Have the agent inside of it set the administrator's password. Raises DriverError where there is none."""
        agent.set_password(self._domain, self.mark().get("administrator") or "root", password)

    def launch(self) -> None:
        """Start it; a suspended one goes on."""
        self._domain.create()

    def end(self) -> None:
        """Off, and nothing is kept of its memory."""
        with passing_over(ALREADY_OFF):
            self._domain.destroy()
        with passing_over(ALREADY_OFF):
            if self._domain.hasManagedSaveImage():
                self._domain.managedSaveRemove()

    def press_power_button(self) -> None:
        with passing_over(ALREADY_OFF):
            self._domain.shutdownFlags(libvirt.VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN)

    def reset(self) -> None:
        self._domain.reset()

    def freeze(self) -> None:
        self._domain.suspend()

    def thaw(self) -> None:
        self._domain.resume()

    def save_memory(self) -> None:
        """Write its memory to the disk, and end it."""
        self._domain.managedSave()

    def interrupt(self) -> None:
        """A non-maskable interrupt: what a guest does then is its own choice."""
        self._domain.injectNMI()

    def uses(self, path: Path) -> bool:
        """Whether it was started with, or was plugged, this file."""
        return str(path) in {source.get("file") or source.get("dev") for source in self._found("devices/disk/source")}

    def figures(self) -> dict[str, Any]:
        """What the hypervisor has counted since the guest's start."""
        told = self._domain.connect().domainListGetStats([self._domain], COUNTED, 0)
        discs = {found.get("dev", "") for found in self._found("devices/disk[@device='cdrom']/target")}
        return figures.figures(told[0][1] if told else {}, discs)

    def addresses(self) -> dict[str, list[str]]:
        """What its cards have by the word of the agent inside of it, by MAC."""
        return agent.addresses(self._domain)

    # -- disks

    @property
    def volumes(self) -> GuestVolumes:
        return GuestVolumes(self._domain)

    def targets(self) -> set[str]:
        return {found.get("dev", "") for found in self._found("devices/disk/target")}

    def plug_disk(self, disk_xml: str) -> None:
        self._domain.attachDeviceFlags(disk_xml, libvirt.VIR_DOMAIN_AFFECT_LIVE)

    def unplug_volume(self, volume_uuid: str, seconds: float) -> None:
        """Ask the guest to let go of it. Raises DriverError when it has not after `seconds`."""

        def ask() -> None:
            with passing_over(LETTING_GO):
                self._domain.detachDeviceAlias(self.volumes.alias(volume_uuid), libvirt.VIR_DOMAIN_AFFECT_LIVE)

        _until(lambda: not self.volumes.alias(volume_uuid), ask, seconds, "volume")

    def copy_disk(self, path: Path, target: Path, tell: Callable[[float], None]) -> None:
        """Copy a disk as it is in the moment in which the copy is complete. What `tell` raises ends it."""
        self._drop_copy(path)
        agent.go_on(self._domain)  # of a call that was cut off
        must_be_still = self.mark().get("still") == agent.REQUIRED
        if must_be_still:
            agent.require(self._domain)
        self.begin_copy(path, target)
        try:
            while not (job := self._domain.blockJobInfo(str(path))) or job["cur"] < job["end"] or not job["end"]:
                if not job:
                    raise DriverError("The copy of the guest's disk ended before it was complete.")
                tell(job["cur"] / job["end"] if job["end"] else 0.0)
                time.sleep(POLL_SECONDS)
            with agent.standing_still(self._domain, must_be=must_be_still):
                self._domain.blockJobAbort(str(path))  # complete: the guest stays with its own disk
        except BaseException:
            self._drop_copy(path)
            raise

    def begin_copy(self, path: Path, target: Path) -> None:
        """Have QEMU copy a disk, and from then on write to both, until somebody ends it."""
        wanted = ElementTree.Element("disk", type="file")
        ElementTree.SubElement(wanted, "source", file=str(target))
        ElementTree.SubElement(wanted, "driver", type="qcow2")
        create_blank(target, self._domain.blockInfo(str(path))[0])
        how = libvirt.VIR_DOMAIN_BLOCK_COPY_TRANSIENT_JOB | libvirt.VIR_DOMAIN_BLOCK_COPY_REUSE_EXT
        self._domain.blockCopy(str(path), ElementTree.tostring(wanted, encoding="unicode"), {}, how)

    def _drop_copy(self, path: Path) -> None:
        """End a copy that was cut off: its process may have been killed."""
        with passing_over(ALREADY_OFF):
            if self._domain.blockJobInfo(str(path)):
                self._domain.blockJobAbort(str(path))

    # -- cards: QEMU has them from its command line, so libvirt does not know of them

    def has_card(self, card_id: str) -> bool:
        return card_id in {found["name"] for found in self._ask("qom-list", path="/machine/peripheral")}

    def plug_card(
        self, make_cable: Callable[[int], dict[str, Any]], make_card: Callable[[int], dict[str, Any]]
    ) -> None:
        """Raises DriverError when there is no free slot."""
        (machine,) = self._found("os/type")
        if SECURE in machine.get("machine", ""):
            raise DriverError("A guest with secure boot takes a port only while it is off.")
        taken = {device["slot"] for bus in self._ask("query-pci") for device in bus["devices"] if bus["bus"] == 0}
        slots = range(FIRST_SLOT, FIRST_SLOT + MOST_PORTS)
        slot = next((slot for slot in slots if slot not in taken), None)
        if slot is None:
            raise DriverError(f"A guest on this host has at most {MOST_PORTS} ports.")
        cable = make_cable(slot)
        self._drop_cable(cable["id"])  # of a call that was cut off
        self._ask("netdev_add", **cable)
        try:
            self._ask("device_add", **make_card(slot))
        except BaseException:
            self._drop_cable(cable["id"])
            raise

    def unplug_card(self, card_id: str, cable_id: str, seconds: float) -> None:
        """Ask the guest to let go of a card. Raises DriverError when it has not after `seconds`."""

        def ask() -> None:
            with suppress(DriverError):  # it was asked before, or has just let go
                self._ask("device_del", id=card_id)

        if self.has_card(card_id):
            _until(lambda: not self.has_card(card_id), ask, seconds, "port")
        self._drop_cable(cable_id)

    def _drop_cable(self, cable_id: str) -> None:
        with suppress(DriverError):  # there is none
            self._ask("netdev_del", id=cable_id)

    def _ask(self, command: str, **arguments: Any) -> Any:
        wanted = json.dumps({"execute": command, "arguments": arguments})
        answer = json.loads(libvirt_qemu.qemuMonitorCommand(self._domain, wanted, 0))
        if "error" in answer:
            raise DriverError(f"The hypervisor refused {command}: {answer['error'].get('desc', 'no reason given')}")
        return answer["return"]

    def _found(self, path: str) -> list[ElementTree.Element]:
        return ElementTree.fromstring(self._domain.XMLDesc()).findall(path)


def _until(is_done: Callable[[], bool], ask: Callable[[], None], seconds: float, what: str) -> None:
    """Ask now and again every few seconds: a guest that boots overhears the first time."""
    deadline = time.monotonic() + seconds
    next_at = 0.0
    while not is_done():
        if time.monotonic() >= deadline:
            raise DriverError(f"The guest does not let go of the {what}; power it off and try again.")
        if time.monotonic() >= next_at:
            next_at = time.monotonic() + 5.0
            ask()
        time.sleep(POLL_SECONDS)


@contextmanager
def passing_over(codes: set[int]) -> Iterator[None]:
    try:
        yield
    except libvirt.libvirtError as error:
        if error.get_error_code() not in codes:
            raise
