"""Request specification: the input of scheduling, as plain values that convert to JSON and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from conductor.core.hardware.request import InstanceTopology, PciRequest
from conductor.core.placement.query import UNBOUND, Bounds

DERIVED = ("numa", "pci_requests")


@dataclass(frozen=True, slots=True)
class FlavorSpec:
    """A flavor. Disk sizes in GB, memory in MB, swap in MB."""

    flavor_id: str
    name: str
    vcpus: int
    memory_mb: int
    root_gb: int = 0
    ephemeral_gb: int = 0
    swap_mb: int = 0
    extra_specs: Mapping[str, str] = field(default_factory=dict)

    def resources(self) -> dict[str, int]:
        """Return amounts by placement resource class; classes with nothing requested are left out."""
        disk_gb = self.root_gb + self.ephemeral_gb + -(-self.swap_mb // 1024)
        wanted = {"VCPU": self.vcpus, "MEMORY_MB": self.memory_mb, "DISK_GB": disk_gb}
        return {name: amount for name, amount in wanted.items() if amount}


@dataclass(frozen=True, slots=True)
class ImageSpec:
    """The image as scheduler and driver see it. `properties` are the image's own (`hw_architecture`, …)."""

    image_id: str = ""
    name: str = ""
    disk_format: str = ""
    container_format: str = ""
    size: int = 0
    checksum: str = ""
    min_disk_gb: int = 0
    min_ram_mb: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A server group with the current hosts of its members: host name by instance uuid, "" while a member has none."""

    group_uuid: str
    policy: str
    rules: Mapping[str, int] = field(default_factory=dict)
    member_hosts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MoveSpec:
    """Constraints of an instance that moves. It stays in its cell, on hosts that can take over such a guest.

    Attributes:
        capability: The driver capability that the destination needs.
        migration_uuid: The consumer that holds the instance's current allocations during the move.
        gives_back: The part of the allocations at `source_provider_uuid`. It counts as free where the instance may stay
            on its host.
        gives_back_by_provider: All of the allocations, where several providers of the host gave a part.
    """

    cell: str
    migration_uuid: str
    hypervisor_type: str = ""
    capability: str = ""
    source_provider_uuid: str = ""
    gives_back: Mapping[str, int] = field(default_factory=dict)
    gives_back_by_provider: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """One request for `num_instances` equal instances.

    Attributes:
        scheduler_hints: A list of texts by hint.
        availability_zone: "" for any.
        instance_hosts: The host of each instance that a hint names.
        requested_host: The one host that may take the instances, if it passes every filter.
        requested_node, requested_cell: Further restrictions.
        force_hosts, force_nodes: Hosts or nodes that are taken without running the filters.
        is_volume_backed: The root disk takes no room on the host.
        is_rebuild: The instance stays on its host, and only filters that run on rebuild are used.
        allows_cross_cell_move: The requested cell is only preferred.
        instance_uuid: The instance that is placed, where it is known. Its current usage does not block it.
    """

    project_id: str
    user_id: str
    flavor: FlavorSpec
    image: ImageSpec = field(default_factory=ImageSpec)
    num_instances: int = 1
    availability_zone: str = ""
    scheduler_hints: Mapping[str, list[str]] = field(default_factory=dict)
    group: GroupSpec | None = None
    instance_hosts: Mapping[str, str] = field(default_factory=dict)
    ignore_hosts: tuple[str, ...] = ()
    force_hosts: tuple[str, ...] = ()
    requested_host: str = ""
    move: MoveSpec | None = None
    force_nodes: tuple[str, ...] = ()
    requested_node: str = ""
    requested_cell: str = ""
    is_volume_backed: bool = False
    is_rebuild: bool = False
    allows_cross_cell_move: bool = False
    instance_uuid: str = ""
    numa: InstanceTopology | None = None  # derived, like `pci_requests`, from flavor and image; not kept
    pci_requests: tuple[PciRequest, ...] = ()
    is_canary: bool = False  # the request tries a host that is closed to other servers; only with `force_hosts`
    bounds: Bounds = UNBOUND  # added by pre-filters

    @property
    def names_hosts(self) -> bool:
        """Whether the request names hosts or nodes that may, or must not, take it."""
        named = (self.force_hosts, self.force_nodes, self.ignore_hosts, self.requested_host, self.requested_node)
        return any(named)

    def to_json(self) -> dict[str, Any]:
        values = {name: value for name, value in asdict(self).items() if name not in (*DERIVED, "bounds")}
        if not self.is_canary:  # conductors of an older release do not know the field
            del values["is_canary"]
        return values | ({"bounds": self.bounds.to_json()} if self.bounds != UNBOUND else {})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RequestSpec:
        values = dict(data)
        values["flavor"] = FlavorSpec(**values["flavor"])
        values["image"] = ImageSpec(**values["image"])
        if values.get("group"):
            values["group"] = GroupSpec(**values["group"])
        if values.get("move"):
            values["move"] = MoveSpec(**values["move"])
        values["bounds"] = Bounds.from_json(values.get("bounds") or {})
        for name in ("ignore_hosts", "force_hosts", "force_nodes"):
            values[name] = tuple(values.get(name, ()))
        return cls(**values)
