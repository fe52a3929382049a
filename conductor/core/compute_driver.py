"""Base class of compute drivers: what an agent can ask of a hypervisor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, BinaryIO, ClassVar

from conductor.core.request_spec import FlavorSpec, ImageSpec
from conductor.core.states import PowerState


def _known(cls: type[Any], data: Mapping[str, Any]) -> dict[str, Any]:
    names = {item.name for item in fields(cls)}
    return {name: value for name, value in data.items() if name in names}


@dataclass(frozen=True, slots=True)
class NetworkPort:
    """One plugged port: addresses are texts, `prefix_length` belongs to the first subnet."""

    port_uuid: str
    network_name: str
    mac_address: str
    ip_address: str
    prefix_length: int
    cidr: str
    gateway_ip: str = ""
    dns_nameservers: tuple[str, ...] = ()


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

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> GuestSpec:
        """The inverse of `to_json`; fields that a newer sender added are dropped."""
        values = _known(cls, data)
        values["flavor"] = FlavorSpec(**_known(FlavorSpec, values["flavor"]))
        for name in ("image", "kernel", "ramdisk"):
            values[name] = ImageSpec(**_known(ImageSpec, values[name])) if values.get(name) else None
        values["image"] = values["image"] or ImageSpec()
        values["ports"] = tuple(
            NetworkPort(**{**_known(NetworkPort, port), "dns_nameservers": tuple(port.get("dns_nameservers", ()))})
            for port in values.get("ports", ())
        )
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
    """What a hypervisor offers. `cpu_info` and `capabilities` are JSON values."""

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

    def to_json(self) -> dict[str, Any]:
        inventory = {name: asdict(amount) for name, amount in self.inventory.items()}
        return {
            **{item.name: getattr(self, item.name) for item in fields(self)},
            "inventory": inventory,
            "traits": sorted(self.traits),
            "supported_instances": [list(supported) for supported in self.supported_instances],
            "cpu_info": dict(self.cpu_info),
            "capabilities": dict(self.capabilities),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> NodeReport:
        """The inverse of `to_json`; fields that a newer sender added are dropped."""
        values = _known(cls, data)
        values["inventory"] = {
            name: Inventory(**_known(Inventory, amount)) for name, amount in values["inventory"].items()
        }
        values["traits"] = frozenset(values.get("traits", ()))
        values["supported_instances"] = tuple(
            (arch, hypervisor, mode) for arch, hypervisor, mode in values.get("supported_instances", ())
        )
        return cls(**values)


@dataclass(frozen=True, slots=True)
class GuestInfo:
    """One guest that the hypervisor knows."""

    instance_uuid: str
    power_state: PowerState


# Opens the data of an image for reading; raises errors.NotFound for an unknown image id.
OpenImage = Callable[[str], BinaryIO]
# Tells how far a long action is: a short sentence and, where it is known, a share between 0 and 1. Raises
# errors.StaleToken when the action is no longer wanted: let it through, and leave nothing half-built behind.
Progress = Callable[[str, float | None], None]


class ComputeDriver:
    """Runs guests on one host.

    Every method is idempotent under the instance: `spawn` of a guest that already runs and `destroy` of one
    that is gone succeed. Methods may block; the agent calls them from its own threads, never two at
    once for the same instance. Failures raise `errors.DriverError` (another host may do better) or
    `errors.BuildAborted` (none will).
    """

    name: ClassVar[str] = ""
    is_simulated: ClassVar[bool] = False
    supports_console_log: ClassVar[bool] = False

    def __init__(self, host: str, options: Mapping[str, Any], open_image: OpenImage) -> None:
        self.host = host
        self.options = options
        self.open_image = open_image

    def start(self) -> None:
        """Connect to the hypervisor; called once before anything else. Raises DriverError."""

    def stop(self) -> None:
        """Disconnect. Guests go on running."""

    def report(self) -> NodeReport:
        """What this host offers now."""
        raise NotImplementedError

    def guests(self) -> list[GuestInfo]:
        """Every guest of ours on this host, running or not."""
        raise NotImplementedError

    def spawn(self, guest: GuestSpec, progress: Progress) -> None:
        """Build the guest and start it; returns once it runs."""
        raise NotImplementedError

    def destroy(self, instance_uuid: str) -> None:
        """End the guest and remove its disks, logs and definitions."""
        raise NotImplementedError

    def console_log(self, instance_uuid: str, offset: int) -> bytes:
        """Bytes that the guest wrote to its serial console from `offset` on; b"" when there are none."""
        raise NotImplementedError
