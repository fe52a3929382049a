"""Diagnostics and topologies as the Compute API shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conductor.core.states import PowerState
from conductor.services.instance_security_groups import GroupOfServer, RuleOfGroup
from conductor.services.server_facts import CellOfServer, Diagnostics, Topology

# The documented words; a state that has none is `pending`.
STATES = {
    PowerState.RUNNING: "running",
    PowerState.PAUSED: "paused",
    PowerState.SHUTDOWN: "shutdown",
    PowerState.CRASHED: "crashed",
    PowerState.SUSPENDED: "suspended",
}
DRIVERS = frozenset({"libvirt", "xenapi", "vmwareapi", "ironic", "hyperv"})
NIC_COUNTERS = (
    *("rx_octets", "rx_errors", "rx_drop", "rx_packets", "rx_rate"),
    *("tx_octets", "tx_errors", "tx_drop", "tx_packets", "tx_rate"),
)
DISK_COUNTERS = ("read_bytes", "read_requests", "write_bytes", "write_requests", "errors_count")


def free_form(found: Diagnostics) -> dict[str, Any]:
    """Before 2.48 each kind of hypervisor had words of its own; ours adds the addresses that the guest says it has."""
    cards = ((nic.get("mac_address"), nic.get("addresses")) for nic in found.figures.get("nics", ()))
    told = {mac: addresses for mac, addresses in cards if addresses}
    flavor = found.view.flavor
    return {"memory": flavor.memory_mb * 1024, "vcpus": flavor.vcpus, **({"addresses": told} if told else {})}


def fixed_form(found: Diagnostics) -> dict[str, Any]:
    """From 2.48: every member, null for what nobody has counted."""
    view, told = found.view, found.figures
    cpus = told.get("cpus") or [{"id": cpu} for cpu in range(view.flavor.vcpus)]
    disks: list[dict[str, Any]] = told.get("disks") or [{} for _ in range(found.disks)]
    nics = {nic.get("mac_address"): nic for nic in told.get("nics", ())}
    return {
        "state": STATES.get(PowerState(view.power_state), "pending"),
        # Clients know five drivers: what imitates one goes by the name of the first.
        "driver": found.hypervisor.driver if found.hypervisor.driver in DRIVERS else "libvirt",
        "hypervisor": found.hypervisor.kind or None,
        "hypervisor_os": told.get("hypervisor_os"),
        "uptime": found.uptime,
        "config_drive": view.config_drive == "True",
        "num_cpus": view.flavor.vcpus,
        "num_nics": len(view.addresses),
        "num_disks": len(disks),
        "cpu_details": [_counted(cpu, ("id", "time", "utilisation")) for cpu in cpus],
        "memory_details": _counted({"maximum": view.flavor.memory_mb, **told.get("memory", {})}, ("maximum", "used")),
        "nic_details": [
            {"mac_address": port["mac_address"], **_counted(nics.get(port["mac_address"], {}), NIC_COUNTERS)}
            for port in view.addresses
        ],
        "disk_details": [_counted(disk, DISK_COUNTERS) for disk in disks],
    }


def _counted(figures: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: figures.get(name) for name in names}


def topology(found: Topology, *, with_host: bool) -> dict[str, Any]:
    """Where on the host the cells are is for operators."""
    return {"nodes": [_node(cell, with_host) for cell in found.cells], "pagesize_kb": found.page_size_kb}


def _node(cell: CellOfServer, with_host: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {"memory_mb": cell.memory_mb, "vcpu_set": list(cell.cpus), "siblings": []}
    if with_host:
        shown["host_node"] = cell.host_cell
        shown["cpu_pinning"] = {str(guest): host for guest, host in sorted(cell.pinning.items())}
    return shown


def security_group(group: GroupOfServer) -> dict[str, Any]:
    """In the form that the API had before networks had a service of their own: what lets in, and no more."""
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
