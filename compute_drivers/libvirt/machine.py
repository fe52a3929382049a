"""What this machine has: processors, memory, disk."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MEMORY_INFO = Path("/proc/meminfo")
CPU_INFO = Path("/proc/cpuinfo")
GB = 1 << 30


@dataclass(frozen=True, slots=True)
class Machine:
    """Totals of the machine; the disk is the one that holds the given directory."""

    vcpus: int
    memory_mb: int
    disk_gb: int
    free_disk_gb: int
    cpu_info: Mapping[str, Any]


def look(directory: Path) -> Machine:
    """This machine as it is now."""
    disk = shutil.disk_usage(directory)
    vcpus = len(os.sched_getaffinity(0))
    return Machine(
        vcpus=vcpus,
        memory_mb=_memory_mb(MEMORY_INFO.read_text()),
        disk_gb=max(disk.total // GB, 1),
        free_disk_gb=disk.free // GB,
        cpu_info=_cpu_info(CPU_INFO.read_text(errors="replace"), vcpus),
    )


def _memory_mb(meminfo: str) -> int:
    found = re.search(r"^MemTotal:\s+(\d+) kB$", meminfo, re.MULTILINE)
    assert found, "the kernel always says how much memory there is"
    return int(found[1]) // 1024


def _cpu_info(text: str, vcpus: int) -> dict[str, Any]:
    def value(name: str) -> str:
        found = re.search(rf"^{name}\s*:\s*(.+)$", text, re.MULTILINE)
        return found[1].strip() if found else ""

    return {
        "arch": platform.machine(),
        "vendor": value("vendor_id"),
        "model": value("model name"),
        "features": sorted(value("flags").split()),
        "topology": {"cores": vcpus},
    }
