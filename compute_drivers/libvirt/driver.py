"""Virtual machines on this machine: QEMU through libvirt, with disks, consoles and networks of their own."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from compute_drivers.libvirt import build_checks
from compute_drivers.libvirt.attachments import Attachments
from compute_drivers.libvirt.capability import can_save_memory
from compute_drivers.libvirt.cold_migration import ColdMigration
from compute_drivers.libvirt.evacuation import Evacuation
from compute_drivers.libvirt.live_migration import LiveMigration
from compute_drivers.libvirt.node import LibvirtNode
from compute_drivers.libvirt.options import OVN, LibvirtOptions
from compute_drivers.libvirt.power import Power
from compute_drivers.libvirt.root_disk import RootDisk
from compute_drivers.libvirt.spawn import GuestBuilder
from compute_drivers.options import parse
from conductor.core.compute_driver import (
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

LIVE_MIGRATION = frozenset({"live_migrate", "live_downtime", "live_throttle", "live_post_copy"})


class LibvirtDriver(ComputeDriver):
    """Virtual machines on QEMU and KVM through libvirt, with disks, consoles and networks.

    Each method delegates to the part that does the work. All parts share one `LibvirtNode`.
    """

    name: ClassVar[str] = "libvirt"
    supports_console_log: ClassVar[bool] = True
    capabilities: frozenset[str] = LIVE_MIGRATION | {
        "pause",
        "suspend",
        "rescue",
        "rebuild",
        "snapshot",
        "set_password",
        "crash_dump",
        "attach_volume",
        "swap_volume",
        "attach_interface",
        "diagnostics",
        "guest_password",
        "vnc_console",
        "serial_console",
        "migrate",
        "evacuate",
    }

    def __init__(self, host: str, options: Mapping[str, Any], open_image: OpenImage) -> None:
        super().__init__(host, options, open_image)
        self.node = LibvirtNode(host, parse(LibvirtOptions, options, self.name), open_image)
        self.builder = GuestBuilder(self.node)
        self.power = Power(self.node, self.builder)
        self.root_disk = RootDisk(self.node, self.builder)
        self.attachments = Attachments(self.node)
        self.cold_migration = ColdMigration(self.node, self.builder, self.power)
        self.live_migration = LiveMigration(self.node, self.builder)
        self.evacuation = Evacuation(self.node, self.builder)

    def start(self) -> None:
        self.node.start()
        self.live_migration.clean_up_departed()
        self.capabilities -= self._missing_capabilities()

    def _missing_capabilities(self) -> set[str]:
        """Return the capabilities that this machine or its options rule out."""
        options = self.node.options
        missing: set[str] = set()
        if not can_save_memory():
            missing |= {"suspend"}
        if not options.migration_uri:
            missing |= LIVE_MIGRATION
        # QEMU accepts throttling and post-copy only for a migration that started with them enabled.
        if not options.migration_throttles:
            missing |= {"live_throttle"}
        if not options.may_post_copy:
            missing |= {"live_post_copy"}
        if options.guest_network != OVN:
            missing |= {"guest_password"}
        if not options.shared_dir:
            missing |= {"evacuate"}
        return missing

    def stop(self) -> None:
        self.node.stop()

    def watch(self, changed: Callable[[], None]) -> None:
        self.node.connection.watch(changed)

    # -- the host and its guests

    def report(self) -> NodeReport:
        return self.node.report()

    def guests(self) -> list[GuestInfo]:
        return self.live_migration.list_guests()

    def kept_guests(self) -> list[str]:
        return self.cold_migration.store.list_retained()

    def console_log(self, instance_uuid: str, offset: int) -> bytes:
        return self.node.console_log(instance_uuid, offset)

    def open_console(self, instance_uuid: str, kind: ConsoleKind) -> socket.socket:
        return self.node.open_console(instance_uuid, kind)

    def diagnostics(self, instance_uuid: str) -> Mapping[str, Any]:
        return self.node.diagnostics(instance_uuid)

    def posted_password(self, instance_uuid: str) -> str:
        self.node.power_state(instance_uuid)
        return self.node.networks.posted_password(instance_uuid)

    def forget_password(self, instance_uuid: str) -> None:
        self.node.networks.forget_password(instance_uuid)

    # -- spawn and power

    def check_build(self, guest: GuestSpec) -> None:
        self.builder.check(guest)
        self.node.connection.require_unused(guest.instance_uuid)
        build_checks.require(guest, self.node.paths.images_dir)

    def spawn(self, guest: GuestSpec, progress: Progress) -> None:
        self.builder.spawn(guest, progress)

    def destroy(self, instance_uuid: str) -> None:
        self.node.destroy(instance_uuid)

    def power_on(self, guest: GuestSpec) -> None:
        self.power.power_on(guest)

    def power_off(self, instance_uuid: str, timeout_seconds: float) -> None:
        self.power.power_off(instance_uuid, timeout_seconds)

    def reboot(self, guest: GuestSpec, *, is_hard: bool, timeout_seconds: float) -> None:
        self.power.reboot(guest, is_hard=is_hard, timeout_seconds=timeout_seconds)

    def pause(self, instance_uuid: str) -> None:
        self.power.pause(instance_uuid)

    def unpause(self, instance_uuid: str) -> None:
        self.power.unpause(instance_uuid)

    def suspend(self, instance_uuid: str) -> None:
        self.power.suspend(instance_uuid)

    def resume(self, guest: GuestSpec) -> None:
        self.power.resume(guest.instance_uuid)

    def trigger_crash_dump(self, instance_uuid: str) -> None:
        self.power.trigger_crash_dump(instance_uuid)

    def set_admin_password(self, instance_uuid: str, password: str) -> None:
        with self.node.running_guest(instance_uuid, "set the guest's password") as domain:
            domain.set_password(password)

    # -- the root disk

    def rescue(self, guest: GuestSpec, password: str, progress: Progress) -> None:
        self.root_disk.rescue(guest, password, progress)

    def unrescue(self, guest: GuestSpec, *, is_running: bool) -> None:
        self.root_disk.unrescue(guest, is_running=is_running)

    def rebuild(self, guest: GuestSpec, progress: Progress, *, is_running: bool) -> None:
        self.root_disk.rebuild(guest, progress, is_running=is_running)

    def snapshot(self, instance_uuid: str, image_id: str, store: StoreImage, progress: Progress) -> None:
        self.root_disk.snapshot(instance_uuid, image_id, store, progress)

    # -- volumes and ports

    def attach_volume(self, instance_uuid: str, volume: VolumeConnection) -> None:
        self.attachments.attach_volume(instance_uuid, volume)

    def detach_volume(self, instance_uuid: str, volume_uuid: str) -> None:
        self.attachments.detach_volume(instance_uuid, volume_uuid)

    def swap_volume(self, instance_uuid: str, old_uuid: str, volume: VolumeConnection, progress: Progress) -> None:
        self.attachments.swap_volume(instance_uuid, old_uuid, volume, progress)

    def attach_interface(self, instance_uuid: str, port: NetworkPort) -> None:
        self.attachments.attach_interface(instance_uuid, port)

    def detach_interface(self, instance_uuid: str, port_uuid: str) -> None:
        self.attachments.detach_interface(instance_uuid, port_uuid)

    # -- cold migration

    def migrate_out(self, guest: GuestSpec, destination: str, progress: Progress) -> Mapping[str, Any]:
        return self.cold_migration.migrate_out(guest, progress)

    def migrate_in(self, guest: GuestSpec, disks: Mapping[str, Any], progress: Progress, *, is_running: bool) -> None:
        self.cold_migration.migrate_in(guest, disks, progress, is_running=is_running)

    def confirm_migration(self, instance_uuid: str) -> None:
        self.cold_migration.store.discard(instance_uuid)

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
        self.live_migration.finish(guest.instance_uuid)

    def cancel_live_migration(self, instance_uuid: str) -> None:
        self.live_migration.cancel(instance_uuid)

    def abort_live_migration(self, instance_uuid: str) -> None:
        self.live_migration.abort(instance_uuid)

    def force_live_migration(self, instance_uuid: str) -> None:
        self.live_migration.force(instance_uuid)

    def steer_live_migration(self, instance_uuid: str, kind: str, amount: int) -> None:
        self.live_migration.steer(instance_uuid, kind, amount)

    # -- evacuation

    def take_over(self, guest: GuestSpec, source_host: str, progress: Progress) -> None:
        self.evacuation.take_over(guest, source_host, progress)

    def hand_back(self, instance_uuid: str, source_host: str) -> None:
        self.evacuation.hand_back(instance_uuid, source_host)
