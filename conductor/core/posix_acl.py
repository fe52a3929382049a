"""Reads and writes POSIX access control lists of files: the additional accounts that have access."""

from __future__ import annotations

import errno
import os
import stat
import struct
from dataclasses import dataclass
from pathlib import Path

ATTRIBUTE = "system.posix_acl_access"
VERSION = struct.Struct("<I")
ENTRY = struct.Struct("<HHI")  # tag, permissions, id
SECOND = 2
NO_ID = 0xFFFFFFFF
OWNER, USER, GROUP_OF_FILE, GROUP, MASK, OTHER = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
# Entries that the mask bounds.
BOUNDED = (USER, GROUP_OF_FILE, GROUP)
READ, WRITE, SEARCH = 4, 2, 1
Entries = dict[tuple[int, int], int]


@dataclass(frozen=True)
class AclPrincipal:
    """A user or a group that an entry of a list names."""

    tag: int
    number: int


def user(uid: int) -> AclPrincipal:
    return AclPrincipal(USER, uid)


def group(gid: int) -> AclPrincipal:
    return AclPrincipal(GROUP, gid)


def named(path: Path) -> dict[AclPrincipal, int]:
    """Return the users and groups that the list names, with their effective permissions. Raises OSError."""
    return {AclPrincipal(tag, number): may for (tag, number), may in _effective(path).items() if tag in (USER, GROUP)}


def permit(path: Path, party: AclPrincipal, permissions: int) -> None:
    """Grant a user or group exactly these permissions; other entries keep theirs. Raises OSError."""
    entries = _effective(path)
    if entries.get((party.tag, party.number)) != permissions:
        _write(path, {**entries, (party.tag, party.number): permissions})


def forget(path: Path, party: AclPrincipal) -> None:
    """Remove the entry of a user or group, if there is one. Raises OSError."""
    entries = _effective(path)
    if entries.pop((party.tag, party.number), None) is not None:
        _write(path, entries)


def others_may(path: Path, permissions: int) -> bool:
    """Whether every account has these permissions. Raises OSError."""
    return path.stat().st_mode & permissions == permissions


def group_of_file(path: Path) -> int:
    """Return the permissions of the group that the file belongs to. Raises OSError."""
    return _effective(path)[GROUP_OF_FILE, NO_ID]


def _effective(path: Path) -> Entries:
    """Return the effective entries: the mask is applied and removed."""
    try:
        reported = os.getxattr(path, ATTRIBUTE)
    except OSError as error:
        if error.errno not in (errno.ENODATA, errno.ENOTSUP):
            raise
        mode = stat.S_IMODE(path.stat().st_mode)
        shares = ((OWNER, mode >> 6), (GROUP_OF_FILE, mode >> 3), (OTHER, mode))
        return {(tag, NO_ID): share & 7 for tag, share in shares}
    entries = {(tag, number): may for tag, may, number in ENTRY.iter_unpack(reported[VERSION.size :])}
    mask = entries.pop((MASK, NO_ID), 7)
    return {key: may & mask if key[0] in BOUNDED else may for key, may in entries.items()}


def _write(path: Path, entries: Entries) -> None:
    mask = 0
    for (tag, _), may in entries.items():
        mask |= may if tag in BOUNDED else 0
    whole = sorted({**entries, (MASK, NO_ID): mask}.items())
    reported = VERSION.pack(SECOND) + b"".join(ENTRY.pack(tag, may, number) for (tag, number), may in whole)
    os.setxattr(path, ATTRIBUTE, reported)
