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
    """A server group with the current places of its members: instance uuid → host name ("" while unplaced)."""

    group_uuid: str
    policy: str
    rules: Mapping[str, int] = field(default_factory=dict)
    member_hosts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MoveSpec:
    """Constraints of an instance that moves: it stays in its cell, on hosts that can take over such a guest.

    `capability` is what the destination's driver must be able to do. `migration_uuid` holds the instance's current
    allocations during the move. `gives_back` is the part of them at `source_provider_uuid`, which counts as free where
    the instance may stay on its host; `gives_back_by_provider` is all of them, where other providers of the host gave a
    part.
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

    `scheduler_hints` maps a hint to a list of texts. `availability_zone` is "" for any.
    `instance_hosts` has the host of each instance that a hint names. `requested_host` is the one host that
    may take it, if it passes every filter; `force_hosts` are taken without asking the filters. `requested_node` and
    `requested_cell` narrow it further, `force_nodes` is for nodes what `force_hosts` is for hosts. `is_volume_backed`:
    the root disk takes no room on the host. `is_rebuild`: the instance stays where it is, and only filters that run on
    rebuild are asked. With `allows_cross_cell_move` the requested cell is only preferred.
    `instance_uuid` is the instance that is placed, where it is known: its current usage does not block it.
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
    is_canary: bool = False  # tries a host that is closed to other servers; only with `force_hosts`
    bounds: Bounds = UNBOUND  # added by pre-filters

    @property
    def names_hosts(self) -> bool:
        """Whether hosts or nodes are named that may, or must not, take it."""
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
