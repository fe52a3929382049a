"""What is done to containers that stay where they are."""

from __future__ import annotations

import os
import shutil
import time

from compute_drivers.container import disks, root_archives, seed
from compute_drivers.container.making import ContainerMaker
from compute_drivers.container.places import DISK, RESCUE_DISK, RESCUE_SEED, SEED, SNAPSHOT
from compute_drivers.host_places import files
from conductor.core.compute_driver import GuestSpec, NetworkPort, Progress, StoreImage
from conductor.core.errors import DriverError
from conductor.core.states import PowerState

POLL_SECONDS = 0.05
ON = (PowerState.RUNNING, PowerState.PAUSED)
# How inits are asked to power off: systemd has a signal of its own (SIGRTMIN+3).
TERMINATE, SYSTEMD_POWER_OFF = "TERM", "37"


class ContainerActions(ContainerMaker):
    """What a container is, is described anew before each of its starts."""

    # -- power

    def power_on(self, guest: GuestSpec) -> None:
        if self._state(guest.instance_uuid) not in ON:
            self._check(guest)
            self._launch(guest)

    def power_off(self, instance_uuid: str, timeout_seconds: float) -> None:
        self._state(instance_uuid)
        self._shut_down(instance_uuid, timeout_seconds)
        self._end(instance_uuid)

    def reboot(self, guest: GuestSpec, *, is_hard: bool, timeout_seconds: float) -> None:
        uuid = guest.instance_uuid
        self._state(uuid)
        self._check(guest)
        if not is_hard:
            self._shut_down(uuid, timeout_seconds)
        self._end(uuid)
        self._launch(guest)

    def pause(self, instance_uuid: str) -> None:
        if self._is_to_change(instance_uuid, PowerState.RUNNING, PowerState.PAUSED):
            self._runtime.pause(instance_uuid)

    def unpause(self, instance_uuid: str) -> None:
        if self._is_to_change(instance_uuid, PowerState.PAUSED, PowerState.RUNNING):
            self._runtime.resume(instance_uuid)

    # -- other disks

    def rescue(self, guest: GuestSpec, password: str, progress: Progress) -> None:
        """The rescue system finds the guest's own files in /mnt, and the password where it reads the rest."""
        uuid, folder = guest.instance_uuid, self._places.folder_of(guest.instance_uuid)
        if self._state(uuid) in ON and (folder / RESCUE_DISK).exists():
            return
        self._check(guest)
        with self._new_disk(guest, progress) as disk, files("The rescue system could not be started"):
            progress("starting the rescue system", None)
            self._end(uuid)
            seed.write(folder / RESCUE_SEED, guest, self._options.first_id, password)
            os.replace(disk, folder / RESCUE_DISK)
            self._launch(guest)

    def unrescue(self, guest: GuestSpec, *, is_running: bool) -> None:
        uuid, folder = guest.instance_uuid, self._places.folder_of(guest.instance_uuid)
        # A disk of one of these names says that the guest is rescued: it goes when all is done.
        rescue_disk, aside = folder / RESCUE_DISK, folder / "rescue.old"
        self._state(uuid)
        if not rescue_disk.exists() and not aside.exists():
            return
        self._end(uuid)
        with files("The guest could not be brought back from its rescue"):
            if rescue_disk.exists():
                os.replace(rescue_disk, aside)
            if (folder / RESCUE_SEED).exists():
                shutil.rmtree(folder / RESCUE_SEED)
            if is_running:
                self._launch(guest)
            aside.unlink()

    def rebuild(self, guest: GuestSpec, progress: Progress, *, is_running: bool) -> None:
        uuid, folder = guest.instance_uuid, self._places.folder_of(guest.instance_uuid)
        self._state(uuid)
        self._check(guest)
        with self._new_disk(guest, progress) as disk, files("The guest could not be rebuilt"):
            self._end(uuid)
            # From here on there is no way back to the old disk.
            (folder / RESCUE_DISK).unlink(missing_ok=True)
            seed.write(folder / SEED, guest, self._options.first_id, guest.admin_password)
            os.replace(disk, folder / DISK)
            if is_running:
                self._launch(guest)

    def snapshot(self, instance_uuid: str, image_id: str, store: StoreImage, progress: Progress) -> None:
        self._state(instance_uuid)
        folder = self._places.folder_of(instance_uuid)
        disk, copy = folder / DISK, folder / SNAPSHOT
        place = self._places.mount_of(disk)
        was_mounted = disks.is_mounted(place)
        progress("copying the disk", None)
        try:
            with files("The disk could not be copied"):
                copy.unlink(missing_ok=True)
            disks.mount(disk, place)
            root_archives.pack(place, copy, self._options.first_id, lambda: progress("copying the disk", None))
            progress("storing the image", None)
            with copy.open("rb") as data:
                store(image_id, "raw", data)
        finally:
            copy.unlink(missing_ok=True)
            if not was_mounted:
                disks.unmount(place)

    # -- inside of it

    def set_admin_password(self, instance_uuid: str, password: str) -> None:
        self._require_running(instance_uuid)
        if not password.isprintable():
            raise DriverError("adminPass: containers take passwords of one line, without control characters.")
        done = self._runtime.run_inside(instance_uuid, "chpasswd", given=f"root:{password}\n".encode())
        if done.returncode:  # what it said may hold the password
            raise DriverError("The guest did not take the password: it has no program chpasswd, or one that failed.")

    # -- what hangs on it: a guest that is off gets it with its next start

    def attach_interface(self, instance_uuid: str, port: NetworkPort) -> None:
        if self._state(instance_uuid) in ON:
            self._cards.plug(instance_uuid, self._runtime.pid(instance_uuid), [port])

    def detach_interface(self, instance_uuid: str, port_uuid: str) -> None:
        if self._state(instance_uuid) in ON:
            self._cards.unplug(instance_uuid, port_uuid)

    # -- what they are made of

    def _shut_down(self, instance_uuid: str, timeout_seconds: float) -> None:
        """Ask its init, and wait; only one that runs can be asked."""
        deadline = time.monotonic() + timeout_seconds
        if timeout_seconds > 0 and self._runtime.state(instance_uuid) is PowerState.RUNNING:
            self._runtime.signal(instance_uuid, self._farewell(instance_uuid))
        while time.monotonic() < deadline and self._runtime.state(instance_uuid) is PowerState.RUNNING:
            time.sleep(POLL_SECONDS)

    def _farewell(self, instance_uuid: str) -> str:
        """By where /sbin/init points to in the container."""
        root = self._places.mount_of(self._places.folder_of(instance_uuid) / DISK)
        try:
            return SYSTEMD_POWER_OFF if os.readlink(root / "sbin" / "init").endswith("systemd") else TERMINATE
        except OSError:
            return TERMINATE

    def _is_to_change(self, instance_uuid: str, origin: PowerState, to: PowerState) -> bool:
        """False when it is as wanted already. Raises DriverError when it is neither."""
        state = self._state(instance_uuid)
        if state not in (origin, to):
            raise DriverError(f"The guest is {state.name.lower()}, not {origin.name.lower()}.")
        return state is origin

    def _require_running(self, instance_uuid: str) -> None:
        if self._state(instance_uuid) is not PowerState.RUNNING:
            raise DriverError("The guest does not run.")
