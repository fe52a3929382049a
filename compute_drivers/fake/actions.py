"""What is done to simulated guests that stay where they are."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from time import time
from typing import Any
from uuid import uuid4

from compute_drivers.fake.figures import figures
from compute_drivers.fake.host import Change, FakeHost, late, present, wait
from compute_drivers.fake.notes import Note
from conductor.core.compute_driver import GuestSpec, NetworkPort, Progress, StoreImage, VolumeConnection
from conductor.core.disk_images import copy_over
from conductor.core.errors import DriverError
from conductor.core.states import PowerState

OFF = (PowerState.SHUTDOWN, PowerState.CRASHED)


class FakeActions(FakeHost):
    """Every verb is one change of a note."""

    # -- power

    def power_on(self, guest: GuestSpec) -> None:
        def change(note: Note) -> Note:
            if note.power_state == PowerState.SUSPENDED:
                return note.in_state(PowerState.RUNNING)
            return note if note.is_on else note.defined_by(guest).started()

        self._change("power_on", guest.instance_uuid, change)

    def power_off(self, instance_uuid: str, timeout_seconds: float) -> None:
        self._change(
            "power_off",
            instance_uuid,
            lambda note: note if note.power_state in OFF else note.in_state(PowerState.SHUTDOWN),
        )

    def reboot(self, guest: GuestSpec, *, is_hard: bool, timeout_seconds: float) -> None:
        def change(note: Note) -> Note:
            if is_hard or not note.is_on:
                return note.defined_by(guest).started()
            return replace(note.in_state(PowerState.RUNNING), boots=note.boots + 1)

        self._change("reboot", guest.instance_uuid, change)

    def pause(self, instance_uuid: str) -> None:
        self._change("pause", instance_uuid, _switch(PowerState.RUNNING, PowerState.PAUSED))

    def unpause(self, instance_uuid: str) -> None:
        self._change("unpause", instance_uuid, _switch(PowerState.PAUSED, PowerState.RUNNING))

    def suspend(self, instance_uuid: str) -> None:
        self._change("suspend", instance_uuid, _switch(PowerState.RUNNING, PowerState.SUSPENDED))

    def resume(self, guest: GuestSpec) -> None:
        self._change("resume", guest.instance_uuid, _switch(PowerState.SUSPENDED, PowerState.RUNNING))

    # -- from another disk, or a new one

    def rescue(self, guest: GuestSpec, password: str, progress: Progress) -> None:
        def change(note: Note) -> Note:
            if note.rescued_from is not None:
                return note if note.is_on else note.started()
            return replace(note.started(), rescued_from=note.image, image=guest.image.name)

        progress("starting the rescue system", None)
        self._change("rescue", guest.instance_uuid, change, progress)

    def unrescue(self, guest: GuestSpec, *, is_running: bool) -> None:
        def change(note: Note) -> Note:
            if note.rescued_from is None:
                return note
            own = replace(note, image=note.rescued_from, rescued_from=None)
            return own.started() if is_running else own.in_state(PowerState.SHUTDOWN)

        self._change("unrescue", guest.instance_uuid, change)

    def rebuild(self, guest: GuestSpec, progress: Progress, *, is_running: bool) -> None:
        def change(note: Note) -> Note:
            fresh = replace(
                note.defined_by(guest).started(),
                image=guest.image.name,
                image_id=guest.image.image_id,
                disk=str(uuid4()),
                rescued_from=None,
                has_admin_password=bool(guest.admin_password),
            )
            return fresh if is_running else fresh.in_state(PowerState.SHUTDOWN)

        progress("simulating a new disk", 0.0)
        self._change("rebuild", guest.instance_uuid, change, progress)

    # -- inside of it

    def diagnostics(self, instance_uuid: str) -> Mapping[str, Any]:
        return figures(_on(present(self._look(), instance_uuid)), time())

    def set_admin_password(self, instance_uuid: str, password: str) -> None:
        self._change("set_admin_password", instance_uuid, lambda note: replace(_on(note), has_admin_password=True))

    def trigger_crash_dump(self, instance_uuid: str) -> None:
        self._change("trigger_crash_dump", instance_uuid, lambda note: replace(_on(note), dumps=note.dumps + 1))

    def snapshot(self, instance_uuid: str, image_id: str, store: StoreImage, progress: Progress) -> None:
        note = present(self._look(), instance_uuid)
        progress("copying the disk", 0.0)
        with self._call("snapshot", note.name, late(progress)):
            wait(self._options.latency_seconds, lambda share: progress("copying the disk", share))
            store(image_id, "raw", io.BytesIO(note.disk_data()))

    # -- what hangs on it

    def attach_volume(self, instance_uuid: str, volume: VolumeConnection) -> None:
        self._change("attach_volume", instance_uuid, _put("volumes", volume.volume_uuid, asdict(volume)))

    def detach_volume(self, instance_uuid: str, volume_uuid: str) -> None:
        self._change("detach_volume", instance_uuid, _take("volumes", volume_uuid))

    def swap_volume(self, instance_uuid: str, old_uuid: str, volume: VolumeConnection, progress: Progress) -> None:
        def change(note: Note) -> Note:
            if old_uuid not in note.volumes:
                if volume.volume_uuid in note.volumes:
                    return note  # it was swapped before
                raise DriverError("The guest does not have the volume that is to be swapped.")
            _copy(Path(note.volumes[old_uuid]["path"]), Path(volume.path))
            kept = {name: it for name, it in note.volumes.items() if name != old_uuid}
            return replace(note, volumes={**kept, volume.volume_uuid: asdict(volume)})

        progress("copying the volume", 0.0)
        self._change("swap_volume", instance_uuid, change, progress)

    def attach_interface(self, instance_uuid: str, port: NetworkPort) -> None:
        self._change("attach_interface", instance_uuid, _put("ports", port.port_uuid, asdict(port)))

    def detach_interface(self, instance_uuid: str, port_uuid: str) -> None:
        self._change("detach_interface", instance_uuid, _take("ports", port_uuid))


def _switch(origin: PowerState, to: PowerState) -> Change:
    def change(note: Note) -> Note:
        if note.power_state == to:
            return note
        if note.power_state != origin:
            raise _wrong_state(note)
        return note.in_state(to)

    return change


def _on(note: Note) -> Note:
    if not note.is_on:
        raise _wrong_state(note)
    return note


def _put(what: str, key: str, value: Mapping[str, Any]) -> Change:
    return lambda note: _having(note, what, {**getattr(note, what), key: value})


def _take(what: str, key: str) -> Change:
    return lambda note: _having(note, what, {name: it for name, it in getattr(note, what).items() if name != key})


def _copy(source: Path, target: Path) -> None:
    """The data are real where this machine has the storage; a host that is simulated elsewhere has none to copy."""
    if source.is_file() and target.is_file():
        copy_over(source, target)


def _having(note: Note, what: str, things: Mapping[str, Any]) -> Note:
    changes: dict[str, Any] = {what: things}
    return replace(note, **changes)


def _wrong_state(note: Note) -> DriverError:
    return DriverError(f"The guest cannot do that while it is {PowerState(note.power_state).name.lower()}.")
