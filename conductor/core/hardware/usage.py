"""Usage of a host's topology: adds and removes a fitted guest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from conductor.core.hardware.pinning import occupied
from conductor.core.hardware.request import InstanceCell, InstanceTopology
from conductor.core.hardware.topology import HostCell, HostTopology, Pages

KB_PER_MB = 1024


def with_guest(host: HostTopology, guest: InstanceTopology) -> HostTopology:
    """Return the host's topology with the fitted guest's usage added."""
    return HostTopology(tuple(_with_cells(cell, guest.cells) for cell in host.cells))


def with_guests(host: HostTopology, guests: Sequence[InstanceTopology]) -> HostTopology:
    """Return the host's topology with the usage of several fitted guests added."""
    cells = [cell for guest in guests for cell in guest.cells]
    return HostTopology(tuple(_with_cells(cell, cells) for cell in host.cells)) if cells else host


def clashes(host: HostTopology, guest: InstanceTopology) -> bool:
    """Whether the fitted guest has CPUs that the host cannot give: CPUs of another guest, or CPUs that are not for
    pinning.
    """
    by_id = {cell.id: cell for cell in host.cells}
    taken: set[int] = set()
    for cell in guest.cells:
        known = by_id.get(cell.id)
        if known is None:
            return True
        cpus = occupied(known, cell)
        if cpus - known.free_pcpus or cpus & taken:
            return True
        taken |= cpus
    return False


def _with_cells(host: HostCell, guests: Sequence[InstanceCell]) -> HostCell:
    for cell in guests:
        if cell.id == host.id:
            host = replace(
                host,
                memory_mb_used=host.memory_mb_used + cell.memory_mb,
                cpus_used=host.cpus_used + len(cell.cpus),
                pages=_with_pages(host.pages, cell),
                pinned=host.pinned | occupied(host, cell) if cell.is_pinned else host.pinned,
            )
    return host


def _with_pages(pages: tuple[Pages, ...], cell: InstanceCell) -> tuple[Pages, ...]:
    """Return the pages with the guest's memory taken. A guest that asks for no size gets the smallest pages."""
    if not pages:
        return pages
    size = cell.page_size_kb or min(one.size_kb for one in pages)
    more = cell.memory_mb * KB_PER_MB // size
    return tuple(replace(one, used=one.used + more) if one.size_kb == size else one for one in pages)
