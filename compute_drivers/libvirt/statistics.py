"""Converts libvirt's statistics of a guest to those of the Compute API's diagnostics."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

KB_PER_MB = 1024
# The API's name for each of libvirt's.
DISK_NAMES = {
    "read_bytes": "rd.bytes",
    "read_requests": "rd.reqs",
    "write_bytes": "wr.bytes",
    "write_requests": "wr.reqs",
}


def to_diagnostics(stats: Mapping[str, Any], cdroms: Collection[str]) -> dict[str, Any]:
    """Return `cpus`, `disks` and `memory`; whatever libvirt did not count is left out.

    Args:
        stats: One guest's record as `domainListGetStats` returns it.
        cdroms: Targets of CD-ROM drives, which are not listed as disks.
    """
    cpus = [
        {"id": number, **_renamed(stats, f"vcpu.{number}", {"time": "time"})}
        for number in range(int(stats.get("vcpu.maximum", 0)))
        if f"vcpu.{number}.state" in stats
    ]
    disks = [
        _renamed(stats, f"block.{number}", DISK_NAMES)
        for number in range(int(stats.get("block.count", 0)))
        if stats.get(f"block.{number}.name") not in cdroms
    ]
    return {"cpus": cpus, "disks": disks, "memory": _memory(stats), "hypervisor_os": "linux"}


def _memory(stats: Mapping[str, Any]) -> dict[str, int]:
    """Return maximum and used memory in MiB. A guest without a balloon driver counts as using all that it has."""
    memory = {}
    if "balloon.maximum" in stats:
        memory["maximum"] = int(stats["balloon.maximum"]) // KB_PER_MB
    if {"balloon.available", "balloon.unused"} <= set(stats):
        memory["used"] = (int(stats["balloon.available"]) - int(stats["balloon.unused"])) // KB_PER_MB
    elif "balloon.current" in stats:
        memory["used"] = int(stats["balloon.current"]) // KB_PER_MB
    return memory


def _renamed(stats: Mapping[str, Any], prefix: str, names: Mapping[str, str]) -> dict[str, int]:
    return {name: int(stats[f"{prefix}.{theirs}"]) for name, theirs in names.items() if f"{prefix}.{theirs}" in stats}
