"""Base class of compute drivers: what an agent can ask of a hypervisor."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, BinaryIO, ClassVar, Protocol

from conductor.core.consoles import ConsoleKind
from conductor.core.driver_capabilities import CAPABILITIES as CAPABILITIES
from conductor.core.guest_parts import NetworkPort as NetworkPort
from conductor.core.guest_parts import PortAddress as PortAddress
from conductor.core.guest_parts import VolumeConnection as VolumeConnection
from conductor.core.plain_json import known_fields, plain
from conductor.core.plugin_log import PluginLog
from conductor.core.port_filters import PortFilter as PortFilter
from conductor.core.request_spec import FlavorSpec, ImageSpec
from conductor.core.states import PowerState


@dataclass(frozen=True, slots=True)
class GuestFile:
    """A file that a guest is to have when it first boots; `contents` are base64."""

    path: str
    contents: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class GuestSpec:
    """All that a driver needs to build one guest."""

    instance_uuid: str
    name: str
    hostname: str
    project_id: str
    flavor: FlavorSpec
    image: ImageSpec
    kernel: ImageSpec | None = None
    ramdisk: ImageSpec | None = None
    ports: tuple[NetworkPort, ...] = ()
    user_data: str = ""
    public_key: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    volumes: tuple[VolumeConnection, ...] = ()
    admin_password: str = ""
    hardware: Mapping[str, Any] = field(default_factory=dict)  # core.hardware's Grant as JSON: cells, pins, devices
    files: tuple[GuestFile, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return plain(self)  # type: ignore[no-any-return]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> GuestSpec:
        """The inverse of `to_json`; fields that a newer sender added are dropped."""
        values = known_fields(cls, data)
        values["flavor"] = FlavorSpec(**known_fields(FlavorSpec, values["flavor"]))
        for name in ("image", "kernel", "ramdisk"):
            values[name] = ImageSpec(**known_fields(ImageSpec, values[name])) if values.get(name) else None
        values["image"] = values["image"] or ImageSpec()
        values["ports"] = tuple(NetworkPort.from_json(port) for port in values.get("ports", ()))
        values["volumes"] = tuple(VolumeConnection.from_json(volume) for volume in values.get("volumes", ()))
        values["files"] = tuple(GuestFile(**known_fields(GuestFile, file)) for file in values.get("files", ()))
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Inventory:
    """Amount of one resource class on a host; capacity = (total - reserved) * allocation_ratio."""

    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int = 2**31 - 1
    step_size: int = 1
    allocation_ratio: float = 1.0


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What a hypervisor offers. `cpu_info` and `capabilities` are JSON values.

    `numa_cells` and `pci_devices` are the inside of the host, each a JSON value as `conductor.core.hardware.wire` makes
    it of a HostCell or PciDevice. Who has which of them is not the host's to say. `metrics` are by the names of
    `conductor.core.metrics`, shares as numbers from 0 to 1.
    """

    node: str
    hypervisor_type: str
    hypervisor_version: int
    inventory: Mapping[str, Inventory]
    traits: frozenset[str] = frozenset()
    supported_instances: tuple[tuple[str, str, str], ...] = ()
    cpu_info: Mapping[str, Any] = field(default_factory=dict)
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    disk_available_least_gb: int | None = None
    host_ip: str = "127.0.0.1"
    numa_cells: tuple[Mapping[str, Any], ...] = ()
    pci_devices: tuple[Mapping[str, Any], ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        inventory = {name: asdict(amount) for name, amount in self.inventory.items()}
        return {
            **{item.name: getattr(self, item.name) for item in fields(self)},
            "inventory": inventory,
            "traits": sorted(self.traits),
            "supported_instances": [list(supported) for supported in self.supported_instances],
            "cpu_info": dict(self.cpu_info),
            "capabilities": dict(self.capabilities),
            "numa_cells": [dict(cell) for cell in self.numa_cells],
            "pci_devices": [dict(device) for device in self.pci_devices],
            "metrics": dict(self.metrics),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> NodeReport:
        """The inverse of `to_json`; fields that a newer sender added are dropped."""
        values = known_fields(cls, data)
        values["inventory"] = {
            name: Inventory(**known_fields(Inventory, amount)) for name, amount in values["inventory"].items()
        }
        values["traits"] = frozenset(values.get("traits", ()))
        values["supported_instances"] = tuple(
            (arch, hypervisor, mode) for arch, hypervisor, mode in values.get("supported_instances", ())
        )
        for name in ("numa_cells", "pci_devices"):
            values[name] = tuple(values.get(name, ()))
        return cls(**values)


@dataclass(frozen=True, slots=True)
class GuestInfo:
    """One guest that the hypervisor knows."""

    instance_uuid: str
    power_state: PowerState


# In the answer to a live migration: it went wrong, and the guest is not on the source any more, or it cannot tell.
HAS_LEFT = "has_left"

OpenImage = Callable[[str], BinaryIO]  # opens the data of an image for reading; raises errors.NotFound
# Takes the data of an image that waits for it: image id, disk format, data. Raises errors.NotFound.
StoreImage = Callable[[str, str, BinaryIO], None]


class Progress(Protocol):
    """Tells how far a long action is.

    A short sentence, where it is known a share between 0 and 1, and figures such as {"memory_remaining": bytes}.
    Raises errors.StaleToken when the action is no longer wanted: let it through, and leave nothing half-built behind.
    """

    def __call__(
        self, message: str, share: float | None = None, figures: Mapping[str, int] | None = None, /
    ) -> None: ...


class ComputeDriver:
    """Runs guests on one host.

    Every method is idempotent under the instance: `spawn` of a guest that already runs and `destroy` of one
    that is gone succeed, and so does each other verb whose outcome is there already. Methods may block; the agent calls
    them from its own threads, never two at once for the same instance, but for `abort_live_migration`,
    `force_live_migration` and `steer_live_migration`. Failures raise `errors.DriverError` (another host may do better)
    or `errors.BuildAborted` (none will). A verb for a guest that is not there raises `errors.GuestMissing`.
    `capabilities` names those of CAPABILITIES whose methods are there; the others are never called. Once it has
    started, a host may say less than its class: what its machine lacks. With `filters_ports` it applies the rules of
    security groups.
    """

    name: ClassVar[str] = ""
    is_simulated: ClassVar[bool] = False
    supports_console_log: ClassVar[bool] = False
    log = PluginLog("driver")
    capabilities: frozenset[str] = frozenset()
    filters_ports: bool = False

    def __init__(self, host: str, options: Mapping[str, Any], open_image: OpenImage) -> None:
        self.host = host
        self.options = options
        self.open_image = open_image

    def start(self) -> None:
        """Connect to the hypervisor; called once before anything else. Raises DriverError."""

    def stop(self) -> None:
        """Disconnect. Guests go on running."""

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` whenever a guest changes by itself, where the hypervisor tells; any thread will do."""

    def report(self) -> NodeReport:
        """What this host offers now."""
        raise NotImplementedError

    def guests(self) -> list[GuestInfo]:
        """Every guest of ours on this host, running or not."""
        raise NotImplementedError

    def kept_guests(self) -> list[str]:
        """Uuids of instances of which `migrate_out` keeps something here that was not confirmed or reverted."""
        return []

    def console_log(self, instance_uuid: str, offset: int) -> bytes:
        """Bytes that the guest wrote to its serial console from `offset` on; b"" when there are none."""
        raise NotImplementedError

    # -- capability vnc_console, serial_console

    def open_console(self, instance_uuid: str, kind: ConsoleKind) -> socket.socket:
        """A connected stream socket: the guest's screen as RFB without a password, or the bytes of its serial line.

        The caller closes it. It ends when the guest is off, for which this raises DriverError. A serial line has one
        reader: the agent closes the one that it has before it opens another, and `console_log` goes on as before.
        """
        raise NotImplementedError

    # -- capability diagnostics, guest_password

    def diagnostics(self, instance_uuid: str) -> Mapping[str, Any]:
        """Figures of a guest that is on, as JSON values: `cpus`, `memory`, `disks`, `nics`."""
        raise NotImplementedError

    def posted_password(self, instance_uuid: str) -> str:
        """What the guest has posted to the metadata service; "" when nothing."""
        raise NotImplementedError

    def forget_password(self, instance_uuid: str) -> None:
        raise NotImplementedError

    # -- where `filters_ports`

    def filter_ports(self, filters: Mapping[str, PortFilter]) -> None:
        """What each port of the host's guests lets through from now on; one that is not named lets nothing through."""
        raise NotImplementedError

    # -- there and gone, on and off: every driver can do these

    def spawn(self, guest: GuestSpec, progress: Progress) -> None:
        """Build the guest and start it; returns once it runs."""
        raise NotImplementedError

    def destroy(self, instance_uuid: str) -> None:
        """End the guest and remove its disks, logs and definitions. Volumes are let go, never removed."""
        raise NotImplementedError

    def power_on(self, guest: GuestSpec) -> None:
        """Start a guest that is off."""
        raise NotImplementedError

    def power_off(self, instance_uuid: str, timeout_seconds: float) -> None:
        """Ask the guest to shut down, and end it when it has not after `timeout_seconds`; 0 ends it at once."""
        raise NotImplementedError

    def reboot(self, guest: GuestSpec, *, is_hard: bool, timeout_seconds: float) -> None:
        """Soft: ask the guest, and reset it when it does not answer. Hard: end it, define it anew, start it."""
        raise NotImplementedError

    # -- capability pause, suspend, rescue, rebuild, set_password, crash_dump

    def pause(self, instance_uuid: str) -> None:
        raise NotImplementedError

    def unpause(self, instance_uuid: str) -> None:
        raise NotImplementedError

    def suspend(self, instance_uuid: str) -> None:
        raise NotImplementedError

    def resume(self, guest: GuestSpec) -> None:
        raise NotImplementedError

    def rescue(self, guest: GuestSpec, password: str, progress: Progress) -> None:
        """Start the guest from `guest.image`, with its own root disk as the second; `password` is its root's."""
        raise NotImplementedError

    def unrescue(self, guest: GuestSpec, *, is_running: bool) -> None:
        """Start the guest from its own root disk again, or leave it off; the rescue disk goes."""
        raise NotImplementedError

    def rebuild(self, guest: GuestSpec, progress: Progress, *, is_running: bool) -> None:
        """Replace the guest's own disks by new ones of `guest.image`. Volumes and ports stay."""
        raise NotImplementedError

    def set_admin_password(self, instance_uuid: str, password: str) -> None:
        raise NotImplementedError

    def trigger_crash_dump(self, instance_uuid: str) -> None:
        raise NotImplementedError

    # -- capability snapshot, attach_volume, attach_interface

    def snapshot(self, instance_uuid: str, image_id: str, store: StoreImage, progress: Progress) -> None:
        """Give `store` a copy of the guest's root disk as the data of `image_id`; the guest stays as it is."""
        raise NotImplementedError

    def attach_volume(self, instance_uuid: str, volume: VolumeConnection) -> None:
        """Give the guest the volume; one that it has shows the size that it has by now, if that can be."""
        raise NotImplementedError

    def detach_volume(self, instance_uuid: str, volume_uuid: str) -> None:
        raise NotImplementedError

    def swap_volume(self, instance_uuid: str, old_uuid: str, volume: VolumeConnection, progress: Progress) -> None:
        """Copy the data of volume `old_uuid` into `volume`, which the guest has in its place from then on."""
        raise NotImplementedError

    def attach_interface(self, instance_uuid: str, port: NetworkPort) -> None:
        raise NotImplementedError

    def detach_interface(self, instance_uuid: str, port_uuid: str) -> None:
        raise NotImplementedError

    # -- capability evacuate

    def take_over(self, guest: GuestSpec, source_host: str, progress: Progress) -> None:
        """Start the guest of a dead host from its own disks; whatever is raised, they are the dead host's as before."""
        raise NotImplementedError

    def hand_back(self, instance_uuid: str, source_host: str) -> None:
        """End a guest that was taken over; its disks stay, and are the dead host's again."""
        raise NotImplementedError

    # -- capability migrate: out at the source, in at the destination, then confirm or revert at the source

    def migrate_out(self, guest: GuestSpec, destination: str, progress: Progress) -> Mapping[str, Any]:
        """Power the guest off and make its disks ready to be fetched; JSON values for `migrate_in` at `destination`.

        What is there stays until `confirm_migration` or `revert_migration`, and is no longer listed by `guests`.
        """
        raise NotImplementedError

    def migrate_in(self, guest: GuestSpec, disks: Mapping[str, Any], progress: Progress, *, is_running: bool) -> None:
        """Build the guest from the disks that `migrate_out` made ready, at the size of `guest.flavor`.

        The source may be the same host.
        """
        raise NotImplementedError

    def confirm_migration(self, instance_uuid: str) -> None:
        """At the source: remove what was kept for going back."""
        raise NotImplementedError

    def revert_migration(self, guest: GuestSpec, *, is_running: bool) -> None:
        """At the source: bring the guest back as it was. One that never went out is left as it is."""
        raise NotImplementedError

    # -- capability live_migrate: prepare at the destination, move at the source, finish or cancel at the destination

    def prepare_live_migration(self, guest: GuestSpec, *, is_block_migration: bool | None) -> Mapping[str, Any]:
        """At the destination: make room for the guest; JSON values that tell the source where to send it.

        `is_block_migration` None chooses by whether the disks are on storage that both hosts share.
        """
        raise NotImplementedError

    def live_migrate(
        self, guest: GuestSpec, target: Mapping[str, Any], progress: Progress, *, is_block_migration: bool | None
    ) -> None:
        """At the source: move the guest; returns once it runs at the destination and is gone here.

        Raises MigrationAborted after `abort_live_migration`, DriverError otherwise; in both cases the guest goes on
        here as it was. Called again, it looks first where the guest is.
        """
        raise NotImplementedError

    def finish_live_migration(self, guest: GuestSpec) -> None:
        """At the destination: the guest has arrived; make it permanent."""
        raise NotImplementedError

    def cancel_live_migration(self, instance_uuid: str) -> None:
        """At the destination: remove what was prepared. Never ends a guest that has arrived."""
        raise NotImplementedError

    def abort_live_migration(self, instance_uuid: str) -> None:
        """Have a `live_migrate` that is under way stop before the switch; nothing when there is none.

        Raises DriverError after a switch to post-copy: neither host has all of the guest then.
        """
        raise NotImplementedError

    def force_live_migration(self, instance_uuid: str) -> None:
        """Have a `live_migrate` that is under way switch now; nothing when there is none."""
        raise NotImplementedError

    # -- capability live_downtime, live_throttle, live_post_copy: each is a kind of conductor.core.live_steering

    def steer_live_migration(self, instance_uuid: str, kind: str, amount: int) -> None:
        """Change a `live_migrate` that is under way; in effect when this returns, or with the hypervisor's next pass.

        `downtime`: the guest may stand still for `amount` milliseconds for the switch. `throttle`: `amount` percent of
        its processors are taken away. `post-copy`: it goes on at the destination at once, and fetches what it lacks.
        Raises DriverError when none is under way, or it is too late for this.
        """
        raise NotImplementedError
