"""Free memory and disk of this machine now, for the check before a build."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from conductor.core.errors import DriverError
from conductor.core.request_spec import ImageSpec

MEMORY_INFO = Path("/proc/meminfo")
FREE = ("MemAvailable", "SwapFree")
KB_PER_MB = 1024
MIB = 1 << 20


def require(image: ImageSpec, folder: Path, memory_mb: int, *, memory_info: Path = MEMORY_INFO) -> None:
    """Raise DriverError where so much memory, or the image in the folder of images, has no room now."""
    free_mb = free_memory_mb(memory_info.read_text())
    if memory_mb > free_mb:
        raise DriverError(f"The host has {free_mb} MiB of free memory now; the server needs {memory_mb}.")
    disk_mb, image_mb = shutil.disk_usage(folder).free // MIB, image.size // MIB
    if image_mb > disk_mb and not (folder / image.image_id).is_file():
        raise DriverError(f"The host has {disk_mb} MiB of free disk now; the image needs {image_mb}.")


def free_memory_mb(memory_info: str) -> int:
    """Return what guests can get without pushing others out, swap included, of the text of /proc/meminfo."""
    amounts = dict(re.findall(r"^(\w+):\s+(\d+) kB$", memory_info, re.MULTILINE))
    return sum(int(amounts.get(name, 0)) for name in FREE) // KB_PER_MB
