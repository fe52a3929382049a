"""What is done to real guests that stay where they are."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from compute_drivers.host_places import files
from compute_drivers.libvirt import config_drive, devices_xml, disks, user_network
from compute_drivers.libvirt.making import LibvirtMaker, image_ids
from conductor.core.compute_driver import GuestSpec, NetworkPort, Progress, StoreImage, VolumeConnection
from conductor.core.errors import DriverError
from conductor.core.states import PowerState

if TYPE_CHECKING:
    from compute_drivers.libvirt.guest import Guest

POLL_SECONDS = 0.1
# A guest that boots overhears the button.
PRESS_AGAIN_SECONDS = 10.0
# How long a guest may take to let go of a disk or a card.
UNPLUG_SECONDS = 20.0
ON = (PowerState.RUNNING, PowerState.PAUSED)
OFF = (PowerState.SHUTDOWN, PowerState.CRASHED)


class LibvirtActions(LibvirtMaker):
    """What a guest is, is said anew before each of its starts: ports and volumes are those that it has then."""

    # -- power

    def power_on(self, guest: GuestSpec) -> None:
        state = self._state(guest.instance_uuid)
        if state is PowerState.SUSPENDED:
            self.resume(guest)
        elif state not in ON:
            self._start_anew(guest)

    def power_off(self, instance_uuid: str, timeout_seconds: float) -> None:
        if self._state(instance_uuid) not in OFF and not self._shuts_down(instance_uuid, timeout_seconds):
            self._end(instance_uuid)

    def reboot(self, guest: GuestSpec, *, is_hard: bool, timeout_seconds: float) -> None:
        uuid = guest.instance_uuid
        is_running = self._state(uuid) is PowerState.RUNNING
        if is_hard or not is_running:
            self._end(uuid)
        if is_hard or not is_running or self._shuts_down(uuid, timeout_seconds):
            self._start_anew(guest)
            return
        with self._guest(uuid, "reset the guest") as found:
            found.reset()

    def pause(self, instance_uuid: str) -> None:
        with self._guest(instance_uuid, "pause the guest") as found:
            if _is_to_change(found, PowerState.RUNNING, PowerState.PAUSED):
                found.freeze()

    def unpause(self, instance_uuid: str) -> None:
        with self._guest(instance_uuid, "let the guest go on") as found:
            if _is_to_change(found, PowerState.PAUSED, PowerState.RUNNING):
                found.thaw()

    def suspend(self, instance_uuid: str) -> None:
        with self._guest(instance_uuid, "suspend the guest") as found:
            if _is_to_change(found, PowerState.RUNNING, PowerState.SUSPENDED):
                found.save_memory()

    def resume(self, guest: GuestSpec) -> None:
        with self._guest(guest.instance_uuid, "resume the guest") as found:
            if _is_to_change(found, PowerState.SUSPENDED, PowerState.RUNNING):
                found.launch()

    def trigger_crash_dump(self, instance_uuid: str) -> None:
        with self._guest(instance_uuid, "interrupt the guest") as found:
            _require_on(found)
            found.interrupt()

    def set_admin_password(self, instance_uuid: str, password: str) -> None:
        with self._guest(instance_uuid, "set the guest's password") as found:
            _require_on(found)
            found.set_password(password)

    # -- what is known of it

    def diagnostics(self, instance_uuid: str) -> Mapping[str, Any]:
        with self._guest(instance_uuid, "look at the guest") as found:
            _require_on(found)
            counted = {card["mac_address"].lower(): card for card in self._networks.counted(instance_uuid)}
            told = {mac: {"mac_address": mac, "addresses": has} for mac, has in found.addresses().items()}
            cards = [{**told.get(mac, {}), **counted.get(mac, {})} for mac in {**counted, **told}]
            return {**found.figures(), "nics": cards}

    def posted_password(self, instance_uuid: str) -> str:
        self._state(instance_uuid)
        return self._networks.password(instance_uuid)

    def forget_password(self, instance_uuid: str) -> None:
        self._networks.forget_password(instance_uuid)

    # -- other disks

    def rescue(self, guest: GuestSpec, password: str, progress: Progress) -> None:
        """The rescue system reads the password where it reads the rest: on its config drive."""
        uuid = guest.instance_uuid
        folder = self._places.folder_of(uuid)
        rescue_disk = folder / disks.RESCUE
        with self._guest(uuid, "look at the guest") as found:
            if found.uses(rescue_disk) and found.power_state() in ON:
                return
        self._check(guest)
        with self._images.held(*image_ids(guest)):
            boot, backing = self._boot_parts(guest, progress), self._backing(guest, progress)
            progress("starting the rescue system", None)
            self._end(uuid)
            if backing is not None:
                disks.create_overlay(rescue_disk, backing)
        self._write_drive(folder / config_drive.RESCUE_NAME, guest, password)
        self._launch(uuid, self._describe(guest, boot))

    def unrescue(self, guest: GuestSpec, *, is_running: bool) -> None:
        uuid = guest.instance_uuid
        folder = self._places.folder_of(uuid)
        rescue_disk = folder / disks.RESCUE
        # A disk of one of these names says that the guest is rescued: it goes when all is done.
        aside = rescue_disk.with_suffix(".old")
        self._state(uuid)
        if not rescue_disk.exists() and not aside.exists():
            return
        boot = self._boot_parts(guest, _quietly)
        self._end(uuid)
        if rescue_disk.exists():
            os.replace(rescue_disk, aside)
        (folder / config_drive.RESCUE_NAME).unlink(missing_ok=True)
        described = self._describe(guest, boot)
        self._launch(uuid, described) if is_running else self._connection.define(described)
        aside.unlink()

    def rebuild(self, guest: GuestSpec, progress: Progress, *, is_running: bool) -> None:
        uuid = guest.instance_uuid
        self._state(uuid)
        self._check(guest)
        folder, fresh = self._places.folder_of(uuid), self._places.folder_of(uuid) / "new"
        with self._images.held(*image_ids(guest)), files("The new disks could not be made"):
            boot, backing = self._boot_parts(guest, progress), self._backing(guest, progress)
            progress("making the disk", None)
            shutil.rmtree(fresh, ignore_errors=True)  # of a call that was cut off
            fresh.mkdir()
            made = disks.create_disks(fresh, guest.flavor, backing)
            self._write_drive(fresh / config_drive.NAME, guest, guest.admin_password)
            # From here on there is no way back to the old disks.
            self._end(uuid)
            for path in disks.own_disks(folder):
                path.unlink()
            for path in (*made, fresh / config_drive.NAME):
                os.replace(path, folder / path.name)
            fresh.rmdir()
            self._networks.forget_password(uuid)
        described = self._describe(guest, boot)
        self._launch(uuid, described) if is_running else self._connection.define(described)

    def snapshot(self, instance_uuid: str, image_id: str, store: StoreImage, progress: Progress) -> None:
        root = self._places.folder_of(instance_uuid) / disks.ROOT
        copy = root.with_name("snapshot.qcow2")
        is_on = self._state(instance_uuid) in ON
        if not root.exists():
            raise DriverError("The guest has no disk of its own: it boots from a kernel or a volume.")
        progress("copying the disk", 0.0)
        try:
            copy.unlink(missing_ok=True)
            if is_on:
                with self._guest(instance_uuid, "copy the guest's disk") as found:
                    found.copy_disk(root, copy, lambda share: progress("copying the disk", share))
            else:
                disks.copy_whole(root, copy, lambda: progress("copying the disk", None))
            progress("storing the image", None)
            with copy.open("rb") as data:
                store(image_id, "qcow2", data)
        finally:
            copy.unlink(missing_ok=True)

    # -- what hangs on it: a guest that is off gets it with its next start

    def attach_volume(self, instance_uuid: str, volume: VolumeConnection) -> None:
        with self._guest(instance_uuid, "attach the volume") as found:
            if found.power_state() in ON and found.volumes.alias(volume.volume_uuid):
                found.volumes.show_all(volume)
            elif found.power_state() in ON:
                (disk,) = devices_xml.arranged((), [volume], found.targets())
                disk = replace(disk, alias=found.volumes.free_alias(volume.volume_uuid))
                found.plug_disk(devices_xml.disk(disk))

    def detach_volume(self, instance_uuid: str, volume_uuid: str) -> None:
        with self._guest(instance_uuid, "detach the volume") as found:
            if found.power_state() in ON and found.volumes.alias(volume_uuid):
                found.unplug_volume(volume_uuid, UNPLUG_SECONDS)

    def swap_volume(self, instance_uuid: str, old_uuid: str, volume: VolumeConnection, progress: Progress) -> None:
        with self._guest(instance_uuid, "swap the volume") as found:
            _require_on(found)
            found.volumes.swap(old_uuid, volume, lambda share: progress("copying the volume", share))

    def attach_interface(self, instance_uuid: str, port: NetworkPort) -> None:
        with self._guest(instance_uuid, "attach the port") as found:
            if found.power_state() in ON and not found.has_card(user_network.card_id(port.port_uuid)):
                cable = partial(user_network.cable, port=port, hostname="", wires=self._wires_for(port, instance_uuid))
                found.plug_card(cable, partial(user_network.card, port=port))

    def detach_interface(self, instance_uuid: str, port_uuid: str) -> None:
        card, cable = user_network.card_id(port_uuid), user_network.cable_id(port_uuid)
        with self._guest(instance_uuid, "detach the port") as found:
            if found.power_state() in ON:
                found.unplug_card(card, cable, UNPLUG_SECONDS)
        self._networks.unplug(instance_uuid, port_uuid)

    # -- what they are made of

    def _wires_for(self, port: NetworkPort, instance_uuid: str) -> user_network.WiresOf | None:
        if not self._plays_networks or not port.ip_address:
            return None
        self._networks.plug(instance_uuid, port)
        return self._networks.played(instance_uuid)

    def _state(self, instance_uuid: str) -> PowerState:
        """Raises GuestMissing."""
        with self._guest(instance_uuid, "look at the guest") as found:
            return found.power_state()

    def _end(self, instance_uuid: str) -> None:
        with self._guest(instance_uuid, "end the guest") as found:
            found.end()

    def _shuts_down(self, instance_uuid: str, timeout_seconds: float) -> bool:
        """Press the power button, and see whether the guest goes off in time; only one that runs can."""
        deadline = time.monotonic() + timeout_seconds
        next_at = 0.0
        while self._state(instance_uuid) is PowerState.RUNNING and time.monotonic() < deadline:
            if time.monotonic() >= next_at:
                next_at = time.monotonic() + PRESS_AGAIN_SECONDS
                with self._guest(instance_uuid, "shut the guest down") as found:
                    found.press_power_button()
            time.sleep(POLL_SECONDS)
        return self._state(instance_uuid) in OFF

    def _start_anew(self, guest: GuestSpec) -> None:
        self._check(guest)
        with self._images.held(*image_ids(guest)):
            self._launch(guest.instance_uuid, self._describe(guest, self._boot_parts(guest, _quietly)))

    def _launch(self, instance_uuid: str, described: str) -> None:
        self._connection.define(described)
        with self._guest(instance_uuid, "start the guest") as found:
            found.launch()

    @contextmanager
    def _guest(self, instance_uuid: str, doing: str) -> Iterator[Guest]:
        with self._connection.guest(instance_uuid, doing) as found:
            yield found


def _is_to_change(guest: Guest, origin: PowerState, to: PowerState) -> bool:
    """False when it is as wanted already. Raises DriverError when it is neither."""
    state = guest.power_state()
    if state not in (origin, to):
        raise _wrong_state(state)
    return state is origin


def _require_on(guest: Guest) -> None:
    state = guest.power_state()
    if state not in ON:
        raise _wrong_state(state)


def _wrong_state(state: PowerState) -> DriverError:
    return DriverError(f"The guest cannot do that while it is {state.name.lower()}.")


def _quietly(message: str, share: float | None = None, figures: object = None, /) -> None:
    """Progress of what is short: what a start needs was fetched before."""
