"""A build that exceeds a machine's free resources is refused in advance, with need and have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compute_drivers import free_room
from conductor.core.errors import DriverError
from conductor.core.request_spec import ImageSpec

MEMORY = "MemTotal:  9999999 kB\nMemAvailable:  204800 kB\nSwapCached:  5 kB\nSwapFree:  102400 kB\n"
IMAGE = ImageSpec(image_id="i", size=1 << 20)


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    path = tmp_path / "meminfo"
    path.write_text(MEMORY)
    return path


def test_memory_counts_what_is_available_and_free_swap(tmp_path: Path, memory: Path) -> None:
    free_room.require(IMAGE, tmp_path, 300, memory_info=memory)
    with pytest.raises(DriverError, match="300 MiB of free memory now; the server needs 301"):
        free_room.require(IMAGE, tmp_path, 301, memory_info=memory)


def test_an_image_larger_than_the_free_disk_is_refused_unless_it_is_there(tmp_path: Path, memory: Path) -> None:
    huge = replace(IMAGE, size=1 << 60)
    with pytest.raises(DriverError, match="of free disk now; the image needs 1099511627776"):
        free_room.require(huge, tmp_path, 300, memory_info=memory)
    (tmp_path / "i").touch()
    free_room.require(huge, tmp_path, 300, memory_info=memory)
