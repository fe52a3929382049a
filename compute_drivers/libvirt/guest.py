"""One guest as a libvirt domain: power, disks, network cards, password, statistics. It loads libvirt."""

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

from compute_drivers.libvirt import guest_agent, statistics
from compute_drivers.libvirt.disks import create_blank
from compute_drivers.libvirt.domain_xml import NAMESPACE
from compute_drivers.libvirt.guest_volumes import GuestVolumes
from compute_drivers.libvirt.machine_spec import SECURE
from compute_drivers.libvirt.qemu_network import FIRST_SLOT, MAX_PORTS
from conductor.core.errors import DriverError
from conductor.core.states import PowerState

POWER_STATES = {
    libvirt.VIR_DOMAIN_RUNNING: PowerState.RUNNING,
    libvirt.VIR_DOMAIN_BLOCKED: PowerState.RUNNING,
    libvirt.VIR_DOMAIN_PAUSED: PowerState.PAUSED,
    libvirt.VIR_DOMAIN_SHUTDOWN: PowerState.RUNNING,  # shutting down, and still running
    libvirt.VIR_DOMAIN_SHUTOFF: PowerState.SHUTDOWN,
    libvirt.VIR_DOMAIN_CRASHED: PowerState.CRASHED,
    libvirt.VIR_DOMAIN_PMSUSPENDED: PowerState.SUSPENDED,
}
UNEXPECTED_ENDS = {libvirt.VIR_DOMAIN_SHUTOFF_CRASHED, libvirt.VIR_DOMAIN_SHUTOFF_FAILED}
GONE = {libvirt.VIR_ERR_NO_DOMAIN}
ALREADY_OFF = GONE | {libvirt.VIR_ERR_OPERATION_INVALID}
# The guest was asked to release the device and has not finished, or has just finished.
RELEASING = {
    libvirt.VIR_ERR_OPERATION_FAILED,
    libvirt.VIR_ERR_INTERNAL_ERROR,
    libvirt.VIR_ERR_DEVICE_MISSING,
    libvirt.VIR_ERR_OPERATION_TIMEOUT,
}
POLL_SECONDS = 0.1
STATISTICS = libvirt.VIR_DOMAIN_STATS_VCPU | libvirt.VIR_DOMAIN_STATS_BALLOON | libvirt.VIR_DOMAIN_STATS_BLOCK
# Makes the properties of a QEMU device for a PCI slot.
DeviceInSlot = Callable[[int], dict[str, Any]]


class LibvirtGuest:
    """A domain. Methods act at once or fail, except those that wait for the guest to release a device."""

    def __init__(self, domain: Any) -> None:
        self._domain = domain

    def power_state(self) -> PowerState:
        """Return the power state; NOSTATE for a domain that is gone."""
        state = reason = libvirt.VIR_DOMAIN_NOSTATE
        with ignoring(GONE):  # removed between listing and reading
            state, reason = self._domain.state()
            if state == libvirt.VIR_DOMAIN_SHUTOFF and self._domain.hasManagedSaveImage():
                return PowerState.SUSPENDED
        if state == libvirt.VIR_DOMAIN_SHUTOFF and reason in UNEXPECTED_ENDS:
            return PowerState.CRASHED
        return POWER_STATES.get(state, PowerState.NOSTATE)

    def metadata(self) -> dict[str, str]:
        """Return this driver's metadata of the domain; empty for a domain that is not ours."""
        text = ""
        with ignoring(GONE | {libvirt.VIR_ERR_NO_DOMAIN_METADATA}):
            text = self._domain.metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, NAMESPACE)
        found = ElementTree.fromstring(text) if text else ()
        return {entry.tag.rpartition("}")[2]: entry.text or "" for entry in found}

    def set_password(self, password: str) -> None:
        """Have the guest agent set the administrator's password. Raises DriverError where no agent answers."""
        guest_agent.set_password(self._domain, self.metadata().get("administrator") or "root", password)

    def start(self) -> None:
        """Start the guest; a suspended one resumes."""
        self._domain.create()

    def force_off(self) -> None:
        """End the guest at once and drop its saved memory."""
        with ignoring(ALREADY_OFF):
            self._domain.destroy()
        with ignoring(ALREADY_OFF):
            if self._domain.hasManagedSaveImage():
                self._domain.managedSaveRemove()

    def press_power_button(self) -> None:
        with ignoring(ALREADY_OFF):
            self._domain.shutdownFlags(libvirt.VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN)

    def reset(self) -> None:
        self._domain.reset()

    def pause(self) -> None:
        self._domain.suspend()

    def unpause(self) -> None:
        self._domain.resume()

    def save_memory(self) -> None:
        """Write the guest's memory to disk and end it."""
        self._domain.managedSave()

    def inject_nmi(self) -> None:
        """Send a non-maskable interrupt, on which the guest's kernel may dump its memory."""
        self._domain.injectNMI()

    def uses_disk(self, path: Path) -> bool:
        """Return whether the guest has a disk at `path`."""
        sources = self._elements("devices/disk/source")
        return str(path) in {source.get("file") or source.get("dev") for source in sources}

    def statistics(self) -> dict[str, Any]:
        """Return what the hypervisor has counted since the guest's start."""
        records = self._domain.connect().domainListGetStats([self._domain], STATISTICS, 0)
        cdroms = {found.get("dev", "") for found in self._elements("devices/disk[@device='cdrom']/target")}
        return statistics.to_diagnostics(records[0][1] if records else {}, cdroms)

    def addresses(self) -> dict[str, list[str]]:
        """Return the addresses that the guest agent reports, by MAC."""
        return guest_agent.addresses(self._domain)

    # -- disks

    @property
    def volumes(self) -> GuestVolumes:
        return GuestVolumes(self._domain)

    def disk_targets(self) -> set[str]:
        return {found.get("dev", "") for found in self._elements("devices/disk/target")}

    def attach_disk(self, disk_xml: str) -> None:
        self._domain.attachDeviceFlags(disk_xml, libvirt.VIR_DOMAIN_AFFECT_LIVE)

    def detach_volume(self, volume_uuid: str, seconds: float) -> None:
        """Ask the guest to release a volume. Raises DriverError when it has not after `seconds`."""

        def ask() -> None:
            with ignoring(RELEASING):
                self._domain.detachDeviceAlias(self.volumes.alias(volume_uuid), libvirt.VIR_DOMAIN_AFFECT_LIVE)

        _retry_until(lambda: not self.volumes.alias(volume_uuid), ask, seconds, "volume")

    def copy_disk(self, path: Path, target: Path, report: Callable[[float], None]) -> None:
        """Copy a disk; the copy has the state of the moment in which it is complete. What `report` raises ends it."""
        self._abort_copy(path)
        guest_agent.thaw(self._domain)  # after an interrupted call
        requires_quiesce = self.metadata().get("still") == guest_agent.REQUIRED
        if requires_quiesce:
            guest_agent.require(self._domain)
        self.begin_copy(path, target)
        try:
            while not (job := self._domain.blockJobInfo(str(path))) or job["cur"] < job["end"] or not job["end"]:
                if not job:
                    raise DriverError("The copy of the guest's disk ended before it was complete.")
                report(job["cur"] / job["end"] if job["end"] else 0.0)
                time.sleep(POLL_SECONDS)
            with guest_agent.frozen_file_systems(self._domain, is_required=requires_quiesce):
                self._domain.blockJobAbort(str(path))  # complete: the guest keeps its own disk
        except BaseException:
            self._abort_copy(path)
            raise

    def begin_copy(self, path: Path, target: Path) -> None:
        """Start copying a disk; QEMU writes to both until the job is aborted."""
        element = ElementTree.Element("disk", type="file")
        ElementTree.SubElement(element, "source", file=str(target))
        ElementTree.SubElement(element, "driver", type="qcow2")
        create_blank(target, self._domain.blockInfo(str(path))[0])
        flags = libvirt.VIR_DOMAIN_BLOCK_COPY_TRANSIENT_JOB | libvirt.VIR_DOMAIN_BLOCK_COPY_REUSE_EXT
        self._domain.blockCopy(str(path), ElementTree.tostring(element, encoding="unicode"), {}, flags)

    def _abort_copy(self, path: Path) -> None:
        """Abort the copy of an interrupted call."""
        with ignoring(ALREADY_OFF):
            if self._domain.blockJobInfo(str(path)):
                self._domain.blockJobAbort(str(path))

    # -- network cards: QEMU has them from its command line, so libvirt does not know them

    def has_nic(self, nic_id: str) -> bool:
        return nic_id in {found["name"] for found in self._ask("qom-list", path="/machine/peripheral")}

    def attach_nic(self, make_netdev: DeviceInSlot, make_nic: DeviceInSlot) -> None:
        """Attach a network card and its backend in a free PCI slot. Raises DriverError when there is none."""
        (machine,) = self._elements("os/type")
        if SECURE in machine.get("machine", ""):
            raise DriverError("A guest with secure boot takes a port only while it is off.")
        taken = {device["slot"] for bus in self._ask("query-pci") for device in bus["devices"] if bus["bus"] == 0}
        slots = range(FIRST_SLOT, FIRST_SLOT + MAX_PORTS)
        slot = next((slot for slot in slots if slot not in taken), None)
        if slot is None:
            raise DriverError(f"A guest on this host has at most {MAX_PORTS} ports.")
        netdev = make_netdev(slot)
        self._remove_netdev(netdev["id"])  # left over from an interrupted call
        self._ask("netdev_add", **netdev)
        try:
            self._ask("device_add", **make_nic(slot))
        except BaseException:
            self._remove_netdev(netdev["id"])
            raise

    def detach_nic(self, nic_id: str, netdev_id: str, seconds: float) -> None:
        """Ask the guest to release a card. Raises DriverError when it has not after `seconds`."""

        def ask() -> None:
            with suppress(DriverError):  # asked before, or just released
                self._ask("device_del", id=nic_id)

        if self.has_nic(nic_id):
            _retry_until(lambda: not self.has_nic(nic_id), ask, seconds, "port")
        self._remove_netdev(netdev_id)

    def _remove_netdev(self, netdev_id: str) -> None:
        with suppress(DriverError):  # there is none
            self._ask("netdev_del", id=netdev_id)

    def _ask(self, command: str, **arguments: Any) -> Any:
        request = json.dumps({"execute": command, "arguments": arguments})
        answer = json.loads(libvirt_qemu.qemuMonitorCommand(self._domain, request, 0))
        if "error" in answer:
            raise DriverError(f"The hypervisor refused {command}: {answer['error'].get('desc', 'no reason given')}")
        return answer["return"]

    def _elements(self, path: str) -> list[ElementTree.Element]:
        return ElementTree.fromstring(self._domain.XMLDesc()).findall(path)


def _retry_until(is_done: Callable[[], bool], ask: Callable[[], None], seconds: float, what: str) -> None:
    """Call `ask` every few seconds until `is_done`: a booting guest ignores the first request."""
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
def ignoring(codes: set[int]) -> Iterator[None]:
    """Suppress libvirt errors with one of `codes`."""
    try:
        yield
    except libvirt.libvirtError as error:
        if error.get_error_code() not in codes:
            raise
