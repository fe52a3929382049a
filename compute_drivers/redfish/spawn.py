"""Builds guests on machines: claims a machine, inserts the media, and starts it from them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from compute_drivers.config_drive import build_iso
from compute_drivers.metadata_files import metadata_files
from compute_drivers.redfish.assignments import BUILT, Assignment
from compute_drivers.redfish.media import new_token
from compute_drivers.redfish.node import RedfishNode, require_uuid
from compute_drivers.redfish.options import ALWAYS
from compute_drivers.redfish.power import SHUTDOWN, Power
from conductor.core.compute_driver import GuestSpec, Progress
from conductor.core.errors import BuildAborted, DriverError, NovellaError

if TYPE_CHECKING:
    from compute_drivers.redfish.hardware import MachineHardware

log = logging.getLogger(__name__)

# The signature of an ISO 9660 image and its offset.
ISO_SIGNATURE, ISO_SIGNATURE_OFFSET = b"CD001", 0x8001


class GuestBuilder:
    """Claims the machine first and releases it last, so that an interrupted build is found and cleaned."""

    def __init__(self, node: RedfishNode, power: Power) -> None:
        self._node = node
        self._power = power

    def spawn(self, guest: GuestSpec, progress: Progress) -> None:
        """Build the guest on a free machine and start it."""
        node, uuid = self._node, guest.instance_uuid
        require_uuid(uuid)
        found = node.assignments.find(uuid)
        if found is not None and found[1].stage == BUILT:
            self._power.power_on(uuid)
            return
        node.destroy(uuid)  # left over from an interrupted build
        _check(guest)
        with node.images.pinned(guest.image.image_id):
            try:
                machine = self._claim(guest, progress)
                image = self._fetch(guest, progress)
                self._deploy(machine, guest, image, progress)
                self._power.start_machine(machine)
            except BaseException:
                self._destroy_unfinished(uuid)
                raise

    def rebuild(self, guest: GuestSpec, progress: Progress, *, is_running: bool) -> None:
        """Install the image anew. After the image is fetched there is no way back; repeating continues."""
        node = self._node
        machine, _, bmc = node.built_guest(guest.instance_uuid)
        _check(guest)
        with node.images.pinned(guest.image.image_id):
            image = self._fetch(guest, progress)
            progress("ending the guest", None)
            bmc.power_off(0.0)
            if node.options.erase == ALWAYS:
                progress("erasing the drives", None)
                bmc.erase()
            self._deploy(machine, guest, image, progress)
        if is_running:
            self._power.start_machine(machine)

    def check(self, guest: GuestSpec) -> None:
        """Raise DriverError where no free machine fits the guest; whether one answers is seen when it is claimed."""
        _check(guest)
        taken = self._node.assignments.all()
        free = (hardware for machine, hardware in self._node.hardware.items() if machine not in taken)
        if all(_mismatch(hardware, guest) for hardware in free):
            raise DriverError("No free machine of this host is large enough for the server.")

    # -- steps, each of which can be repeated

    def _claim(self, guest: GuestSpec, progress: Progress) -> str:
        """Assign the smallest free machine that is large enough and answers. Raises DriverError."""
        progress("choosing a machine", 0.0)
        node = self._node
        taken, reasons = node.assignments.all(), Counter[str]()
        for machine, hardware in sorted(node.hardware.items(), key=lambda entry: _size(entry[1])):
            reason = "taken" if machine in taken else _mismatch(hardware, guest)
            if not reason and node.assignments.claim(machine, Assignment(guest.instance_uuid, new_token())):
                reason = self._unavailable(machine)
                if not reason:
                    return machine
                node.assignments.drop(machine)
            reasons[reason or "taken"] += 1
        reasons["out of service"] += len(node.machines.keys() - node.hardware.keys())
        counts = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()) if count)
        raise DriverError(f"No machine of this host can take the server: {counts}.")

    def _unavailable(self, machine: str) -> str:
        """Return why a free machine cannot be used now; "" for one that can."""
        try:
            if not self._node.bmcs[machine].is_on():
                return ""
            log.warning("machine %s is on and has no guest; it is left alone", machine)
        except DriverError as error:
            self._node.faults[machine] = error.message
            log.warning("machine %s is out of service: %s", machine, error.message)
        return "out of service"

    def _fetch(self, guest: GuestSpec, progress: Progress) -> Path:
        """Return the image's file. Raises BuildAborted for anything but an ISO 9660 image."""
        progress("fetching the image", 0.0)
        image = self._node.images.fetch(guest.image, lambda share: progress("fetching the image", share))
        try:
            with image.open("rb") as file:
                file.seek(ISO_SIGNATURE_OFFSET)
                signature = file.read(len(ISO_SIGNATURE))
        except OSError as error:
            raise DriverError(f"The image cannot be read on this host: {error.strerror}.") from error
        if signature != ISO_SIGNATURE:
            raise BuildAborted(f"Image {guest.image.image_id} is no disc that a machine could boot (ISO 9660).")
        return image

    def _deploy(self, machine: str, guest: GuestSpec, image: Path, progress: Progress) -> None:
        """Insert the media and set the boot device of a machine that is off."""
        progress("inserting the media", None)
        node = self._node
        bmc, assignment = node.bmcs[machine], node.assignments.all()[machine]
        image_url = node.media.publish_image(assignment.token, image)
        config_url = ""
        if node.options.config_drive:
            iso = build_iso(self._metadata_files(machine, guest))
            config_url = node.media.publish_config_drive(assignment.token, iso)
        node.assignments.save(machine, replace(assignment, is_armed=True, power_state=SHUTDOWN))
        bmc.insert(image_url, config_url)
        bmc.boot_from_disc(always=node.options.boot == ALWAYS)
        node.media.remove_others(assignment.token, {image_url, config_url})
        progress("starting the machine", None)

    def _metadata_files(self, machine: str, guest: GuestSpec) -> Mapping[str, bytes]:
        """Return the guest's metadata with the MACs of the machine's own cards, in the order of its ports."""
        cards = self._node.hardware[machine].cards
        if cards:
            pairs = zip(guest.ports, cards, strict=False)
            guest = replace(guest, ports=tuple(replace(port, mac_address=mac) for port, mac in pairs))
        return metadata_files(guest, guest.admin_password)

    def _destroy_unfinished(self, instance_uuid: str) -> None:
        """Release the machine; one that cannot be cleaned now keeps its assignment and is cleaned later."""
        try:
            self._node.destroy(instance_uuid)
        except NovellaError:
            log.exception("the machine of %s could not be cleaned after a failed build", instance_uuid)


def _check(guest: GuestSpec) -> None:
    """Raises DriverError for what another host may have."""
    flavor = guest.flavor
    unsupported = (("volumes", guest.volumes), ("ephemeral disks", flavor.ephemeral_gb), ("swap", flavor.swap_mb))
    for what, is_requested in unsupported:
        if is_requested:
            raise DriverError(f"Machines of this host have no {what}.")
    if not guest.image.image_id:
        raise DriverError("A machine is built from an image; there is none.")
    if guest.image.disk_format not in ("iso", ""):
        raise DriverError(f"Machines boot from discs (iso); image {guest.image.image_id} is {guest.image.disk_format}.")


def _size(hardware: MachineHardware) -> tuple[int, int, int]:
    return hardware.memory_mb, hardware.vcpus, hardware.disk_gb


def _mismatch(hardware: MachineHardware, guest: GuestSpec) -> str:
    """Return why a machine does not fit the guest; "" for one that does."""
    flavor = guest.flavor
    if hardware.vcpus < flavor.vcpus or hardware.memory_mb < flavor.memory_mb or hardware.disk_gb < flavor.root_gb:
        return "too small"
    return "with too few network cards" if hardware.cards and len(hardware.cards) < len(guest.ports) else ""
