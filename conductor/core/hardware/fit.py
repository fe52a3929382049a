"""Fits a guest's NUMA cells onto a host's cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from math import perm

from conductor.core.hardware import devices
from conductor.core.hardware.pinning import pin
from conductor.core.hardware.request import ANY, LARGE, SMALL, InstanceCell, InstanceTopology, PciRequest
from conductor.core.hardware.topology import HostCell, HostTopology, PciPool

KB_PER_MB = 1024
MOST_TRIES = 50_000  # with more ways to choose cells, one is computed by matching instead
Answer = tuple[InstanceCell, str]  # the fitted cell, and why it does not fit, or ""

FEW_CELLS = "host has too few NUMA cells"
NO_PAGES = "no NUMA cell has enough free memory pages of the size asked for"
NO_MEMORY = "no NUMA cell has enough memory"
FEW_CPUS = "no NUMA cell has enough CPUs"
FEW_FREE_CPUS = "no NUMA cell has enough free CPUs for pinning"
UNTOLD = "host does not say which of its CPUs are threads of one core"
NO_CORES = "no NUMA cell has cores that suit the thread policy"
CPUS_FULL = "no NUMA cell has room for the CPUs"
MEMORY_FULL = "no NUMA cell has room for the memory"
FAR_DEVICES = "the PCI devices are not near enough to the NUMA cells"


@dataclass(frozen=True, slots=True)
class Limits:
    """Overcommit ratios for the shared CPUs and the memory of a cell."""

    cpu_ratio: float
    ram_ratio: float


@dataclass(frozen=True, slots=True)
class FitRequest:
    """A guest, the devices that it needs, and how cells are chosen. `limits` None: overcommit is not checked.

    `is_matched`: compute one way to place all cells, instead of trying all ways in order of preference.
    """

    topology: InstanceTopology
    pci_requests: tuple[PciRequest, ...] = ()
    limits: Limits | None = None
    packs: bool = False
    is_matched: bool = False


@dataclass(frozen=True)
class Fit:
    """Result of a fit: the guest's cells on the host's; or `topology` is None and `reasons` counts the obstacles."""

    topology: InstanceTopology | None
    reasons: Counter[str] = field(default_factory=Counter)


def fit(host: HostTopology, pools: Sequence[PciPool], request: FitRequest) -> Fit:
    """Return the first way to put every guest cell on a host cell of its own, near enough to its devices.

    Where CPUs are to be pinned and the search reaches a cell whose thread siblings are unknown, nothing fits.
    """
    wanted = request.topology.cells
    if len(host.cells) < len(wanted):
        return Fit(None, Counter({FEW_CELLS: 1}))
    attempt = _Attempt(request)
    ordered = host.cells
    if len(host.cells) > len(wanted):
        ordered = tuple(_by_preference(host.cells, pools, request))
    is_tried = not request.is_matched and perm(len(ordered), len(wanted)) <= MOST_TRIES
    for cells in permutations(ordered, len(wanted)) if is_tried else matched(ordered, request):
        if not attempt.places(cells):
            if UNTOLD in attempt.reasons:
                return Fit(None, Counter({UNTOLD: 1}))
            continue
        near = tuple(cell.id for cell in cells)
        if request.pci_requests and devices.take_all(pools, request.pci_requests, near, host) is None:
            attempt.reasons[FAR_DEVICES] += 1
            continue
        return Fit(replace(request.topology, cells=tuple(attempt.cells)))
    return Fit(None, attempt.reasons or Counter({FEW_CELLS: 1}))


def matched(cells: Sequence[HostCell], request: FitRequest) -> Iterator[tuple[HostCell, ...]]:
    """Yield a host cell of its own for each guest cell, if there is such an assignment, without trying them all."""
    wanted = request.topology.cells
    fits = [
        [not fit_cell(host, cell, request.limits, _reserved(request.topology, index))[1] for host in cells]
        for index, cell in enumerate(wanted)
    ]
    holder: dict[int, int] = {}  # index of the host's cell → index of the guest's cell

    def place(index: int, tried: set[int]) -> bool:
        for host in range(len(cells)):
            if fits[index][host] and host not in tried:
                tried.add(host)
                if host not in holder or place(holder[host], tried):
                    holder[host] = index
                    return True
        return False

    if all(place(index, set()) for index in range(len(wanted))):
        of_guest = {index: cells[host] for host, index in holder.items()}
        yield tuple(of_guest[index] for index in range(len(wanted)))


class _Attempt:
    """State of a search. What one attempt settled, such as the page size, holds in the next attempts too."""

    def __init__(self, request: FitRequest) -> None:
        self.cells = list(request.topology.cells)
        self.limits = request.limits
        self.topology = request.topology
        self.reasons: Counter[str] = Counter()
        self._known: dict[tuple[int, int], bool] = {}

    def places(self, hosts: Sequence[HostCell]) -> bool:
        """Whether each cell fits on its host cell. Results of pairs are cached."""
        for index, host in enumerate(hosts):
            cell = self.cells[index]
            pair = (host.id, cell.id)
            if pair not in self._known:
                self.cells[index], why = fit_cell(host, cell, self.limits, _reserved(self.topology, index))
                self._known[pair] = not why
                if why:
                    self.reasons[why] += 1
            elif self._known[pair]:
                self.cells[index] = replace(cell, id=host.id)
            if not self._known[pair]:
                return False
        return True


def _reserved(topology: InstanceTopology, index: int) -> int:
    """Return the number of CPUs that the emulator's threads need beside this cell. Isolated ones are beside the first
    cell.
    """
    return int(topology.isolates_emulator and index == 0)


def fit_cell(host: HostCell, cell: InstanceCell, limits: Limits | None, reserved: int = 0) -> Answer:
    """Fit one guest cell on one host cell, with `reserved` more CPUs for the emulator's threads."""
    cell, why = _with_pages(host, cell) if cell.page_size_kb else (cell, _memory_gap(host, cell))
    for gap in (_cpus_gap, _pinned_gap):
        why = why or gap(host, cell, reserved)
    if why:
        return cell, why
    if cell.is_pinned and not host.siblings:
        return cell, UNTOLD
    if cell.is_pinned:
        pinned = pin(host, cell, reserved)
        cell = pinned or cell
        if pinned is None or not (cell.cpus or cell.pcpus):
            return cell, NO_CORES
    why = _limits_gap(host, cell, limits)
    return (cell, why) if why else (replace(cell, id=host.id), "")


def _with_pages(host: HostCell, cell: InstanceCell) -> Answer:
    """Choose the largest pages that the request allows, that divide the memory evenly, and of which enough are free."""
    sizes = sorted((pages.size_kb for pages in host.pages), reverse=True)
    by_kind = {SMALL: sizes[-1:], LARGE: sizes[:-1], ANY: sizes}
    for size in by_kind.get(cell.page_size_kb or 0, [cell.page_size_kb or 0]):
        if _pages_hold(host, size, cell.memory_mb, is_free=True):
            return replace(cell, page_size_kb=size), ""
    return cell, NO_PAGES


def _memory_gap(host: HostCell, cell: InstanceCell) -> str:
    """Return why the memory does not fit. Pinned guests need free memory; others may overcommit, but not alone."""
    if host.pages:
        smallest = min(pages.size_kb for pages in host.pages)
        return "" if _pages_hold(host, smallest, cell.memory_mb, is_free=cell.is_pinned) else NO_MEMORY
    have = host.free_memory_mb if cell.is_pinned else host.memory_mb
    return "" if have >= cell.memory_mb else NO_MEMORY


def _pages_hold(host: HostCell, size_kb: int, memory_mb: int, *, is_free: bool) -> bool:
    pages = host.pages_of(size_kb)
    if pages is None:
        return False
    wanted = memory_mb * KB_PER_MB
    return wanted <= (pages.free_kb if is_free else pages.total_kb) and not wanted % size_kb


def _cpus_gap(host: HostCell, cell: InstanceCell, reserved: int) -> str:
    """Return why the cell would be too small even if it were empty; "" where it is not."""
    if cell.is_pinned and len(cell.pcpus) + reserved > len(host.pcpus):
        return FEW_CPUS
    return FEW_CPUS if _is_shared(cell) and len(cell.cpus) > len(host.cpus) else ""


def _pinned_gap(host: HostCell, cell: InstanceCell, reserved: int) -> str:
    return FEW_FREE_CPUS if cell.is_pinned and len(cell.pcpus) + reserved > len(host.free_pcpus) else ""


def _limits_gap(host: HostCell, cell: InstanceCell, limits: Limits | None) -> str:
    if limits is None or not _is_shared(cell):
        return ""
    if host.cpus_used + len(cell.cpus) > len(host.cpus) * limits.cpu_ratio:
        return CPUS_FULL
    return MEMORY_FULL if host.memory_mb_used + cell.memory_mb > host.memory_mb * limits.ram_ratio else ""


def _is_shared(cell: InstanceCell) -> bool:
    return cell.cpu_policy != "dedicated"


def _by_preference(cells: Sequence[HostCell], pools: Sequence[PciPool], request: FitRequest) -> Iterator[HostCell]:
    """Sort cells in the order of preference.

    Cells with devices come first if the guest needs any, else last. Then the emptiest come first, or the fullest if
    guests are packed.
    """
    count: Counter[int | None] = Counter()
    for pool in pools:
        count[pool.numa_node] += pool.count
    toward_devices = -1 if request.pci_requests else 1
    toward_room = 1 if request.packs else -1
    first = request.topology.cells[0]
    busy: Callable[[HostCell], int] = (
        (lambda cell: toward_room * len(cell.free_pcpus))
        if first.is_pinned
        else (lambda cell: -toward_room * cell.cpus_used)
    )
    return iter(
        sorted(
            cells,
            key=lambda cell: (toward_devices * count[cell.id], busy(cell), toward_room * cell.free_memory_mb),
        )
    )
