"""CPU pinning: chooses free host CPUs for a guest cell's pinned CPUs, by thread policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from conductor.core.hardware.request import ISOLATE, REQUIRE, InstanceCell
from conductor.core.hardware.topology import HostCell

Cores = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class _Choice:
    """Host CPUs for the guest's, in order, and for the emulator's threads."""

    cpus: tuple[int, ...]
    reserved: frozenset[int] = frozenset()


def pin(host: HostCell, cell: InstanceCell, reserved: int) -> InstanceCell | None:
    """Return the guest's cell with its CPUs pinned, and `reserved` more for the emulator; None if it does not fit."""
    if not host.siblings:
        return None  # which of its CPUs share a core is unknown
    cores = [sorted(core & host.free_pcpus) for core in host.siblings]
    threads = max((len(core) for core in host.siblings), default=0) or 1
    if cell.thread_policy == ISOLATE:
        choice = _isolated(host, cores, threads, len(cell.pcpus), reserved)
    elif cell.thread_policy == REQUIRE:
        choice = _packed(cores, len(cell.pcpus), reserved, fewest=2) if threads > 1 else None
    else:
        choice = _preferred(cores, len(cell.pcpus), reserved)
    if choice is None:
        return None
    pins = dict(cell.pins) | dict(zip(sorted(cell.pcpus), choice.cpus, strict=False))
    return replace(cell, id=host.id, pins=tuple(sorted(pins.items())), reserved=choice.reserved)


def occupied(host: HostCell, cell: InstanceCell) -> frozenset[int]:
    """Return the host CPUs that this cell takes from other guests: isolated CPUs take their whole cores."""
    cpus = cell.host_cpus
    if cell.thread_policy != ISOLATE:
        return cpus
    return frozenset(cpu for core in host.siblings if core & cpus for cpu in core)


def _isolated(host: HostCell, cores: Cores, threads: int, wanted: int, reserved: int) -> _Choice | None:
    """Choose one thread each of wholly free cores. Where cores have threads, the host must not split its CPUs."""
    if threads > 1 and host.pcpus != host.cpus:
        return None
    cpus = _first(1, [core for core in cores if len(core) >= threads], wanted)
    if not cpus:
        return None
    others = [cpu for core in cores if not set(core) & set(cpus) for cpu in core]
    return _with_reserved(cpus, others, reserved)


def _packed(cores: Cores, wanted: int, reserved: int, *, fewest: int) -> _Choice | None:
    """Choose as many threads of each core as possible; at least `fewest`."""
    for threads in range(max(map(len, cores), default=0), fewest - 1, -1):
        cpus = _first(threads, [core for core in cores if len(core) >= threads], wanted)
        choice = None if cpus is None else _with_reserved(cpus, _rest(cores, cpus), reserved)
        if choice is not None:
            return choice
    return None


def _preferred(cores: Cores, wanted: int, reserved: int) -> _Choice | None:
    """Choose threads of the same core where possible, else any CPUs."""
    choice = _packed(cores, wanted, reserved, fewest=1)
    if choice is not None and choice.cpus:
        return choice
    if reserved and _first(1, [core for core in cores if core], wanted):
        return None  # the emulator's threads found no CPU, and find none this way either
    free = [cpu for core in cores for cpu in core]
    return _with_reserved(tuple(free[:wanted]), free[wanted:], reserved) if len(free) >= wanted else None


def _first(threads: int, cores: Cores, wanted: int) -> tuple[int, ...] | None:
    """Return the first `wanted` CPUs, taking `threads` of each core; None where there are fewer."""
    if threads * len(cores) < wanted:
        return None
    return tuple(cpu for core in cores for cpu in core[:threads])[:wanted]


def _rest(cores: Cores, cpus: Sequence[int]) -> list[int]:
    return [cpu for core in cores for cpu in core if cpu not in cpus]


def _with_reserved(cpus: tuple[int, ...], others: Sequence[int], reserved: int) -> _Choice | None:
    if not reserved:
        return _Choice(cpus)
    return _Choice(cpus, frozenset(others[:reserved])) if others and cpus else None
