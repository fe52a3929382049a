"""JSON of server diagnostics and topologies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conductor.core.states import PowerState
from conductor.services.consoles.diagnostics import CellOfServer, Diagnostics, Topology
from conductor.services.servers.security_groups import GroupOfServer, RuleOfGroup

# The documented names; any other state is `pending`.
STATES = {
    PowerState.RUNNING: "running",
    PowerState.PAUSED: "paused",
    PowerState.SHUTDOWN: "shutdown",
    PowerState.CRASHED: "crashed",
    PowerState.SUSPENDED: "suspended",
}
DRIVERS = frozenset({"libvirt", "xenapi", "vmwareapi", "ironic", "hyperv"})
NIC_COUNTERS = (
    "rx_octets",
    "rx_errors",
    "rx_drop",
    "rx_packets",
    "rx_rate",
    "tx_octets",
    "tx_errors",
    "tx_drop",
    "tx_packets",
    "tx_rate",
)
DISK_COUNTERS = ("read_bytes", "read_requests", "write_bytes", "write_requests", "errors_count")


def free_form(found: Diagnostics) -> dict[str, Any]:
    """Return diagnostics as before 2.48: free-form; ours adds the addresses that the guest reports."""
    cards = ((nic.get("mac_address"), nic.get("addresses")) for nic in found.figures.get("nics", ()))
    values = {mac: addresses for mac, addresses in cards if addresses}
    flavor = found.view.flavor
    return {"memory": flavor.memory_mb * 1024, "vcpus": flavor.vcpus, **({"addresses": values} if values else {})}


def fixed_form(found: Diagnostics) -> dict[str, Any]:
    """Return diagnostics as from 2.48 on: every member, null for values that are not counted."""
    view, values = found.view, found.figures
    cpus = values.get("cpus") or [{"id": cpu} for cpu in range(view.flavor.vcpus)]
    disks: list[dict[str, Any]] = values.get("disks") or [{} for _ in range(found.disks)]
    nics = {nic.get("mac_address"): nic for nic in values.get("nics", ())}
    return {
        "state": STATES.get(PowerState(view.power_state), "pending"),
        # Clients know five drivers; every other driver is shown as libvirt.
        "driver": found.hypervisor.driver if found.hypervisor.driver in DRIVERS else "libvirt",
        "hypervisor": found.hypervisor.kind or None,
        "hypervisor_os": values.get("hypervisor_os"),
        "uptime": found.uptime,
        "config_drive": view.config_drive == "True",
        "num_cpus": view.flavor.vcpus,
        "num_nics": len(view.addresses),
        "num_disks": len(disks),
        "cpu_details": [_counted(cpu, ("id", "time", "utilisation")) for cpu in cpus],
        "memory_details": _counted({"maximum": view.flavor.memory_mb, **values.get("memory", {})}, ("maximum", "used")),
        "nic_details": [
            {"mac_address": port["mac_address"], **_counted(nics.get(port["mac_address"], {}), NIC_COUNTERS)}
            for port in view.addresses
        ],
        "disk_details": [_counted(disk, DISK_COUNTERS) for disk in disks],
    }


def _counted(figures: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: figures.get(name) for name in names}


def topology(found: Topology, *, with_host: bool) -> dict[str, Any]:
    """Return the NUMA topology; only operators see the host's cells."""
    return {"nodes": [_node(cell, with_host) for cell in found.cells], "pagesize_kb": found.page_size_kb}


def _node(cell: CellOfServer, with_host: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {"memory_mb": cell.memory_mb, "vcpu_set": list(cell.cpus), "siblings": []}
    if with_host:
        shown["host_node"] = cell.host_cell
        shown["cpu_pinning"] = {str(guest): host for guest, host in sorted(cell.pinning.items())}
    return shown


def security_group(group: GroupOfServer) -> dict[str, Any]:
    """Return a security group in the format of nova-network, which shows only ingress rules."""
    return {
        "id": group.group_id,
        "name": group.name,
        "description": group.description,
        "tenant_id": group.project_id,
        "rules": [_rule(group, rule) for rule in group.rules],
    }


def _rule(group: GroupOfServer, rule: RuleOfGroup) -> dict[str, Any]:
    remote = {"name": rule.remote_group, "tenant_id": group.project_id} if rule.remote_group else {}
    return {
        "id": rule.rule_id,
        "parent_group_id": group.group_id,
        "ip_protocol": rule.protocol,
        "from_port": rule.first_port,
        "to_port": rule.last_port,
        "group": remote,
        "ip_range": {} if remote else {"cidr": rule.cidr},
    }
