"""Which cgroups this machine has: without them nothing that a container gets is bounded."""

from __future__ import annotations

from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
NEEDED = ("cpu", "memory", "pids")
UNIFIED, SINGLE = "v2", "v1"


def version_of(mount: Path = MOUNT) -> str:
    """v2 where one tree has all controllers; v1 where each has its own, also if there is an empty v2 beside."""
    return UNIFIED if (mount / "cgroup.controllers").is_file() else SINGLE


def missing(mount: Path = MOUNT) -> list[str]:
    """The controllers that are needed and not there."""
    if version_of(mount) == UNIFIED:
        found = set((mount / "cgroup.controllers").read_text().split())
    else:
        found = {name for name in NEEDED if (mount / name / "tasks").is_file()}
    return [name for name in NEEDED if name not in found]
