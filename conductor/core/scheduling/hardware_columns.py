"""NUMA cells of all hosts as columns, to check the fit of a guest on every host at once.

The columns apply to guests whose cells are alike and fully determined, as most are. For other guests the hosts are
checked one by one. The results are the same: `conductor.core.hardware.fit` is the reference, and a test compares both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from math import perm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conductor.core.hardware import devices
from conductor.core.hardware.fit import KB_PER_MB, MOST_TRIES
from conductor.core.hardware.request import DEDICATED, ISOLATE, REQUIRE, InstanceCell, InstanceTopology, PciRequest
from conductor.core.hardware.topology import HostCell, HostTopology
from conductor.core.host_state import HostState, HostTable, Mask

Ints = NDArray[np.int64]
MOST_THREADS = 8
MOST_CELLS = 60
FEATURES = (
    "cpus",
    "pcpus",
    "free",
    "cpus_used",
    "memory_mb",
    "memory_mb_used",
    "smallest_kb",
    "total_kb",
    "free_kb",
    "threads",
    "is_whole",
    *(f"cores_{number}" for number in range(1, MOST_THREADS + 1)),
)
INDEX = {name: number for number, name in enumerate(FEATURES)}


@dataclass(frozen=True)
class CellColumns:
    """One row per cell of a host: `rows` is the host's row, `places` the cell's position in its host."""

    rows: Ints
    places: Ints
    features: Ints
    pages: Mapping[int, Ints]  # by size: free KiB, -1 where a cell has no such pages
    cpu_ratio: NDArray[np.float64]  # by host
    ram_ratio: NDArray[np.float64]
    is_odd: Mask  # hosts with cores of more threads than the columns cover

    @classmethod
    def of(cls, states: Sequence[HostState]) -> CellColumns:
        cells = [
            (row, place, cell)
            for row, state in enumerate(states)
            if state.topology
            for place, cell in enumerate(state.topology.cells)
        ]
        sizes = {pages.size_kb for _, _, cell in cells for pages in cell.pages}
        odd = {row for row, _, cell in cells if any(len(core) > MOST_THREADS for core in cell.siblings)}
        return cls(
            np.array([row for row, _, _ in cells], np.int64),
            np.array([place for _, place, _ in cells], np.int64),
            np.array([_features(cell) for _, _, cell in cells], np.int64).reshape(len(cells), len(FEATURES)).T.copy(),
            {size: np.array([_free_kb(cell, size) for _, _, cell in cells], np.int64) for size in sizes},
            np.array([state.cpu_ratio for state in states], np.float64),
            np.array([state.ram_ratio for state in states], np.float64),
            np.array([row in odd for row in range(len(states))], np.bool_),
        )

    def with_rows(self, changes: Mapping[int, HostState]) -> CellColumns:
        """Return the columns with the cells of some hosts replaced."""
        rows = sorted(changes)
        fresh = CellColumns.of([changes[row] for row in rows])
        keep = ~np.isin(self.rows, rows)
        count = int(keep.sum())
        pages = {
            size: np.concatenate(
                [_of_size(self.pages, size, len(keep))[keep], _of_size(fresh.pages, size, len(fresh.rows))]
            )
            for size in self.pages.keys() | fresh.pages.keys()
        }
        by_host = {name: getattr(self, name).copy() for name in ("cpu_ratio", "ram_ratio", "is_odd")}
        for name, column in by_host.items():
            column[rows] = getattr(fresh, name)
        moved = np.array(rows, np.int64)[fresh.rows] if len(fresh.rows) else fresh.rows
        return replace(
            self,
            rows=np.concatenate([self.rows[keep], moved]),
            places=np.concatenate([self.places[keep], fresh.places]),
            features=np.concatenate([self.features[:, keep].reshape(len(FEATURES), count), fresh.features], axis=1),
            pages=pages,
            **by_host,
        )

    def among(self, hosts: Mask) -> CellColumns:
        """Return only the cells of these hosts."""
        if hosts.all():
            return self
        kept = np.flatnonzero(hosts[self.rows])
        return replace(
            self,
            rows=self.rows[kept],
            places=self.places[kept],
            features=self.features[:, kept],
            pages={size: free[kept] for size, free in self.pages.items()},
        )

    def __getitem__(self, name: str) -> Ints:
        column: Ints = self.features[INDEX[name]]
        return column


def is_plain(guest: InstanceTopology) -> bool:
    """Whether the columns apply to the guest: it has one cell, or several that are alike."""
    first = guest.cells[0]
    if (first.page_size_kb or 0) < 0:
        return False
    return len(guest.cells) == 1 or (len(set(map(_demand, guest.cells))) == 1 and not guest.isolates_emulator)


def fitting(
    hosts: HostTable, guest: InstanceTopology, requests: tuple[PciRequest, ...], among: Mask
) -> tuple[Mask, Mask]:
    """Return two masks over all hosts: where a plain guest fits, among these hosts, and where the columns do not
    decide.
    """
    columns = hosts.kept("cells", CellColumns.of).among(among)
    cell, reserved = guest.cells[0], int(guest.isolates_emulator)
    fits = _memory(columns, cell) & _cpus(columns, cell, reserved)
    if cell.is_pinned:
        fits &= _pins(columns, cell, reserved)
    count = np.bincount(columns.rows[fits], minlength=len(hosts))
    enough, odd = count >= len(guest.cells), columns.is_odd
    if cell.is_pinned and not columns["threads"].all():  # the order of cells matters where thread siblings are unknown
        odd = odd | (np.bincount(columns.rows[columns["threads"] == 0], minlength=len(hosts)) > 0)
    if requests:
        many = np.bincount(columns.rows, minlength=len(hosts))
        odd = odd | np.isin(many, [one for one in np.unique(many).tolist() if _is_much(one, len(guest.cells))])
        enough &= ~odd
        enough[enough] = _near(hosts, columns, fits, np.flatnonzero(enough), (requests, len(guest.cells)))
    return enough, odd


def _is_much(cells: int, wanted: int) -> bool:
    """Whether a host has more cells than the columns have bits, or more ways to choose cells than are tried."""
    return cells > MOST_CELLS or perm(cells, wanted) > MOST_TRIES


def roomy(hosts: HostTable, guest: InstanceTopology, among: Mask) -> Mask:
    """Return the hosts that have, or may have, enough cells for a guest's cells. Other hosts cannot hold the guest."""
    columns = hosts.kept("cells", CellColumns.of).among(among)
    mask = columns.is_odd | (np.bincount(columns.rows, minlength=len(hosts)) >= len(guest.cells))
    demands = [_demand(cell) for cell in guest.cells]
    for demand, cell in dict(zip(demands, guest.cells, strict=True)).items():
        fits = _cpus(columns, cell, 0)
        if (cell.page_size_kb or 0) >= 0:  # else the host chooses the size
            fits &= _memory(columns, cell)
        if cell.is_pinned:
            fits &= _pins(columns, cell, 0)
        mask &= columns.is_odd | (np.bincount(columns.rows[fits], minlength=len(hosts)) >= demands.count(demand))
    return mask & among


def _memory(columns: CellColumns, cell: InstanceCell) -> Mask:
    wanted = cell.memory_mb * KB_PER_MB
    if cell.page_size_kb:
        found: Mask = _of_size(columns.pages, cell.page_size_kb, len(columns.rows)) >= wanted
        return found if not wanted % cell.page_size_kb else np.zeros(len(found), np.bool_)
    smallest = columns["smallest_kb"]
    free = columns["memory_mb"] - (columns["memory_mb_used"] if cell.is_pinned else 0)
    paged = (columns["free_kb" if cell.is_pinned else "total_kb"] >= wanted) & (wanted % np.maximum(smallest, 1) == 0)
    return np.where(smallest > 0, paged, free >= cell.memory_mb)


def _cpus(columns: CellColumns, cell: InstanceCell, reserved: int) -> Mask:
    fits = np.ones(len(columns.rows), np.bool_)
    if cell.is_pinned:
        needed = len(cell.pcpus) + reserved
        fits = (columns["pcpus"] >= needed) & (columns["free"] >= needed)
    if cell.cpu_policy != DEDICATED:
        shared, ratios = len(cell.cpus), columns.cpu_ratio[columns.rows]
        fits &= (columns["cpus"] >= shared) & (columns["cpus_used"] + shared <= columns["cpus"] * ratios)
        most = columns["memory_mb"] * columns.ram_ratio[columns.rows]
        fits &= columns["memory_mb_used"] + cell.memory_mb <= most
    return fits


def _pins(columns: CellColumns, cell: InstanceCell, reserved: int) -> Mask:
    """Return whether cores have the free threads that the policy requires: `cores_k` have at least k."""
    wanted = len(cell.pcpus)
    cores = columns.features[INDEX["cores_1"] :]
    total, threads = cores.sum(axis=0), columns["threads"]
    can: Mask = (threads > 0) & bool(wanted or cell.cpus)
    if cell.thread_policy == ISOLATE:
        whole = np.take_along_axis(cores, np.clip(threads, 1, MOST_THREADS)[None] - 1, axis=0)[0]
        can &= ((threads == 1) | (columns["is_whole"] > 0)) & (whole >= max(wanted, 1)) & (wanted > 0)
        can &= total - wanted * threads >= reserved
        return can
    if reserved and not wanted:
        return np.zeros(len(threads), np.bool_)
    if cell.thread_policy == REQUIRE:
        numbers = np.arange(2, MOST_THREADS + 1)[:, None]
        can &= (threads > 1) & ((cores[1:] * numbers >= wanted) & (cores[1:] > 0)).any(axis=0)
    can &= total - wanted >= reserved
    return can


def _near(
    hosts: HostTable, columns: CellColumns, fits: Mask, rows: Ints, wanted: tuple[tuple[PciRequest, ...], int]
) -> Mask:
    """Return, for each of these hosts, whether its devices are near enough to enough of the fitting cells.

    Hosts with the same arrangement of devices and the same fitting cells are judged once.
    """
    factor = hosts.factor("devices_by_cell", _devices_by_cell)
    bits = np.zeros(len(hosts), np.int64)
    np.bitwise_or.at(bits, columns.rows[fits], 1 << columns.places[fits])
    alike, which = np.unique(np.stack((factor.codes[rows].astype(np.int64), bits[rows])), axis=1, return_inverse=True)
    answers = [_are_near(factor.values[code], places, *wanted) for code, places in alike.T.tolist()]
    found: Mask = np.array(answers, np.bool_)[which.reshape(-1)]
    return found


def _are_near(host: Any, places: int, requests: tuple[PciRequest, ...], count: int) -> bool:
    pools, sockets = host
    topology = HostTopology(tuple(HostCell(number, frozenset(), socket=socket) for number, socket in sockets))
    cells = [number for place, (number, _) in enumerate(sockets) if places >> place & 1]
    return any(devices.take_all(pools, requests, near, topology) is not None for near in permutations(cells, count))


def _devices_by_cell(state: HostState) -> Any:
    cells = state.topology.cells if state.topology else ()
    return state.pci_pools, tuple((cell.id, cell.socket) for cell in cells)


def _demand(cell: InstanceCell) -> tuple[object, ...]:
    return len(cell.cpus), len(cell.pcpus), cell.memory_mb, cell.page_size_kb, cell.cpu_policy, cell.thread_policy


def _features(cell: HostCell) -> list[int]:
    free = cell.free_pcpus
    by_core = [len(core & free) for core in cell.siblings]
    smallest = min(cell.pages, key=lambda pages: pages.size_kb, default=None)
    smallest = cell.pages_of(smallest.size_kb) if smallest else None
    return [
        len(cell.cpus),
        len(cell.pcpus),
        len(free),
        cell.cpus_used,
        cell.memory_mb,
        cell.memory_mb_used,
        smallest.size_kb if smallest else 0,
        smallest.total_kb if smallest else 0,
        smallest.free_kb if smallest else 0,
        (max(map(len, cell.siblings)) or 1) if cell.siblings else 0,
        int(cell.pcpus == cell.cpus),
        *(sum(count >= number for count in by_core) for number in range(1, MOST_THREADS + 1)),
    ]


def _free_kb(cell: HostCell, size: int) -> int:
    pages = cell.pages_of(size)
    return -1 if pages is None else max(pages.free_kb, -1)


def _of_size(pages: Mapping[int, Ints], size: int, count: int) -> Ints:
    found = pages.get(size)
    return np.full(count, -1, np.int64) if found is None else found
