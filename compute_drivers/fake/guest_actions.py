"""Actions on simulated guests that stay on their host. Each is one change of the guest's record."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import asdict, replace
from math import cos, sin
from pathlib import Path
from time import time
from typing import Any
from uuid import uuid4

from compute_drivers.fake.node import FakeNode, RecordChange, find_guest, interruptible_sleep, sleep_in_ticks
from compute_drivers.fake.state import GuestRecord
from conductor.core.compute_driver import GuestSpec, NetworkPort, Progress, StoreImage, VolumeConnection
from conductor.core.disk_images import copy_over
from conductor.core.errors import DriverError
from conductor.core.states import PowerState

OFF = (PowerState.SHUTDOWN, PowerState.CRASHED)
NANOSECONDS = 1_000_000_000
WAVE_SECONDS = 20.0


class GuestActions:
    """Power, rescue, rebuild, snapshot, volumes, ports and diagnostics."""

    def __init__(self, node: FakeNode) -> None:
        self._node = node

    # -- power

    def power_on(self, guest: GuestSpec) -> None:
        def change(record: GuestRecord) -> GuestRecord:
            if record.power_state == PowerState.SUSPENDED:
                return record.in_state(PowerState.RUNNING)
            return record if record.is_on else record.defined_by(guest).started()

        self._node.change("power_on", guest.instance_uuid, change)

    def power_off(self, instance_uuid: str) -> None:
        self._node.change(
            "power_off",
            instance_uuid,
            lambda record: record if record.power_state in OFF else record.in_state(PowerState.SHUTDOWN),
        )

    def reboot(self, guest: GuestSpec, *, is_hard: bool) -> None:
        def change(record: GuestRecord) -> GuestRecord:
            if is_hard or not record.is_on:
                return record.defined_by(guest).started()
            return replace(record.in_state(PowerState.RUNNING), boots=record.boots + 1)

        self._node.change("reboot", guest.instance_uuid, change)

    def pause(self, instance_uuid: str) -> None:
        self._node.change("pause", instance_uuid, _transition(PowerState.RUNNING, PowerState.PAUSED))

    def unpause(self, instance_uuid: str) -> None:
        self._node.change("unpause", instance_uuid, _transition(PowerState.PAUSED, PowerState.RUNNING))

    def suspend(self, instance_uuid: str) -> None:
        self._node.change("suspend", instance_uuid, _transition(PowerState.RUNNING, PowerState.SUSPENDED))

    def resume(self, instance_uuid: str) -> None:
        self._node.change("resume", instance_uuid, _transition(PowerState.SUSPENDED, PowerState.RUNNING))

    def set_admin_password(self, instance_uuid: str) -> None:
        self._node.change(
            "set_admin_password",
            instance_uuid,
            lambda record: replace(_require_on(record), has_admin_password=True),
        )

    def trigger_crash_dump(self, instance_uuid: str) -> None:
        self._node.change(
            "trigger_crash_dump", instance_uuid, lambda record: replace(_require_on(record), dumps=record.dumps + 1)
        )

    def diagnostics(self, instance_uuid: str) -> Mapping[str, Any]:
        return simulated_diagnostics(_require_on(find_guest(self._node.read_state(), instance_uuid)), time())

    # -- the root disk

    def rescue(self, guest: GuestSpec, progress: Progress) -> None:
        def change(record: GuestRecord) -> GuestRecord:
            if record.rescued_from is not None:
                return record if record.is_on else record.started()
            return replace(record.started(), rescued_from=record.image, image=guest.image.name)

        progress("starting the rescue system", None)
        self._node.change("rescue", guest.instance_uuid, change, progress)

    def unrescue(self, instance_uuid: str, *, is_running: bool) -> None:
        def change(record: GuestRecord) -> GuestRecord:
            if record.rescued_from is None:
                return record
            own = replace(record, image=record.rescued_from, rescued_from=None)
            return own.started() if is_running else own.in_state(PowerState.SHUTDOWN)

        self._node.change("unrescue", instance_uuid, change)

    def rebuild(self, guest: GuestSpec, progress: Progress, *, is_running: bool) -> None:
        def change(record: GuestRecord) -> GuestRecord:
            rebuilt = replace(
                record.defined_by(guest).started(),
                image=guest.image.name,
                image_id=guest.image.image_id,
                disk=str(uuid4()),
                rescued_from=None,
                has_admin_password=bool(guest.admin_password),
            )
            return rebuilt if is_running else rebuilt.in_state(PowerState.SHUTDOWN)

        progress("simulating a new disk", 0.0)
        self._node.change("rebuild", guest.instance_uuid, change, progress)

    def snapshot(self, instance_uuid: str, image_id: str, store: StoreImage, progress: Progress) -> None:
        record = find_guest(self._node.read_state(), instance_uuid)
        progress("copying the disk", 0.0)
        with self._node.call("snapshot", record.name, interruptible_sleep(progress)):
            latency = self._node.options.latency_seconds
            sleep_in_ticks(latency, lambda share: progress("copying the disk", share))
            store(image_id, "raw", io.BytesIO(record.disk_data()))

    # -- volumes and ports

    def attach_volume(self, instance_uuid: str, volume: VolumeConnection) -> None:
        self._node.change("attach_volume", instance_uuid, _add("volumes", volume.volume_uuid, asdict(volume)))

    def detach_volume(self, instance_uuid: str, volume_uuid: str) -> None:
        self._node.change("detach_volume", instance_uuid, _remove("volumes", volume_uuid))

    def swap_volume(self, instance_uuid: str, old_uuid: str, volume: VolumeConnection, progress: Progress) -> None:
        def change(record: GuestRecord) -> GuestRecord:
            if old_uuid not in record.volumes:
                if volume.volume_uuid in record.volumes:
                    return record  # already swapped
                raise DriverError("The guest does not have the volume that is to be swapped.")
            _copy_data(Path(record.volumes[old_uuid]["path"]), Path(volume.path))
            others = {uuid: other for uuid, other in record.volumes.items() if uuid != old_uuid}
            return replace(record, volumes={**others, volume.volume_uuid: asdict(volume)})

        progress("copying the volume", 0.0)
        self._node.change("swap_volume", instance_uuid, change, progress)

    def attach_interface(self, instance_uuid: str, port: NetworkPort) -> None:
        self._node.change("attach_interface", instance_uuid, _add("ports", port.port_uuid, asdict(port)))

    def detach_interface(self, instance_uuid: str, port_uuid: str) -> None:
        self._node.change("detach_interface", instance_uuid, _remove("ports", port_uuid))


def simulated_diagnostics(record: GuestRecord, now: float) -> Mapping[str, Any]:
    """Return plausible statistics since the guest's start. Rates vary in waves; sums never decrease."""
    age = max(0.0, now - record.started_at)
    activity = age + (1 - cos(age / WAVE_SECONDS)) * WAVE_SECONDS / 2  # grows at 0.5 to 1.5 times real time
    disk = {"read_bytes": int(activity * 40_000), "write_bytes": int(activity * 90_000)}
    nic = {"rx_octets": int(activity * 25_000), "tx_octets": int(activity * 11_000)}
    memory_share = 0.4 + 0.1 * sin(age / WAVE_SECONDS)
    return {
        "cpus": [{"id": number, "time": int(activity * 0.3 * NANOSECONDS)} for number in range(record.vcpus)],
        "memory": {"maximum": record.memory_mb, "used": max(1, int(record.memory_mb * memory_share))},
        "disks": [disk] * (1 + len(record.volumes)),
        "nics": [{"mac_address": port["mac_address"], **nic} for port in record.ports.values()],
    }


def _transition(source: PowerState, target: PowerState) -> RecordChange:
    def change(record: GuestRecord) -> GuestRecord:
        if record.power_state == target:
            return record
        if record.power_state != source:
            raise _wrong_power_state(record)
        return record.in_state(target)

    return change


def _require_on(record: GuestRecord) -> GuestRecord:
    if not record.is_on:
        raise _wrong_power_state(record)
    return record


def _add(name: str, key: str, value: Mapping[str, Any]) -> RecordChange:
    return lambda record: _replace_mapping(record, name, {**getattr(record, name), key: value})


def _remove(name: str, key: str) -> RecordChange:
    def change(record: GuestRecord) -> GuestRecord:
        entries = getattr(record, name)
        return _replace_mapping(record, name, {other: entries[other] for other in entries if other != key})

    return change


def _replace_mapping(record: GuestRecord, name: str, entries: Mapping[str, Any]) -> GuestRecord:
    changes: dict[str, Any] = {name: entries}
    return replace(record, **changes)


def _copy_data(source: Path, target: Path) -> None:
    """Copy the volume's data where this machine has them; a host that is simulated elsewhere has none."""
    if source.is_file() and target.is_file():
        copy_over(source, target)


def _wrong_power_state(record: GuestRecord) -> DriverError:
    return DriverError(f"The guest cannot do that while it is {PowerState(record.power_state).name.lower()}.")
