"""Host snapshots for filters and weighers: all hosts as columns, and one host as a row; immutable."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from conductor.core import extremes, sums
from conductor.core.extremes import Extremes
from conductor.core.factor import Column as Column
from conductor.core.factor import Factor as Factor
from conductor.core.factor import Mask as Mask
from conductor.core.factor import read_only as read_only
from conductor.core.frozen import FrozenDict, frozen
from conductor.core.hardware.topology import HostTopology, PciPool
from conductor.core.placement.amounts import Amount
from conductor.core.placement.forest import ProviderNode
from conductor.core.sums import Terms

_K = TypeVar("_K", bound="KeptAttributes")
_NOTHING: FrozenDict = FrozenDict()


@dataclass(frozen=True, slots=True)
class HostState:
    """One compute node as the scheduler sees it. Memory in MB, disk in GB. `used` includes claims.

    Attributes:
        amounts: The resource classes besides vCPUs, memory and disk.
        image_properties: The number of instances on the host, by a property of their image and its value.
        metrics: The metrics that the host last reported, by name.
    """

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
    is_cell_closed: bool = False
    cell_closed_reason: str = ""
    is_simulated: bool = False
    num_instances: int = 0
    num_io_ops: int = 0
    hypervisor_type: str = ""
    hypervisor_version: int = 0
    supported_instances: tuple[tuple[str, str, str], ...] = ()
    traits: frozenset[str] = frozenset()
    aggregate_metadata: Mapping[str, frozenset[str]] = field(default_factory=lambda: _NOTHING)
    capabilities: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    reserved_vcpus: int = 0
    units: tuple[tuple[str, int, int, int], ...] = ()  # resource class, minimum, maximum, step
    amounts: Mapping[str, Amount] = field(default_factory=lambda: _NOTHING)
    aggregates: frozenset[str] = frozenset()  # uuids
    host_ip: str = ""
    failed_builds: int = 0
    metrics: Mapping[str, float] = field(default_factory=lambda: _NOTHING)
    image_properties: Mapping[tuple[str, str], int] = field(default_factory=lambda: _NOTHING)
    topology: HostTopology | None = None
    pci_pools: tuple[PciPool, ...] = ()
    # Its providers and those that share with it, where there are several: the sizes above are then their sums.
    tree: tuple[ProviderNode, ...] = ()
    # How much larger its newest instances are than their claims: weighers go by the actual sizes.
    drift_vcpus: int = 0
    drift_memory_mb: int = 0
    drift_disk_gb: int = 0

    def __post_init__(self) -> None:
        for name in _MAPPINGS:  # read-only: a plugin that writes into one would change every later decision
            value = getattr(self, name)
            if type(value) is not FrozenDict:
                object.__setattr__(self, name, frozen(value))

    @property
    def free_memory_mb(self) -> float:
        return (self.memory_mb - self.reserved_memory_mb) * self.ram_ratio - self.memory_mb_used

    @property
    def free_vcpus(self) -> float:
        return (self.vcpus - self.reserved_vcpus) * self.cpu_ratio - self.vcpus_used

    @property
    def free_disk_gb(self) -> float:
        return (self.disk_gb - self.reserved_disk_gb) * self.disk_ratio - self.disk_gb_used

    @property
    def unused_memory_mb(self) -> float:
        """Unused physical memory, regardless of overcommit; negative where the host is overcommitted."""
        return self.memory_mb - self.reserved_memory_mb - self.memory_mb_used - self.drift_memory_mb

    @property
    def unused_disk_gb(self) -> float:
        """Unused physical disk, or what the hypervisor reports as left if that is less."""
        unused = self.disk_gb - self.reserved_disk_gb - self.disk_gb_used - self.drift_disk_gb
        return unused if self.disk_available_least_gb is None else min(unused, self.disk_available_least_gb)


_MAPPINGS = ("aggregate_metadata", "capabilities", "amounts", "metrics", "image_properties")


class KeptAttributes(Protocol):
    """A value computed from all hosts that can be updated cheaply when some hosts change."""

    def with_rows(self: _K, changes: Mapping[int, HostState]) -> _K: ...


# Columns that change when a host takes an instance, and their value for one host.
CLAIMED_COLUMNS: Mapping[str, Callable[[HostState], float]] = {
    "free_vcpus": lambda state: state.free_vcpus,
    "unused_vcpus": lambda state: state.free_vcpus - state.drift_vcpus,
    "free_memory_mb": lambda state: state.free_memory_mb,
    "free_disk_gb": lambda state: state.free_disk_gb,
    "unused_memory_mb": lambda state: state.unused_memory_mb,
    "unused_disk_mb": lambda state: state.unused_disk_gb * 1024,
    "num_io_ops": lambda state: state.num_io_ops,
    "num_instances": lambda state: state.num_instances,
}


# Columns that hardly ever change; flags, except for the zones.
OTHER_COLUMNS: Mapping[str, Callable[[HostState], Any]] = {
    "zones": lambda state: state.availability_zone,
    "is_up": lambda state: state.is_up,
    "is_disabled": lambda state: state.is_disabled,
    "is_cell_closed": lambda state: state.is_cell_closed,
}


@dataclass(frozen=True)
class HostTable:
    """An immutable snapshot of every host of every cell.

    `states[i]` is row i; every column has shape (len(states),). `free_*` is what placement still allocates, `unused_*`
    what is physically unused. `age_seconds` is how old the data were when the snapshot was taken. Columns are
    read-only arrays.
    """

    states: Sequence[HostState]
    names: NDArray[np.str_]
    zones: NDArray[np.str_]
    is_up: Mask
    is_disabled: Mask
    is_cell_closed: Mask
    free_vcpus: Column
    unused_vcpus: Column
    free_memory_mb: Column
    free_disk_gb: Column
    unused_memory_mb: Column
    unused_disk_mb: Column
    num_io_ops: Column
    num_instances: Column
    age_seconds: float = 0.0
    claimed_rows: Set[int] = frozenset()  # hosts that took an instance after `factor` computed its columns
    # The identity of this table, None where its rows may change, and the tables that it came from, each with the rows
    # in which
    # the next one differs: results computed for one of them are out of date in these rows only.
    identity: object | None = field(default_factory=object, repr=False, compare=False)
    descent: tuple[tuple[object, frozenset[int]], ...] = field(default=(), repr=False, compare=False)
    _kept: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.states)

    @classmethod
    def from_states(cls, states: Sequence[HostState], *, age_seconds: float = 0.0) -> HostTable:
        count = len(states)
        claimed: dict[str, Any] = {
            name: read_only(np.fromiter(map(of, states), np.float64, count)) for name, of in CLAIMED_COLUMNS.items()
        }
        return cls(
            states=tuple(states),
            names=read_only(np.array([s.host for s in states], dtype=np.str_)),
            zones=read_only(np.array([s.availability_zone for s in states], dtype=np.str_)),
            is_up=read_only(np.fromiter((s.is_up for s in states), np.bool_, count)),
            is_disabled=read_only(np.fromiter((s.is_disabled for s in states), np.bool_, count)),
            is_cell_closed=read_only(np.fromiter((s.is_cell_closed for s in states), np.bool_, count)),
            age_seconds=age_seconds,
            **claimed,
        )

    @cached_property
    def zeros(self) -> Column:
        """A column of zeros, for weighers that do not distinguish hosts. It costs neither memory nor time."""
        zeros: Column | None = self._kept.get("zeros")
        if zeros is None:
            self._kept["zeros"] = zeros = np.broadcast_to(read_only(np.zeros(1)), len(self))
        return zeros

    @cached_property
    def everyone(self) -> Mask:
        """A mask of all hosts, for filters without a condition. The engine recognizes the object and counts nothing."""
        everyone: Mask | None = self._kept.get("everyone")
        if everyone is None:
            self._kept["everyone"] = everyone = read_only(np.ones(len(self), np.bool_))
        return everyone

    @cached_property
    def has_closed_cells(self) -> bool:
        """Whether any host is in a cell that is closed to new servers."""
        return bool(self.is_cell_closed.any())

    def factor(self, name: str, of: Callable[[HostState], Hashable] | None = None) -> Factor:
        """Return a factorized column: attribute `name`, or `of(state)`. It is computed once per table.

        Use it only for values that a claim does not change, as the column outlives the claims of one request.
        """
        kept: dict[Any, Factor] = self._kept.setdefault("factors", {})
        # The key includes the function: a plugin that uses another plugin's column name gets its own column.
        key = name if of is None else (name, _maker(of))
        made = kept.get(key)
        if made is None:
            made = Factor.of_states(self.states, of or operator.attrgetter(name))
            while len(kept) >= FACTORS_KEPT:
                kept.pop(next(iter(kept)), None)
            kept[key] = made
        return made

    def kept(self, name: str, make: Callable[[Sequence[HostState]], _K]) -> _K:
        """Return the cached result of `make` for all states. A table with changed rows updates the result by
        `with_rows`.

        Use it only for values that a claim does not change, as for `factor`.
        """
        made: dict[str, _K] = self._kept.setdefault("made", {})
        if name not in made:
            made[name] = make(self.states)
        return made[name]

    def ends_of(self, column: Column, passing: Mask) -> tuple[float, float] | None:
        """Return the smallest and largest value of a claimed column among the passing rows. None if they are not
        cached.
        """
        name = self.name_of(column)
        if not name:
            return None
        kept: dict[str, Extremes | None] = self._kept.setdefault("extremes", {})
        found = kept[name] if name in kept else kept.setdefault(name, Extremes.of(column))
        return found.among(passing) if found else None

    def name_of(self, column: Column) -> str:
        """Return the name of a claimed column of this table. Empty for other columns, and where the column may change
        in place.
        """
        return self._named.get(id(column), "") if self.identity is not None else ""

    def sum_of(self, terms: Terms, make: Callable[[], Column]) -> Column:
        """Return the sum of these terms of claimed columns, computed by `make` where it is not cached."""
        kept: dict[Terms, Column] = self._kept.setdefault("sums", {})
        found = kept.get(terms)
        if found is None:
            while len(kept) >= SUMS_KEPT:
                kept.pop(next(iter(kept)), None)
            kept[terms] = found = read_only(make())
        return found

    @cached_property
    def _named(self) -> Mapping[int, str]:
        return {id(getattr(self, name)): name for name in CLAIMED_COLUMNS}

    def rows_of(self, hosts: Sequence[str] | set[str] | frozenset[str]) -> list[int]:
        """Return the rows of all nodes of the named hosts; unknown names are skipped."""
        index: dict[str, list[int]] | None = self._kept.get("index")
        if index is None:
            index = {}
            for row, state in enumerate(self.states):
                index.setdefault(state.host, []).append(row)
            self._kept["index"] = index
        return sorted({row for host in hosts for row in index.get(host, ())})

    def knows(self, name: str) -> bool:
        """Whether a host or a node of this table has the name."""
        nodes: frozenset[str] | None = self._kept.get("nodes")
        if nodes is None:
            self._kept["nodes"] = nodes = frozenset(state.node for state in self.states)
        return name in nodes or bool(self.rows_of([name]))

    def mask_of(self, hosts: Sequence[str] | set[str] | frozenset[str]) -> Mask:
        """Return a mask that is true in the rows of the named hosts."""
        mask = np.zeros(len(self), np.bool_)
        if hosts:
            mask[self.rows_of(hosts)] = True
        return mask

    def rows_since(self, identity: object) -> Set[int] | None:
        """Return the rows that may differ from the table with that identity. None where that table is too old."""
        if identity is self.identity:
            return frozenset()
        rows: set[int] = set()
        for earlier, changed in reversed(self.descent):
            rows |= changed
            if earlier is identity:
                return rows
        return None

    def with_rows(self, changes: Mapping[int, HostState], *, age_seconds: float = 0.0) -> HostTable:
        """Return the table with some rows replaced by newer states of the same host and node."""
        if not changes and self.identity is not None:
            return replace(self, age_seconds=age_seconds)
        states = list(self.states)
        for row, state in changes.items():
            states[row] = state
        columns: dict[str, NDArray[Any]] = {}
        for name, of in OTHER_COLUMNS.items():
            column, found = getattr(self, name), {row: of(state) for row, state in changes.items()}
            if any(column[row] != value for row, value in found.items()):
                width = np.array(list(found.values())).dtype  # a new zone name may be longer than all before
                columns[name] = column.astype(np.promote_types(column.dtype, width))
                for row, value in found.items():
                    columns[name][row] = value
        for name, number in CLAIMED_COLUMNS.items():
            columns[name] = getattr(self, name).copy()
            for row, state in changes.items():
                columns[name][row] = number(state)
        kept = dict(self._kept)
        factors = {name: made.with_rows(changes) for name, made in list(kept.get("factors", {}).items())}
        # Values that no row has any more pile up; a factor with more values than rows is computed again on demand.
        kept["factors"] = {name: made for name, made in factors.items() if len(made.values) <= len(states)}
        kept["made"] = {name: made.with_rows(changes) for name, made in list(kept.get("made", {}).items())}
        frozen_columns: dict[str, Any] = {name: read_only(column) for name, column in columns.items()}
        for name, made_again in (("extremes", extremes.carried), ("sums", sums.carried)):
            kept[name] = made_again(dict(kept.get(name, {})), changes.keys(), frozen_columns)
        return replace(
            self,
            states=tuple(states),
            age_seconds=age_seconds,
            identity=object(),
            descent=(*self.descent[1 - DESCENT_KEPT :], (self.identity, frozenset(changes))) if self.identity else (),
            _kept=kept,
            **frozen_columns,
        )


def _maker(of: Callable[..., Any]) -> Hashable:
    """Return a key that is equal for two functions created separately from the same code with the same arguments."""
    if not isinstance(of, partial):
        return getattr(of, "__code__", of)
    made: Hashable = (_maker(of.func), of.args, frozenset(of.keywords.items()))
    return made


FACTORS_KEPT = 64
SUMS_KEPT = 4
DESCENT_KEPT = 32
