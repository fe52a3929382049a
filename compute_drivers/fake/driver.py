"""A simulated hypervisor: guests are records in a file, hosts have any size, and failures can be injected."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any, ClassVar

from compute_drivers.fake.cold_migration import ColdMigration
from compute_drivers.fake.guest_actions import GuestActions
from compute_drivers.fake.live_migration import LiveMigration
from compute_drivers.fake.node import FakeNode
from compute_drivers.fake.options import FakeOptions
from compute_drivers.options import parse
from conductor.core.compute_driver import (
    CAPABILITIES,
    ComputeDriver,
    GuestInfo,
    GuestSpec,
    NetworkPort,
    NodeReport,
    OpenImage,
    Progress,
    StoreImage,
    VolumeConnection,
)
from conductor.core.consoles import ConsoleKind


class FakeDriver(ComputeDriver):
    """Simulated guests for trying out all driver features without virtualization.

    Each method delegates to the part that does the work. All parts share one `FakeNode`.
    """

    name: ClassVar[str] = "fake"
    is_simulated: ClassVar[bool] = True
    supports_console_log: ClassVar[bool] = True
    # Evacuation needs disks on shared storage, which simulated hosts do not have.
    capabilities: frozenset[str] = frozenset(CAPABILITIES) - {"evacuate", "guest_password"}

    def __init__(self, host: str, options: Mapping[str, Any], open_image: OpenImage) -> None:
        super().__init__(host, options, open_image)
        self.node = FakeNode(host, parse(FakeOptions, options, self.name))
        self.actions = GuestActions(self.node)
        self.cold_migration = ColdMigration(self.node)
        self.live_migration = LiveMigration(self.node)

    def start(self) -> None:
        self.node.start()

    # -- the host and its guests

    def report(self) -> NodeReport:
        return self.node.report()

    def guests(self) -> list[GuestInfo]:
        return self.node.list_guests()

    def kept_guests(self) -> list[str]:
        return self.cold_migration.list_retained()

    def console_log(self, instance_uuid: str, offset: int) -> bytes:
        return self.node.console_log(instance_uuid, offset)

    def open_console(self, instance_uuid: str, kind: ConsoleKind) -> socket.socket:
        return self.node.open_console(instance_uuid, kind)

    def diagnostics(self, instance_uuid: str) -> Mapping[str, Any]:
        return self.actions.diagnostics(instance_uuid)

    # -- spawn and power

    def check_build(self, guest: GuestSpec) -> None:
        self.node.faults.meet("check_build", guest.name)

    def spawn(self, guest: GuestSpec, progress: Progress) -> None:
        self.node.spawn(guest, progress)

    def destroy(self, instance_uuid: str) -> None:
        # An arrival is settled first: otherwise the source's file would count as the guest's place again.
        self.live_migration.settle(instance_uuid)
        self.node.destroy(instance_uuid)

    def power_on(self, guest: GuestSpec) -> None:
        self.actions.power_on(guest)

    def power_off(self, instance_uuid: str, timeout_seconds: float) -> None:
        self.actions.power_off(instance_uuid)

    def reboot(self, guest: GuestSpec, *, is_hard: bool, timeout_seconds: float) -> None:
        self.actions.reboot(guest, is_hard=is_hard)

    def pause(self, instance_uuid: str) -> None:
        self.actions.pause(instance_uuid)

    def unpause(self, instance_uuid: str) -> None:
        self.actions.unpause(instance_uuid)

    def suspend(self, instance_uuid: str) -> None:
        self.actions.suspend(instance_uuid)

    def resume(self, guest: GuestSpec) -> None:
        self.actions.resume(guest.instance_uuid)

    def set_admin_password(self, instance_uuid: str, password: str) -> None:
        self.actions.set_admin_password(instance_uuid)

    def trigger_crash_dump(self, instance_uuid: str) -> None:
        self.actions.trigger_crash_dump(instance_uuid)

    # -- the root disk

    def rescue(self, guest: GuestSpec, password: str, progress: Progress) -> None:
        self.actions.rescue(guest, progress)

    def unrescue(self, guest: GuestSpec, *, is_running: bool) -> None:
        self.actions.unrescue(guest.instance_uuid, is_running=is_running)

    def rebuild(self, guest: GuestSpec, progress: Progress, *, is_running: bool) -> None:
        self.actions.rebuild(guest, progress, is_running=is_running)

    def snapshot(self, instance_uuid: str, image_id: str, store: StoreImage, progress: Progress) -> None:
        self.actions.snapshot(instance_uuid, image_id, store, progress)

    # -- volumes and ports

    def attach_volume(self, instance_uuid: str, volume: VolumeConnection) -> None:
        self.actions.attach_volume(instance_uuid, volume)

    def detach_volume(self, instance_uuid: str, volume_uuid: str) -> None:
        self.actions.detach_volume(instance_uuid, volume_uuid)

    def swap_volume(self, instance_uuid: str, old_uuid: str, volume: VolumeConnection, progress: Progress) -> None:
        self.actions.swap_volume(instance_uuid, old_uuid, volume, progress)

    def attach_interface(self, instance_uuid: str, port: NetworkPort) -> None:
        self.actions.attach_interface(instance_uuid, port)

    def detach_interface(self, instance_uuid: str, port_uuid: str) -> None:
        self.actions.detach_interface(instance_uuid, port_uuid)

    # -- cold migration

    def migrate_out(self, guest: GuestSpec, destination: str, progress: Progress) -> Mapping[str, Any]:
        return self.cold_migration.migrate_out(guest, progress)

    def migrate_in(self, guest: GuestSpec, disks: Mapping[str, Any], progress: Progress, *, is_running: bool) -> None:
        self.cold_migration.migrate_in(guest, disks, progress, is_running=is_running)

    def confirm_migration(self, instance_uuid: str) -> None:
        self.cold_migration.confirm(instance_uuid)

    def revert_migration(self, guest: GuestSpec, *, is_running: bool) -> None:
        self.cold_migration.revert(guest, is_running=is_running)

    # -- live migration

    def prepare_live_migration(self, guest: GuestSpec, *, is_block_migration: bool | None) -> Mapping[str, Any]:
        return self.live_migration.prepare(guest, is_block_migration=is_block_migration)

    def live_migrate(
        self, guest: GuestSpec, target: Mapping[str, Any], progress: Progress, *, is_block_migration: bool | None
    ) -> None:
        self.live_migration.migrate(guest, target, progress)

    def finish_live_migration(self, guest: GuestSpec) -> None:
        self.live_migration.finish(guest)

    def cancel_live_migration(self, instance_uuid: str) -> None:
        self.live_migration.cancel(instance_uuid)

    def abort_live_migration(self, instance_uuid: str) -> None:
        self.live_migration.abort(instance_uuid)

    def force_live_migration(self, instance_uuid: str) -> None:
        self.live_migration.force(instance_uuid)

    def steer_live_migration(self, instance_uuid: str, kind: str, amount: int) -> None:
        self.live_migration.steer(instance_uuid, kind, amount)
