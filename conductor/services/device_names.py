"""Names of a server's disks: /dev/vda is the root disk, the others follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from string import ascii_lowercase

from conductor.core.errors import Conflict

ROOT = "/dev/vda"
MOST_DEVICES = 26  # disks that a guest of any driver can name, its root disk among them


def free(taken: Sequence[str], wanted: str = "") -> str:
    """The name asked for, or the next free one after the root disk's. Raises Conflict for one in use."""
    used = {"a", *(_letters(name) for name in taken)}
    if wanted:
        if _letters(wanted) in used:
            raise Conflict(f"The supplied device path ({wanted}) is in use.")
        return wanted if wanted.startswith("/dev/") else f"/dev/{wanted}"
    return next(f"/dev/vd{letters}" for letters in _names() if letters not in used)


def _names() -> Iterator[str]:
    """a, b, …, z, aa, ab, …"""
    for number in count():
        prefix = "" if number < len(ascii_lowercase) else ascii_lowercase[number // len(ascii_lowercase) - 1]
        yield prefix + ascii_lowercase[number % len(ascii_lowercase)]


def _letters(name: str) -> str:
    """What tells a disk from the others, whatever its bus: `/dev/vdb`, `/dev/sdb1` and `b` are one."""
    last = name.rpartition("/")[2].rstrip("0123456789")
    return last[2:] if len(last) > 2 and last[1] == "d" else last.removeprefix("xvd")
