"""How a machine gets a guest: it is claimed, its media are inserted, and it starts from them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from compute_drivers.config_disc import disc
from compute_drivers.guest_files import files_of
from compute_drivers.redfish.host import RedfishHost, require_uuid
from compute_drivers.redfish.media import new_token
from compute_drivers.redfish.notes import MADE, Note
from compute_drivers.redfish.options import ALWAYS
from conductor.core.compute_driver import GuestSpec, Progress
from conductor.core.errors import BuildAborted, DriverError, NovellaError
from conductor.core.states import PowerState

if TYPE_CHECKING:
    from compute_drivers.redfish.figures import Figures

log = logging.getLogger(__name__)

ISO_MARK, ISO_MARK_AT = b"CD001", 0x8001
RUNNING, SHUTDOWN = int(PowerState.RUNNING), int(PowerState.SHUTDOWN)


class RedfishMaker(RedfishHost):
    """The claim comes first and goes last: whatever is killed in between, its machine is found again."""

    def spawn(self, guest: GuestSpec, progress: Progress) -> None:
        uuid = guest.instance_uuid
        require_uuid(uuid)
        held = self._notes.of(uuid)
        if held is not None and held[1].stage == MADE:
            self.power_on(guest)
            return
        self.destroy(uuid)  # one whose building was cut off
        _check(guest)
        with self._images.held(guest.image.image_id):
            try:
                name = self._claim(guest, progress)
                image = self._image(guest, progress)
                self._deploy(name, guest, image, progress)
                self._start(name)
            except BaseException:
                self._destroy_unfinished(uuid)
                raise

    def rebuild(self, guest: GuestSpec, progress: Progress, *, is_running: bool) -> None:
        """What cannot be had is refused while the guest is as it was; from there on it can only be done again."""
        name, _, bmc = self._made(guest.instance_uuid)
        _check(guest)
        with self._images.held(guest.image.image_id):
            image = self._image(guest, progress)
            progress("ending the guest", None)
            bmc.power_off(0.0)
            if self._options.erase == ALWAYS:
                progress("erasing the drives", None)
                bmc.erase()
            self._deploy(name, guest, image, progress)
        if is_running:
            self._start(name)

    def power_on(self, guest: GuestSpec) -> None:
        name, _, _ = self._made(guest.instance_uuid)
        self._start(name)

    # -- steps, each of which may be done again

    def _claim(self, guest: GuestSpec, progress: Progress) -> str:
        """The smallest free machine that is large enough and answers. Raises DriverError."""
        progress("choosing a machine", 0.0)
        taken, why = self._notes.all(), Counter[str]()
        for name, found in sorted(self._figures.items(), key=lambda entry: _size(entry[1])):
            lack = "taken" if name in taken else _lack(found, guest)
            if not lack and self._notes.claim(name, Note(guest.instance_uuid, new_token())):
                lack = self._unfit(name)
                if not lack:
                    return name
                self._notes.drop(name)
            why[lack or "taken"] += 1
        why["out of service"] += len(self._machines.keys() - self._figures.keys())
        counts = ", ".join(f"{count} {lack}" for lack, count in sorted(why.items()) if count)
        raise DriverError(f"No machine of this host can take the server: {counts}.")

    def _unfit(self, name: str) -> str:
        """Why a machine cannot be had now though nobody has it; empty for one that can."""
        try:
            if not self._bmcs[name].is_on():
                return ""
            log.warning("machine %s is on and has no guest; it is left alone", name)
        except DriverError as error:
            self._wrong[name] = error.message
            log.warning("machine %s is out of service: %s", name, error.message)
        return "out of service"

    def _image(self, guest: GuestSpec, progress: Progress) -> Path:
        progress("fetching the image", 0.0)
        image = self._images.fetch(guest.image, lambda share: progress("fetching the image", share))
        try:
            with image.open("rb") as file:
                file.seek(ISO_MARK_AT)
                mark = file.read(len(ISO_MARK))
        except OSError as error:
            raise DriverError(f"The image cannot be read on this host: {error.strerror}.") from error
        if mark != ISO_MARK:
            raise BuildAborted(f"Image {guest.image.image_id} is no disc that a machine could boot (ISO 9660).")
        return image

    def _deploy(self, name: str, guest: GuestSpec, image: Path, progress: Progress) -> None:
        """All that a machine that is off needs for its next start."""
        progress("inserting the media", None)
        bmc, held = self._bmcs[name], self._notes.all()[name]
        image_url = self._media.show_image(held.token, image)
        config_url = ""
        if self._options.config_drive:
            config_url = self._media.show_config(held.token, disc(self._files_of(name, guest)))
        self._notes.save(name, replace(held, is_armed=True, power_state=SHUTDOWN))
        bmc.insert(image_url, config_url)
        bmc.boot_from_disc(always=self._options.boot == ALWAYS)
        self._media.keep_only(held.token, {image_url, config_url})
        progress("starting the machine", None)

    def _start(self, name: str) -> None:
        """From the boot image where that is still to be done, else from its own disk."""
        bmc, note = self._bmcs[name], self._notes.all()[name]
        if not note.is_armed and self._options.boot != ALWAYS and not bmc.is_on():
            bmc.eject(only_disc=True)
        bmc.power_on()
        self._notes.save(name, replace(note, stage=MADE, is_armed=False, power_state=RUNNING))

    def _files_of(self, name: str, guest: GuestSpec) -> Mapping[str, bytes]:
        """Ports are on the machine's own cards, in their order: nothing gives a real card another MAC."""
        cards = self._figures[name].cards
        if cards:
            pairs = zip(guest.ports, cards, strict=False)
            guest = replace(guest, ports=tuple(replace(port, mac_address=mac) for port, mac in pairs))
        return files_of(guest, guest.admin_password)

    def _destroy_unfinished(self, instance_uuid: str) -> None:
        """A machine that cannot be cleaned now keeps its note: it is listed, and cleaned by whoever comes next."""
        try:
            self.destroy(instance_uuid)
        except NovellaError:
            log.exception("the machine of %s could not be cleaned after a failed build", instance_uuid)


def _check(guest: GuestSpec) -> None:
    """Raises DriverError for what other hosts may have."""
    flavor = guest.flavor
    wanted = (("volumes", guest.volumes), ("ephemeral disks", flavor.ephemeral_gb), ("swap", flavor.swap_mb))
    for what, is_wanted in wanted:
        if is_wanted:
            raise DriverError(f"Machines of this host have no {what}.")
    if not guest.image.image_id:
        raise DriverError("A machine is built from an image; there is none.")
    if guest.image.disk_format not in ("iso", ""):
        raise DriverError(f"Machines boot from discs (iso); image {guest.image.image_id} is {guest.image.disk_format}.")


def _size(found: Figures) -> tuple[int, int, int]:
    return found.memory_mb, found.vcpus, found.disk_gb


def _lack(found: Figures, guest: GuestSpec) -> str:
    flavor = guest.flavor
    is_small = found.vcpus < flavor.vcpus or found.memory_mb < flavor.memory_mb or found.disk_gb < flavor.root_gb
    if is_small:
        return "too small"
    return "with too few network cards" if found.cards and len(found.cards) < len(guest.ports) else ""
