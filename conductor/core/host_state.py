"""All hosts as columns, and one host as a row: the immutable snapshot that filters and weighers read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
Column = NDArray[np.float64]
_A = TypeVar("_A", bound=NDArray[Any])


@dataclass(frozen=True, slots=True)
class HostState:
    """One compute node as the scheduler sees it. Memory in MB, disk in GB; `used` includes claims."""

    host: str
    node: str
    cell: str
    provider_uuid: str
    availability_zone: str
    vcpus: int
    vcpus_used: int
    memory_mb: int
    memory_mb_used: int
    disk_gb: int
    disk_gb_used: int
    cpu_ratio: float = 1.0
    ram_ratio: float = 1.0
    disk_ratio: float = 1.0
    reserved_memory_mb: int = 0
    reserved_disk_gb: int = 0
    disk_available_least_gb: int | None = None
    is_up: bool = True
    is_disabled: bool = False
    disabled_reason: str = ""
    is_simulated: bool = False
    num_instances: int = 0
    num_io_ops: int = 0
    hypervisor_type: str = ""
    hypervisor_version: int = 0
    supported_instances: tuple[tuple[str, str, str], ...] = ()
    traits: frozenset[str] = frozenset()
    aggregate_metadata: Mapping[str, frozenset[str]] = field(default_factory=dict)
    capabilities: Mapping[str, Any] = field(default_factory=dict)

    @property
    def free_memory_mb(self) -> float:
        return self.memory_mb * self.ram_ratio - self.memory_mb_used - self.reserved_memory_mb

    @property
    def free_vcpus(self) -> float:
        return self.vcpus * self.cpu_ratio - self.vcpus_used

    @property
    def free_disk_gb(self) -> float:
        return self.disk_gb * self.disk_ratio - self.disk_gb_used - self.reserved_disk_gb


@dataclass(frozen=True)
class HostTable:
    """An immutable snapshot of every host of every cell.

    `states[i]` is row i; every column has shape (len(states),). `age_seconds` is how old the data were when
    the snapshot was taken. Columns are read-only arrays.
    """

    states: tuple[HostState, ...]
    names: NDArray[np.str_]
    zones: NDArray[np.str_]
    is_up: Mask
    is_disabled: Mask
    free_vcpus: Column
    free_memory_mb: Column
    free_disk_gb: Column
    num_io_ops: Column
    num_instances: Column
    age_seconds: float = 0.0

    def __len__(self) -> int:
        return len(self.states)

    @classmethod
    def from_states(cls, states: tuple[HostState, ...], *, age_seconds: float = 0.0) -> HostTable:
        def column(values: list[float]) -> Column:
            return _frozen(np.array(values, dtype=np.float64))

        return cls(
            states=states,
            names=_frozen(np.array([s.host for s in states], dtype=np.str_)),
            zones=_frozen(np.array([s.availability_zone for s in states], dtype=np.str_)),
            is_up=_frozen(np.array([s.is_up for s in states], dtype=np.bool_)),
            is_disabled=_frozen(np.array([s.is_disabled for s in states], dtype=np.bool_)),
            free_vcpus=column([s.free_vcpus for s in states]),
            free_memory_mb=column([s.free_memory_mb for s in states]),
            free_disk_gb=column([s.free_disk_gb for s in states]),
            num_io_ops=column([s.num_io_ops for s in states]),
            num_instances=column([s.num_instances for s in states]),
            age_seconds=age_seconds,
        )


def _frozen(array: _A) -> _A:
    array.setflags(write=False)
    return array
