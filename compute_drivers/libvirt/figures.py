"""What libvirt has counted of a guest, in the words of the Compute API."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

KB_PER_MB = 1024
# The API's name for each of libvirt's.
OF_DISK = {"read_bytes": "rd.bytes", "read_requests": "rd.reqs", "write_bytes": "wr.bytes", "write_requests": "wr.reqs"}


def figures(stats: Mapping[str, Any], discs: Collection[str]) -> dict[str, Any]:
    """`stats` as `domainListGetStats` gives them, `discs` are no disks. What was not counted is left out."""
    cpus = [
        {"id": number, **_named(stats, f"vcpu.{number}", {"time": "time"})}
        for number in range(int(stats.get("vcpu.maximum", 0)))
        if f"vcpu.{number}.state" in stats
    ]
    disks = [
        _named(stats, f"block.{number}", OF_DISK)
        for number in range(int(stats.get("block.count", 0)))
        if stats.get(f"block.{number}.name") not in discs
    ]
    return {"cpus": cpus, "disks": disks, "memory": _memory(stats), "hypervisor_os": "linux"}


def _memory(stats: Mapping[str, Any]) -> dict[str, int]:
    """In MiB. What is used is the guest's to say; one that does not say has all that it was given."""
    told = {}
    if "balloon.maximum" in stats:
        told["maximum"] = int(stats["balloon.maximum"]) // KB_PER_MB
    if {"balloon.available", "balloon.unused"} <= set(stats):
        told["used"] = (int(stats["balloon.available"]) - int(stats["balloon.unused"])) // KB_PER_MB
    elif "balloon.current" in stats:
        told["used"] = int(stats["balloon.current"]) // KB_PER_MB
    return told


def _named(stats: Mapping[str, Any], prefix: str, names: Mapping[str, str]) -> dict[str, int]:
    return {name: int(stats[f"{prefix}.{theirs}"]) for name, theirs in names.items() if f"{prefix}.{theirs}" in stats}
