"""The NUMA cells of this machine, as its kernel shows them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from conductor.core.errors import Invalid
from conductor.core.hardware import cpu_sets
from conductor.core.hardware.topology import HostCell, Pages

NODES = Path("/sys/devices/system/node")
CPUS = Path("/sys/devices/system/cpu")
OPTION = "libvirt.pinned_cpus"
KB_PER_MB = 1024


def cells(pinned: str = "", *, nodes: Path = NODES, cpus: Path = CPUS) -> tuple[HostCell, ...]:
    """Each with the processors that this process may use; those of `pinned` are for pinning alone.

    Raises Invalid for processors to pin that the machine does not have.
    """
    own = frozenset(os.sched_getaffinity(0))
    for_pinning = cpu_sets.parse(pinned, key=OPTION) if pinned else frozenset()
    if for_pinning - own:
        raise Invalid(f"Option {OPTION}: this machine has no processors {cpu_sets.show(for_pinning - own)}.")
    found = sorted(
        (int(match[1]), path) for path in nodes.glob("node*") if (match := re.fullmatch(r"node(\d+)", path.name))
    )
    return tuple(_cell(number, path, own, for_pinning, cpus) for number, path in found)


def _cell(number: int, path: Path, own: frozenset[int], pinned: frozenset[int], cpus: Path) -> HostCell:
    listed = (path / "cpulist").read_text().strip()
    here = (cpu_sets.parse(listed, key="cpulist") if listed else frozenset()) & own
    memory_kb = _memory_kb((path / "meminfo").read_text())
    huge = _huge_pages(path / "hugepages")
    small_kb = os.sysconf("SC_PAGE_SIZE") // 1024
    left_kb = max(memory_kb - sum(pages.total_kb for pages in huge), 0)
    return HostCell(
        id=number,
        cpus=here - pinned,
        pcpus=here & pinned,
        memory_mb=memory_kb // KB_PER_MB,
        siblings=tuple(sorted({_siblings(cpus, cpu) & own for cpu in here}, key=sorted)),
        pages=(Pages(small_kb, left_kb // small_kb), *huge),
        socket=_socket(cpus, min(here)) if here else None,
    )


def _memory_kb(text: str) -> int:
    found = re.search(r"MemTotal:\s+(\d+) kB", text)
    return int(found[1]) if found else 0


def _huge_pages(folder: Path) -> tuple[Pages, ...]:
    """Only sizes of which the machine has any."""
    pages = []
    for path in folder.glob("hugepages-*kB"):
        total = int((path / "nr_hugepages").read_text())
        if total:
            pages.append(Pages(int(path.name.removeprefix("hugepages-").removesuffix("kB")), total))
    return tuple(sorted(pages, key=lambda one: one.size_kb))


def _siblings(cpus: Path, cpu: int) -> frozenset[int]:
    path = cpus / f"cpu{cpu}" / "topology" / "thread_siblings_list"
    return cpu_sets.parse(path.read_text().strip(), key=path.name) if path.exists() else frozenset({cpu})


def _socket(cpus: Path, cpu: int) -> int | None:
    path = cpus / f"cpu{cpu}" / "topology" / "physical_package_id"
    return int(path.read_text()) if path.exists() else None
