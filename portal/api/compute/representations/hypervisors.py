"""JSON of hypervisors, per microversion."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from conductor.services.hosts.hosts import Totals
from conductor.services.hosts.types import HypervisorView
from portal.api.microversions import Microversion

UUIDS_SINCE = "2.53"
SLIM_SINCE = "2.88"
Servers = list[tuple[str, str]]  # (uuid, name)


def ref(node: HypervisorView, version: Microversion) -> str | int:
    """Return the id by which a version names a hypervisor."""
    return node.uuid if version.covers(UUIDS_SINCE) else node.number


def summary(node: HypervisorView, version: Microversion, servers: Servers | None = None) -> dict[str, Any]:
    """Return a hypervisor in a list without details; `servers` None leaves them out."""
    shown: dict[str, Any] = {
        "id": ref(node, version),
        "hypervisor_hostname": node.node,
        "state": "up" if node.service.is_up else "down",
        "status": "disabled" if node.service.is_disabled else "enabled",
    }
    if servers or (servers is not None and version.covers("2.75")):
        shown["servers"] = [{"uuid": uuid, "name": name} for uuid, name in servers]
    return shown


def show(node: HypervisorView, version: Microversion, servers: Servers | None = None) -> dict[str, Any]:
    """Return a hypervisor with all of its details. From 2.88 on only placement shows amounts of resources."""
    shown = summary(node, version, servers) | {
        "hypervisor_type": node.hypervisor_type,
        "hypervisor_version": node.hypervisor_version,
        "host_ip": node.host_ip,
        "service": _service(node, version),
    }
    return shown | ({"uptime": uptime(node)} if version.covers(SLIM_SINCE) else _amounts(node, version))


def uptime(node: HypervisorView) -> str | None:
    """Return the host's time of day and uptime, in the format of `uptime`; None where the host does not report it."""
    if node.booted_at is None or not node.service.is_up:
        return None
    now = datetime.now(UTC)
    minutes = max(0, int(now.timestamp()) - node.booted_at) // 60
    days, rest = divmod(minutes, 24 * 60)
    long = {0: "", 1: "1 day, "}.get(days, f"{days} days, ")
    return f"{now:%H:%M:%S} up {long}{rest // 60}:{rest % 60:02}"


def statistics(totals: Totals) -> dict[str, Any]:
    """Sums over all hypervisors."""
    return {
        "count": totals.count,
        "current_workload": 0,
        "disk_available_least": totals.disk_available_least_gb,
        "free_disk_gb": totals.disk_gb - totals.disk_gb_used,
        "free_ram_mb": totals.memory_mb - totals.memory_mb_used,
        "local_gb": totals.disk_gb,
        "local_gb_used": totals.disk_gb_used,
        "memory_mb": totals.memory_mb,
        "memory_mb_used": totals.memory_mb_used,
        "running_vms": totals.running_guests,
        "vcpus": totals.vcpus,
        "vcpus_used": totals.vcpus_used,
    }


def _service(node: HypervisorView, version: Microversion) -> dict[str, Any]:
    service = node.service
    service_id: str | int = service.uuid if version.covers(UUIDS_SINCE) else service.number
    return {"id": service_id, "host": service.host, "disabled_reason": service.disabled_reason}


def _amounts(node: HypervisorView, version: Microversion) -> dict[str, Any]:
    cpu_info = dict(node.cpu_info)
    return {
        "cpu_info": cpu_info if version.covers("2.28") else json.dumps(cpu_info),
        "current_workload": 0,
        "disk_available_least": node.disk_available_least_gb,
        "free_disk_gb": node.disk_gb - node.disk_gb_used,
        "free_ram_mb": node.memory_mb - node.memory_mb_used,
        "local_gb": node.disk_gb,
        "local_gb_used": node.disk_gb_used,
        "memory_mb": node.memory_mb,
        "memory_mb_used": node.memory_mb_used,
        "running_vms": node.running_guests,
        "vcpus": node.vcpus,
        "vcpus_used": node.vcpus_used,
    }
