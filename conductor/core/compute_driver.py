"""Base class of compute drivers: the contract between the agent of a host and a hypervisor."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, ClassVar, Protocol

from conductor.core.consoles import ConsoleKind
from conductor.core.plain_json import field_names, known_fields, plain
from conductor.core.plugin_log import PluginLog
from conductor.core.request_spec import FlavorSpec, ImageSpec
from conductor.core.states import PowerState

# The kind of drivers among plugins.
DRIVER = "driver"
# Limit of durations of calls, and of notes of each source, in one report of a host.
MAX_CALLS_PER_REPORT = 1000
# What a driver may support in addition to spawn, destroy, power on, power off and reboot. An action whose capability
# is missing is not offered for servers on the driver's hosts.
CAPABILITIES: Mapping[str, str] = {
    "pause": "pause and unpause",
    "suspend": "suspend and resume",
    "rescue": "rescue and unrescue",
    "rebuild": "rebuild",
    "snapshot": "take images of guests; shelve them",
    "set_password": "set the administrator's password in a guest",
    "crash_dump": "make a guest dump its memory",
    "vnc_console": "show the screen of a guest and take keys and pointer",
    "serial_console": "carry what is typed to a guest's serial line, and what it answers",
    "diagnostics": "report figures of running guests",
    "guest_password": "report the password that a guest has posted",
    "attach_volume": "attach and detach volumes while the guest runs",
    "swap_volume": "put another volume in the place of one, with its data, while the guest runs",
    "attach_interface": "attach and detach ports while the guest runs",
    "migrate": "resize and move guests that are off",
    "live_migrate": "move guests while they run",
    "live_downtime": "let a guest on its way stand still for longer or shorter than at first",
    "live_throttle": "take processors from a guest on its way, so that it changes less",
    "live_post_copy": "let a guest on its way go on at the destination at once, and fetch the rest",
    "evacuate": "start guests of dead hosts from their disks, which the hosts share",
}


@dataclass(frozen=True, slots=True)
class PortAddress:
    """One address of a port.

    Attributes:
        cidr: Subnet of the address; "" where an earlier release sent only the address.
        ipv6_mode: How the guest gets an IPv6 address: slaac, dhcpv6-stateful or dhcpv6-stateless; "" leaves it to the
            guest.
    """

    ip_address: str
    cidr: str = ""
    gateway_ip: str = ""
    dns_nameservers: tuple[str, ...] = ()
    ipv6_mode: str = ""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PortAddress:
        return cls(**{**known_fields(cls, data), "dns_nameservers": tuple(data.get("dns_nameservers", ()))})


@dataclass(frozen=True, slots=True)
class NetworkPort:
    """One port of a guest.

    The fields from `ip_address` to `dns_nameservers`, and `ipv6_mode`, describe the first address; `more` has the
    others. `network_uuid` is "" for a port that an earlier release plugged.
    """

    port_uuid: str
    network_name: str
    mac_address: str
    ip_address: str
    prefix_length: int
    cidr: str
    gateway_ip: str = ""
    dns_nameservers: tuple[str, ...] = ()
    network_uuid: str = ""
    ipv6_mode: str = ""
    more: tuple[PortAddress, ...] = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> NetworkPort:
        """Parse a port of a message. Fields that a newer sender added are dropped."""
        values = {**known_fields(cls, data), "dns_nameservers": tuple(data.get("dns_nameservers", ()))}
        return cls(**{**values, "more": tuple(PortAddress.from_json(address) for address in data.get("more", ()))})

    @property
    def addresses(self) -> tuple[PortAddress, ...]:
        """All addresses of the port."""
        if not self.ip_address:
            return ()
        first = PortAddress(self.ip_address, self.cidr, self.gateway_ip, self.dns_nameservers, self.ipv6_mode)
        return (first, *self.more)


@dataclass(frozen=True, slots=True)
class VolumeConnection:
    """One volume of a guest: where its data are, and how the guest sees it.

    Attributes:
        path: File or block device that the host can open.
        boot_index: 0 for the boot device, -1 for a volume that is not booted from.
        is_shared: Several guests may have the volume at the same time, so it is neither locked nor cached.
    """

    volume_uuid: str
    path: str
    size_gb: int
    disk_format: str = "raw"
    device_name: str = ""
    boot_index: int = -1
    is_read_only: bool = False
    serial: str = ""
    is_shared: bool = False

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> VolumeConnection:
        """Parse a volume of a message. Fields that a newer sender added are dropped."""
        return cls(**known_fields(cls, data))


@dataclass(frozen=True, slots=True)
class GuestFile:
    """A file to create in a guest at its first boot; `contents` are base64."""

    path: str
    contents: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class GuestSpec:
    """Everything that a driver needs to build one guest.

    `hardware` is a Grant of `core.hardware` as JSON: NUMA cells, CPU pins and devices.
    """

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
    hardware: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[GuestFile, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return plain(self)  # type: ignore[no-any-return]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> GuestSpec:
        """Parse the JSON of a guest. Fields that a newer sender added are dropped."""
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
    """Report of a host: inventory, capabilities, hardware and metrics.

    Attributes:
        cpu_info, capabilities: JSON values.
        numa_cells, pci_devices: JSON values as `conductor.core.hardware.wire` makes them. Their use by guests is not
            part of the report.
        metrics: By the names of `conductor.core.metrics`; shares are numbers from 0 to 1.
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
        inventory = {
            name: {item: getattr(amount, item) for item in field_names(Inventory)}
            for name, amount in self.inventory.items()
        }
        return {
            **{name: getattr(self, name) for name in field_names(NodeReport)},
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
        """Parse the JSON of a report. Fields that a newer sender added are dropped."""
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
    """One guest on a host, and its power state."""

    instance_uuid: str
    power_state: PowerState


# In the answer to a live migration: it failed, and the guest is not on the source any more, or that is unknown.
HAS_LEFT = "has_left"

OpenImage = Callable[[str], BinaryIO]  # opens the data of an image for reading; raises errors.NotFound
# Stores the data of a queued image: image id, disk format, data. Raises errors.NotFound.
StoreImage = Callable[[str, str, BinaryIO], None]


class Progress(Protocol):
    """Reports the progress of a long action.

    Args:
        message: A short phrase.
        share: Between 0 and 1, where it is known.
        figures: Such as {"memory_remaining": bytes}.

    Raises:
        errors.StaleToken: A newer command has replaced the action. Let it through, and clean up what is half-built.
    """

    def __call__(
        self, message: str, share: float | None = None, figures: Mapping[str, int] | None = None, /
    ) -> None: ...


class ComputeDriver:
    """Runs guests on one host.

    Every method is idempotent for an instance: `spawn` of a running guest and `destroy` of a missing one succeed, and
    so does every other method whose effect is there already. Methods may block. The agent calls them from its own
    threads, one at a time for each instance, except `abort_live_migration`, `force_live_migration` and
    `steer_live_migration`.

    Failures raise `errors.DriverError` (another host may succeed) or `errors.BuildAborted` (no host can). A method
    for a guest that is not on the host raises `errors.GuestMissing`.

    Attributes:
        capabilities: The supported ones of CAPABILITIES; methods of others are never called. `start` may remove
            those that the machine lacks.
        network_is_host_specific: The networking of guests belongs to the host. A build that moves on to another host
            releases its ports and gets new ones there; else it keeps them.
    """

    name: ClassVar[str] = ""
    is_simulated: ClassVar[bool] = False
    supports_console_log: ClassVar[bool] = False
    log = PluginLog("driver")
    capabilities: frozenset[str] = frozenset()
    network_is_host_specific: ClassVar[bool] = False

    def __init__(self, host: str, options: Mapping[str, Any], open_image: OpenImage) -> None:
        self.host = host
        self.options = options
        self.open_image = open_image

    def start(self) -> None:
        """Connect to the hypervisor; called once, before any other method. Raises DriverError."""

    def stop(self) -> None:
        """Disconnect from the hypervisor. Guests keep running."""

    def watch(self, changed: Callable[[], None]) -> None:
        """Register `changed`, to be called whenever a guest changes without a command; on any thread.

        Hypervisors without such events ignore it.
        """

    def report(self) -> NodeReport:
        """Return the report of this host: its inventory, capabilities and metrics now."""
        raise NotImplementedError

    def guests(self) -> list[GuestInfo]:
        """Return every guest of this host, running or not."""
        raise NotImplementedError

    def kept_guests(self) -> list[str]:
        """Return the uuids of guests that `migrate_out` retained here, and that were neither confirmed nor reverted."""
        return []

    def console_log(self, instance_uuid: str, offset: int) -> bytes:
        """Return what the guest wrote to its serial console from byte `offset` on. Empty when there is nothing new."""
        raise NotImplementedError

    # -- capability vnc_console, serial_console

    def open_console(self, instance_uuid: str, kind: ConsoleKind) -> socket.socket:
        """Return a connected stream socket: the guest's screen as RFB without a password, or its serial port.

        The caller closes it. It ends when the guest is off; for a guest that is off this raises DriverError. A serial
        port has one reader: the agent closes its connection before it opens another. `console_log` is not affected.
        """
        raise NotImplementedError

    # -- capability diagnostics, guest_password

    def diagnostics(self, instance_uuid: str) -> Mapping[str, Any]:
        """Return statistics of a guest that is on, as JSON values: `cpus`, `memory`, `disks`, `nics`."""
        raise NotImplementedError

    def posted_password(self, instance_uuid: str) -> str:
        """Return the password that the guest posted to the metadata service; "" when there is none."""
        raise NotImplementedError

    def forget_password(self, instance_uuid: str) -> None:
        raise NotImplementedError

    # -- spawn and power: every driver supports these

    def check_build(self, guest: GuestSpec) -> None:
        """Raise where this host cannot build the guest now; change nothing, and take no longer than a report.

        `guest` has no ports and no secrets yet, and its volumes have no path and no size. A driver that does not
        override this method is not asked.
        """

    def spawn(self, guest: GuestSpec, progress: Progress) -> None:
        """Build the guest and start it. Return once the guest runs."""
        raise NotImplementedError

    def destroy(self, instance_uuid: str) -> None:
        """End the guest and remove its disks, logs and definitions. Volumes are released, but never removed."""
        raise NotImplementedError

    def power_on(self, guest: GuestSpec) -> None:
        """Start a guest that is off."""
        raise NotImplementedError

    def power_off(self, instance_uuid: str, timeout_seconds: float) -> None:
        """Ask the guest to shut down. End it if it still runs after `timeout_seconds`; 0 ends it at once."""
        raise NotImplementedError

    def reboot(self, guest: GuestSpec, *, is_hard: bool, timeout_seconds: float) -> None:
        """Restart the guest.

        A soft reboot asks the guest to shut down, and resets it if it does not. A hard one ends it, redefines it and
        starts it.
        """
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
        """Start the guest from `guest.image`, with its own root disk as the second; `password` is for root."""
        raise NotImplementedError

    def unrescue(self, guest: GuestSpec, *, is_running: bool) -> None:
        """Start the guest from its own root disk again, or leave it off, and remove the rescue disk."""
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
        """Give `store` a copy of the guest's root disk as the data of `image_id`; the guest is not changed."""
        raise NotImplementedError

    def attach_volume(self, instance_uuid: str, volume: VolumeConnection) -> None:
        """Attach the volume. If it is attached already, show its present size to the guest, where the hypervisor
        can.
        """
        raise NotImplementedError

    def detach_volume(self, instance_uuid: str, volume_uuid: str) -> None:
        raise NotImplementedError

    def swap_volume(self, instance_uuid: str, old_uuid: str, volume: VolumeConnection, progress: Progress) -> None:
        """Copy volume `old_uuid` to `volume`, and give the guest the copy in its place."""
        raise NotImplementedError

    def attach_interface(self, instance_uuid: str, port: NetworkPort) -> None:
        raise NotImplementedError

    def detach_interface(self, instance_uuid: str, port_uuid: str) -> None:
        raise NotImplementedError

    # -- capability evacuate

    def take_over(self, guest: GuestSpec, source_host: str, progress: Progress) -> None:
        """Start the guest of a dead host from its own disks. On an error the disks still belong to the dead host."""
        raise NotImplementedError

    def hand_back(self, instance_uuid: str, source_host: str) -> None:
        """End a guest that was taken over; its disks belong to the dead host again."""
        raise NotImplementedError

    # -- capability migrate: migrate_out at the source, migrate_in at the destination, confirm or revert at the source

    def migrate_out(self, guest: GuestSpec, destination: str, progress: Progress) -> Mapping[str, Any]:
        """Power the guest off and retain its disks; return JSON values for `migrate_in` at `destination`.

        The guest stays until `confirm_migration` or `revert_migration`, and is no longer listed by `guests`.
        """
        raise NotImplementedError

    def migrate_in(self, guest: GuestSpec, disks: Mapping[str, Any], progress: Progress, *, is_running: bool) -> None:
        """Build the guest from the disks that `migrate_out` retained, at the size of `guest.flavor`.

        The source may be the same host.
        """
        raise NotImplementedError

    def confirm_migration(self, instance_uuid: str) -> None:
        """Remove what the source retained for a revert. Called at the source."""
        raise NotImplementedError

    def revert_migration(self, guest: GuestSpec, *, is_running: bool) -> None:
        """Restore the guest as it was before the migration. Called at the source.

        A guest that was never migrated out is not changed.
        """
        raise NotImplementedError

    # -- capability live_migrate: prepare at the destination, move at the source, finish or cancel at the destination

    def prepare_live_migration(self, guest: GuestSpec, *, is_block_migration: bool | None) -> Mapping[str, Any]:
        """Make room for the guest. Called at the destination.

        Args:
            is_block_migration: None copies the disks unless both hosts share their storage.

        Returns:
            JSON values for `live_migrate`, such as where the source sends the guest.
        """
        raise NotImplementedError

    def live_migrate(
        self, guest: GuestSpec, target: Mapping[str, Any], progress: Progress, *, is_block_migration: bool | None
    ) -> None:
        """Send the guest to the destination. Called at the source; returns once the guest has left it.

        If it is called again, it first finds out where the guest is.

        Raises:
            MigrationAborted: after `abort_live_migration`; the guest keeps running here.
            DriverError: for any other failure; the guest keeps running here.
        """
        raise NotImplementedError

    def finish_live_migration(self, guest: GuestSpec) -> None:
        """Make the arrived guest permanent. Called at the destination."""
        raise NotImplementedError

    def cancel_live_migration(self, instance_uuid: str) -> None:
        """Remove what was prepared. Called at the destination. It never ends a guest that has arrived."""
        raise NotImplementedError

    def abort_live_migration(self, instance_uuid: str) -> None:
        """Stop a running `live_migrate` before the switch. Does nothing if none is running.

        Raises:
            DriverError: the migration has switched to post-copy, when neither host has the whole guest.
        """
        raise NotImplementedError

    def force_live_migration(self, instance_uuid: str) -> None:
        """Make a running `live_migrate` switch now. Does nothing if none is running."""
        raise NotImplementedError

    # -- capability live_downtime, live_throttle, live_post_copy: each is a kind of conductor.core.live_steering

    def steer_live_migration(self, instance_uuid: str, kind: str, amount: int) -> None:
        """Change a running `live_migrate`, at once or from the hypervisor's next pass on.

        Args:
            kind: `downtime` allows a pause of `amount` milliseconds for the switch. `throttle` takes `amount` percent
                of the guest's CPU time away. `post-copy` switches at once and fetches the rest of the memory
                afterwards.

        Raises:
            DriverError: no migration is running, or it is too late for this.
        """
        raise NotImplementedError
