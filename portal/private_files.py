"""Restricts the data folder to Novella's account: sets the umask, and checks permissions at the start."""

from __future__ import annotations

import logging
import os
import pwd
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from conductor.core import guest_uids, posix_acl
from portal.environment import Environment, InvalidEnvironment

PRIVATE_UMASK = 0o077
# The group may pass through a folder, as guests' accounts do on the way to their disks. It may not list it.
FOLDER_BITS_REFUSED = 0o067
FILE_BITS_REFUSED = 0o077
ROOT = 0

log = logging.getLogger(__name__)


def protect(environment: Environment) -> None:
    """Set the umask of this process, then check the data folder and the image folder.

    Every entry point calls this first: `manage.py`, the ASGI and the WSGI application. It checks the folders, their
    entries and the entries of these; deeper files are inside a checked folder. It removes permissions for other
    accounts from files that we own.

    Raises:

            InvalidEnvironment: a file belongs to another account, or its permissions cannot be changed.
    """
    os.umask(PRIVATE_UMASK)
    folders = {"NOVELLA_DATA": environment.data_dir, "NOVELLA_IMAGE_DIR": environment.image_dir}
    for variable, folder in folders.items():
        bases = _guests_let_in(folder)
        repaired = [path for path in _entries(folder) if _make_private(variable, path, bases, is_top=path == folder)]
        if repaired:
            some = ", ".join(map(str, repaired[:3])) + (", …" if len(repaired) > 3 else "")
            log.warning("other accounts could use %d files in %s; now they cannot: %s", len(repaired), folder, some)


def _entries(folder: Path, depth: int = 2) -> Iterator[Path]:
    """Yield the folder and its contents down to `depth`. Nothing for a missing folder."""
    if not folder.exists():
        return
    yield folder
    if depth == 0 or not folder.is_dir():
        return
    with suppress(FileNotFoundError):
        for entry in list(os.scandir(folder)):
            path = Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                yield from _entries(path, depth - 1)
            else:
                yield path


def _guests_let_in(folder: Path) -> list[int]:
    """Return the groups of guests that may pass through the folder; the uids of the guests follow each of them."""
    try:
        return [party.number for party in posix_acl.named(folder) if party.tag == posix_acl.GROUP]
    except OSError:  # the folder does not exist
        return []


def _is_volume_of_guest(path: Path, found: os.stat_result, bases: Collection[int]) -> bool:
    """Whether the access control list of a file gives access only to guests: a volume that is attached now."""
    if not bases or found.st_mode & stat.S_IRWXO or not stat.S_ISREG(found.st_mode) or posix_acl.group_of_file(path):
        return False
    parties = posix_acl.named(path)
    return all(
        party.tag == posix_acl.USER and any(base < party.number <= base + guest_uids.COUNT for base in bases)
        for party in parties
    )


def _make_private(variable: str, path: Path, bases: Collection[int], *, is_top: bool) -> bool:
    """Remove permissions of other accounts; returns whether there were any.

    The top folder may be an operator's symlink.
    """
    try:
        found = path.stat() if is_top else path.lstat()
        if found.st_uid not in (os.geteuid(), ROOT):
            raise InvalidEnvironment(
                f"{variable}: {path} belongs to {_account(found.st_uid)}, and Novella runs as "
                f"{_account(os.geteuid())}. Run it as that account, or make it yours: chown -R {os.geteuid()} {path}"
            )
        refused = FOLDER_BITS_REFUSED if stat.S_ISDIR(found.st_mode) else FILE_BITS_REFUSED
        if stat.S_ISLNK(found.st_mode) or not found.st_mode & refused or _is_volume_of_guest(path, found, bases):
            return False
        path.chmod(stat.S_IMODE(found.st_mode) & ~PRIVATE_UMASK & 0o777)
    except FileNotFoundError:  # another process removed it meanwhile
        return False
    except PermissionError:
        raise InvalidEnvironment(
            f"{variable}: other accounts can use {path}, and {_account(os.geteuid())} cannot change that. "
            f"Take their permissions away: chmod -R go= {path}"
        ) from None
    return True


def _account(uid: int) -> str:
    with suppress(KeyError):
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    return f"uid {uid}"
