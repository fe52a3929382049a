"""Writes archives in the format that Linux unpacks as its first file system."""

from __future__ import annotations

from dataclasses import dataclass

MAGIC = "070701"
TRAILER = "TRAILER!!!"
DIRECTORY, FILE, LINK, DEVICE = 0o040000, 0o100000, 0o120000, 0o020000


@dataclass(frozen=True)
class ArchiveEntry:
    """One file: `mode` with its kind, `data` its bytes or where it links to, `device` the numbers of a device."""

    name: str
    mode: int
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


def directory(name: str) -> ArchiveEntry:
    return ArchiveEntry(name, DIRECTORY | 0o755)


def file(name: str, data: bytes, permissions: int = 0o644) -> ArchiveEntry:
    return ArchiveEntry(name, FILE | permissions, data)


def link(name: str, target: str) -> ArchiveEntry:
    return ArchiveEntry(name, LINK | 0o777, target.encode())


def character_device(name: str, major: int, minor: int) -> ArchiveEntry:
    return ArchiveEntry(name, DEVICE | 0o600, device=(major, minor))


def archive(entries: list[ArchiveEntry]) -> bytes:
    """Return an archive of the entries in order, owned by root and without times. Equal entries give equal archives."""
    return b"".join(
        _record(number, entry) for number, entry in enumerate([*entries, ArchiveEntry(TRAILER, 0)], start=1)
    )


def _record(number: int, entry: ArchiveEntry) -> bytes:
    name = entry.name.encode() + b"\0"
    # inode, mode, uid, gid, links, time, size, device of the file system, device it stands for, name's length, check
    numbers = (number, entry.mode, 0, 0, 1, 0, len(entry.data), 0, 0, *entry.device, len(name), 0)
    head = MAGIC + "".join(f"{value:08X}" for value in numbers)
    return _padded(head.encode() + name) + _padded(entry.data)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
