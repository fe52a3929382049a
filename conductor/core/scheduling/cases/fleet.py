"""Converts the hosts of a case to host states."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from conductor.core import image_properties, metrics
from conductor.core.hardware.topology import HostCell, HostTopology, Pages, PciPool
from conductor.core.host_state import HostState
from conductor.core.placement.amounts import MOST, Amount
from conductor.core.request_spec import GroupSpec
from conductor.core.scheduling.group_rules import STAYING
from conductor.core.scheduling.prefilters import ZONE_KEY, AggregateFacts

DEFAULT_ZONE = "nova"
DISABLED = "COMPUTE_STATUS_DISABLED"
EVERY_HOSTS_TRAITS = frozenset({"OWNER_NOVA", "COMPUTE_NODE"})
# Resource class → its key in a case, its field in a host's state, the field of the ratio and the ratio's default.
STANDARD = {
    "VCPU": ("vcpus", "vcpus", "cpu_ratio", 4.0),
    "MEMORY_MB": ("ram_mb", "memory_mb", "ram_ratio", 1.0),
    "DISK_GB": ("disk_gb", "disk_gb", "disk_ratio", 1.0),
}


@dataclass(frozen=True, slots=True)
class Fleet:
    """Hosts in the order of the file, aggregates, groups by name, and the host of each resident instance."""

    states: tuple[HostState, ...]
    aggregates: tuple[AggregateFacts, ...] = ()
    groups: Mapping[str, GroupSpec] = field(default_factory=dict)
    instance_hosts: Mapping[str, str] = field(default_factory=dict)


def fleet_of(case: Mapping[str, Any]) -> Fleet:
    aggregates = {one["name"]: _aggregate(one) for one in case.get("aggregates", ())}
    hosts = [{key: value for key, value in host.items() if value is not None} for host in case["hosts"]]
    residents = {_uuid(one): host["name"] for host in reversed(hosts) for one in host.get("instances", ())}
    return Fleet(
        states=tuple(_state(host, [aggregates[name] for name in host.get("aggregates", ())]) for host in hosts),
        aggregates=tuple(aggregates.values()),
        groups={one["name"]: _group(one, residents) for one in case.get("groups", ())},
        instance_hosts=residents,
    )


def uuid_of(*parts: str) -> str:
    """Return a uuid made from a name, for objects without one."""
    return str(uuid5(NAMESPACE_DNS, ".".join(parts)))


def _aggregate(data: Mapping[str, Any]) -> AggregateFacts:
    metadata = {str(key): str(value) for key, value in (data.get("metadata") or {}).items()}
    if data.get("az"):
        metadata[ZONE_KEY] = data["az"]
    return AggregateFacts(uuid_of("aggregate", data["name"]), metadata)


def _group(data: Mapping[str, Any], residents: Mapping[str, str]) -> GroupSpec:
    rules = {key: int(value) for key, value in (data.get("rules") or {}).items() if value is not None}
    members = {STAYING + uuid: residents.get(uuid, "") for uuid in data.get("members") or ()}
    return GroupSpec(uuid_of("group", data["name"]), data["policy"], rules, members)


def _state(host: Mapping[str, Any], aggregates: Sequence[AggregateFacts]) -> HostState:
    metadata = _metadata(aggregates)
    instances = host.get("instances", ())
    values = {
        **_room(host),
        **_status(host),
        "host": host["name"],
        "node": host.get("node", host["name"]),
        "cell": host.get("cell", "cell1"),
        "provider_uuid": host.get("uuid") or uuid_of("host", host["name"]),
        "host_ip": host.get("ip", "192.0.2.1"),
        "availability_zone": min(metadata.get(ZONE_KEY, ()), default=DEFAULT_ZONE),
        "aggregate_metadata": metadata,
        "aggregates": frozenset(one.uuid for one in aggregates),
        "num_instances": host.get("num_instances", len(instances)),
        "num_io_ops": host.get("io_ops", 0),
        "failed_builds": host.get("failed_builds", 0),
        "hypervisor_type": host.get("hypervisor_type", "QEMU"),
        "hypervisor_version": host.get("hypervisor_version", 8002000),
        "supported_instances": tuple((arch, kind, mode) for arch, kind, mode in host.get("supported_instances", ())),
        "capabilities": _capabilities(host),
        "metrics": metrics.kept(host.get("metrics", {})),
        "image_properties": _image_properties(instances),
        "topology": _topology(host.get("numa")),
        "pci_pools": tuple(_pool(pool) for pool in host.get("pci", ())),
    }
    return HostState(**values)


def _room(host: Mapping[str, Any]) -> dict[str, Any]:
    resources = {name: _amount(values) for name, values in host.get("resources", {}).items()}
    found: dict[str, Any] = {
        "disk_available_least_gb": host.get("disk_available_least"),
        "units": _units(resources),
        "amounts": {name: amount for name, amount in resources.items() if name not in STANDARD},
    }
    for name, (size, field_name, ratio_name, ratio) in STANDARD.items():
        found |= {
            field_name: host[size],
            f"{field_name}_used": host.get(f"{size}_used", 0),
            f"reserved_{field_name}": resources[name].reserved if name in resources else 0,
            ratio_name: float(host.get(f"{size}_ratio", ratio)),
        }
    return found


def _status(host: Mapping[str, Any]) -> dict[str, Any]:
    status = host.get("status", "up")
    own = {DISABLED} if status == "disabled" else set()
    return {
        "is_up": status not in ("down", "forced_down"),
        "is_disabled": status == "disabled",
        "traits": EVERY_HOSTS_TRAITS | set(host.get("traits", ())) | own,
    }


def _uuid(instance: Any) -> str:
    return str(instance if isinstance(instance, str) else instance["uuid"])


def _metadata(aggregates: Sequence[AggregateFacts]) -> dict[str, frozenset[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for one in aggregates:
        for key, value in one.metadata.items():
            found[key].add(value)
    return {key: frozenset(values) for key, values in found.items()}


def _amount(values: Mapping[str, Any]) -> Amount:
    given = {key: value for key, value in values.items() if value is not None}
    return Amount(
        total=given["total"],
        used=given.get("used", 0),
        reserved=given.get("reserved", 0),
        allocation_ratio=float(given.get("ratio", 1.0)),
        min_unit=given.get("min_unit", 1),
        max_unit=given.get("max_unit", MOST),
        step_size=given.get("step_size", 1),
    )


def _units(resources: Mapping[str, Amount]) -> tuple[tuple[str, int, int, int], ...]:
    rules = ((name, one.min_unit, one.max_unit, one.step_size) for name, one in resources.items())
    return tuple(sorted(rule for rule in rules if rule[1:] != (1, MOST, 1)))


def _capabilities(host: Mapping[str, Any]) -> dict[str, Any]:
    """Return the host's capabilities, with its CPU info as text, as the filters of these cases read it."""
    stats = {str(key): value for key, value in host.get("stats", {}).items()}
    reported = host.get("cpu_info", "")
    return {**stats, "cpu_info": reported if isinstance(reported, str) else json.dumps(reported)}


def _image_properties(instances: Sequence[Any]) -> dict[tuple[str, str], int]:
    found: Counter[tuple[str, str]] = Counter()
    for one in instances:
        if not isinstance(one, str):
            found.update(image_properties.counted(one.get("image_properties") or {}))
    return dict(found)


def _topology(cells: Sequence[Mapping[str, Any]] | None) -> HostTopology | None:
    if not cells:
        return None
    return HostTopology(tuple(_cell(cell) for cell in sorted(cells, key=lambda cell: int(cell["id"]))))


def _cell(data: Mapping[str, Any]) -> HostCell:
    given = {key: value for key, value in data.items() if value is not None}
    return HostCell(
        id=given["id"],
        cpus=frozenset(given.get("cpus", ())),
        pcpus=frozenset(given.get("pcpus", ())),
        memory_mb=given.get("memory_mb", 0),
        memory_mb_used=given.get("memory_mb_used", 0),
        cpus_used=given.get("cpus_used", 0),
        pinned=frozenset(given.get("pinned", ())),
        siblings=tuple(frozenset(core) for core in given.get("siblings", ())),
        pages=tuple(Pages(page["size_kb"], page["total"], page.get("used") or 0) for page in given.get("pages", ())),
        socket=given.get("socket"),
    )


def _pool(data: Mapping[str, Any]) -> PciPool:
    tags = {str(key): str(value) for key, value in (data.get("tags") or {}).items()}
    return PciPool(data["vendor_id"], data["product_id"], data["count"], data.get("numa_node"), tags)
