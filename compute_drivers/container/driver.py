"""System containers on this machine: each runs its own init from its own disk, started by an OCI runtime."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any, ClassVar

from compute_drivers import free_room
from compute_drivers.container.cold_migration import ColdMigration
from compute_drivers.container.node import ContainerNode
from compute_drivers.container.options import ContainerOptions
from compute_drivers.container.power import Power
from compute_drivers.container.root_disk import RootDisk
from compute_drivers.container.spawn import GuestBuilder
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
)
from conductor.core.consoles import ConsoleKind


class ContainerDriver(ComputeDriver):
    """System containers on Linux with their own init process, run by an OCI runtime.

    Each method delegates to the part that does the work. All parts share one `ContainerNode`.
    """

    name: ClassVar[str] = "container"
    supports_console_log: ClassVar[bool] = True
    capabilities: frozenset[str] = frozenset(
        {"pause", "rescue", "rebuild", "snapshot", "set_password", "serial_console", "attach_interface", "migrate"}
    )

    def __init__(self, host: str, options: Mapping[str, Any], open_image: OpenImage) -> None:
        super().__init__(host, options, open_image)
        self.node = ContainerNode(host, parse(ContainerOptions, options, self.name), open_image)
        self.builder = GuestBuilder(self.node)
        self.power = Power(self.node, self.builder)
        self.root_disk = RootDisk(self.node, self.builder)
        self.cold_migration = ColdMigration(self.node, self.builder, self.power)

    def start(self) -> None:
        self.node.start()

    # -- the host and its guests

    def report(self) -> NodeReport:
        return self.node.report()

    def guests(self) -> list[GuestInfo]:
        return self.node.list_guests()

    def kept_guests(self) -> list[str]:
        return self.cold_migration.store.list_retained()

    def console_log(self, instance_uuid: str, offset: int) -> bytes:
        return self.node.console_log(instance_uuid, offset)

    def open_console(self, instance_uuid: str, kind: ConsoleKind) -> socket.socket:
        return self.node.open_console(instance_uuid, kind)

    # -- spawn and power

    def check_build(self, guest: GuestSpec) -> None:
        self.builder.check(guest)
        free_room.require(guest.image, self.node.paths.images_dir, guest.flavor.memory_mb)

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

    def set_admin_password(self, instance_uuid: str, password: str) -> None:
        self.node.set_admin_password(instance_uuid, password)

    # -- the root disk

    def rescue(self, guest: GuestSpec, password: str, progress: Progress) -> None:
        self.root_disk.rescue(guest, password, progress)

    def unrescue(self, guest: GuestSpec, *, is_running: bool) -> None:
        self.root_disk.unrescue(guest, is_running=is_running)

    def rebuild(self, guest: GuestSpec, progress: Progress, *, is_running: bool) -> None:
        self.root_disk.rebuild(guest, progress, is_running=is_running)

    def snapshot(self, instance_uuid: str, image_id: str, store: StoreImage, progress: Progress) -> None:
        self.root_disk.snapshot(instance_uuid, image_id, store, progress)

    # -- ports

    def attach_interface(self, instance_uuid: str, port: NetworkPort) -> None:
        self.node.attach_interface(instance_uuid, port)

    def detach_interface(self, instance_uuid: str, port_uuid: str) -> None:
        self.node.detach_interface(instance_uuid, port_uuid)

    # -- cold migration

    def migrate_out(self, guest: GuestSpec, destination: str, progress: Progress) -> Mapping[str, Any]:
        return self.cold_migration.migrate_out(guest, progress)

    def migrate_in(self, guest: GuestSpec, disks: Mapping[str, Any], progress: Progress, *, is_running: bool) -> None:
        self.cold_migration.migrate_in(guest, disks, progress, is_running=is_running)

    def confirm_migration(self, instance_uuid: str) -> None:
        self.cold_migration.store.discard(instance_uuid)

    def revert_migration(self, guest: GuestSpec, *, is_running: bool) -> None:
        self.cold_migration.revert(guest, is_running=is_running)
