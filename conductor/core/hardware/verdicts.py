"""Cached hardware verdicts: equal hosts are judged once for equal requests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from conductor.core.hardware import devices
from conductor.core.hardware.fit import FEW_CELLS, UNTOLD, FitRequest, fit
from conductor.core.hardware.request import InstanceTopology, PciRequest
from conductor.core.hardware.topology import HostTopology, PciPool
from conductor.core.verdict import PASS, Verdict, reject, unreadable

KEPT = 1 << 16
Pools = tuple[PciPool, ...]


@lru_cache(maxsize=KEPT)
def has_fit(host: HostTopology, pools: Pools, request: FitRequest) -> bool:
    return fit(host, pools, request).topology is not None


@lru_cache(maxsize=KEPT)
def has_devices(pools: Pools, requests: tuple[PciRequest, ...]) -> bool:
    return devices.take_all(pools, requests) is not None


def explain_fit(host: HostTopology | None, pools: Pools, request: FitRequest) -> Verdict:
    """Judge whether the guest's cells fit, with what is needed and what the host has where they do not."""
    if not host:
        return reject("host reports no NUMA cells", need=_need(request.topology), have="none")
    found = fit(host, pools, request)
    if found.topology is not None:
        return PASS
    if UNTOLD in found.reasons:
        return unreadable(UNTOLD, need=_need(request.topology))
    reason = FEW_CELLS if FEW_CELLS in found.reasons else found.reasons.most_common(1)[0][0]
    return reject(reason, need=_need(request.topology), have="; ".join(_have(host)))


def explain_devices(pools: Pools, requests: Sequence[PciRequest]) -> Verdict:
    """Judge whether the host has the devices, whatever their NUMA cell."""
    if has_devices(pools, tuple(requests)):
        return PASS
    need = ", ".join(f"{request.count} of {request.alias or 'the devices'}" for request in requests)
    have = ", ".join(f"{devices.matching_count(pools, request)} of {request.alias}" for request in requests)
    return reject("host has too few free PCI devices of the kind asked for", need=need, have=f"{have} free")


def _need(guest: InstanceTopology) -> str:
    cells = []
    for cell in guest.cells:
        cpus = [f"{len(cell.pcpus)} pinned CPUs"] if cell.pcpus else []
        cpus += [f"{len(cell.cpus)} CPUs"] if cell.cpus else []
        cells.append(" and ".join([*cpus, f"{cell.memory_mb} MB"]))
    return "; ".join(cells)


def _have(host: HostTopology) -> list[str]:
    return [
        f"cell {cell.id}: {len(cell.free_pcpus)} of {len(cell.pcpus)} CPUs for pinning free,"
        f" {cell.cpus_used} used of {len(cell.cpus)} shared, {cell.free_memory_mb} of {cell.memory_mb} MB free"
        for cell in host.cells
    ]
