"""Cold migration and resize of simulated guests, by the state files of both hosts, which are on one machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from compute_drivers.fake.node import FakeNode, find_guest, interruptible_sleep, sleep_in_ticks
from compute_drivers.fake.state import GuestRecord, locked, state_file_at
from conductor.core.compute_driver import GuestSpec, Progress
from conductor.core.errors import DriverError
from conductor.core.states import PowerState


class ColdMigration:
    """Retains the record of a guest at the source until its migration is confirmed or reverted."""

    def __init__(self, node: FakeNode) -> None:
        self._node = node

    def list_retained(self) -> list[str]:
        return sorted(self._node.glance().kept)

    def migrate_out(self, guest: GuestSpec, progress: Progress) -> Mapping[str, Any]:
        """Power the guest off and retain it; return where the destination finds it."""
        node, uuid = self._node, guest.instance_uuid
        progress("powering the guest off", None)
        with node.call("migrate_out", guest.name, interruptible_sleep(progress)), locked(node.state_file):
            state = node.state_file.load()
            if uuid not in state.guests and uuid in state.kept:
                return self._handle_of(state.kept[uuid])
            record = find_guest(state, uuid).in_state(PowerState.SHUTDOWN)
            node.state_file.save(replace(state.without(uuid, "guests"), kept={**state.kept, uuid: record}))
        return self._handle_of(record)

    def migrate_in(self, guest: GuestSpec, handle: Mapping[str, Any], progress: Progress, *, is_running: bool) -> None:
        """Copy the retained guest at the size of its flavor."""
        node, uuid = self._node, guest.instance_uuid
        source = state_file_at(handle)
        progress("copying the disk", 0.0)
        with node.call("migrate_in", guest.name, interruptible_sleep(progress)):
            sleep_in_ticks(node.options.latency_seconds, lambda share: progress("copying the disk", share))
            with locked(node.state_file, source):
                state = node.state_file.load()
                if uuid in state.guests:
                    return
                kept = source.load().kept.get(uuid)
                if kept is None or kept.disk != handle.get("disk"):
                    raise DriverError("The disks of the guest are not at its source any more.")
                node.state_file.save(state.with_guest(uuid, _powered(kept.defined_by(guest), is_running)))

    def confirm(self, instance_uuid: str) -> None:
        """Drop the retained guest."""
        node = self._node
        name = node.read_state().name_of(instance_uuid)
        with node.call("confirm_migration", name), locked(node.state_file):
            state = node.state_file.load()
            if instance_uuid in state.kept:
                node.state_file.save(state.without(instance_uuid, "kept"))

    def revert(self, guest: GuestSpec, *, is_running: bool) -> None:
        """Restore the retained guest. One that was never migrated out is left as it is."""
        node, uuid = self._node, guest.instance_uuid
        with node.call("revert_migration", guest.name), locked(node.state_file):
            state = node.state_file.load()
            if uuid not in state.kept:
                find_guest(state, uuid)
                return
            restored = _powered(state.kept[uuid], is_running)
            node.state_file.save(state.without(uuid, "kept").with_guest(uuid, restored))

    def _handle_of(self, record: GuestRecord) -> dict[str, Any]:
        return {**self._node.address, "disk": record.disk}


def _powered(record: GuestRecord, is_running: bool) -> GuestRecord:
    return record.started() if is_running else record.in_state(PowerState.SHUTDOWN)
