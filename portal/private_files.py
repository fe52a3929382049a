"""Keeps the data folder to the account that Novella runs as: the umask of every process, and a check at its start."""

from __future__ import annotations

import logging
import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from portal.environment import Environment, InvalidEnvironment

PRIVATE_UMASK = 0o077
# The group may pass through a folder, as the accounts of guests do on the way to their disks. It may not list it.
FOLDER_BITS_REFUSED = 0o067
FILE_BITS_REFUSED = 0o077
ROOT = 0

log = logging.getLogger(__name__)


def protect(environment: Environment) -> None:
    """Set the umask of this process, then check the data folder and the image folder.

    Every entry point calls this first: `manage.py`, the ASGI and the WSGI application. The folders themselves, their
    entries and the entries of these are checked; what lies deeper lies in a folder that was checked. Permissions for
    other accounts are taken away where the file is ours.

    Raises:
        InvalidEnvironment: something belongs to another account, or its permissions cannot be changed.
    """
    os.umask(PRIVATE_UMASK)
    folders = {"NOVELLA_DATA": environment.data_dir, "NOVELLA_IMAGE_DIR": environment.image_dir}
    for variable, folder in folders.items():
        repaired = [path for path in _entries(folder) if _make_private(variable, path, is_top=path == folder)]
        if repaired:
            some = ", ".join(map(str, repaired[:3])) + (", …" if len(repaired) > 3 else "")
            log.warning("other accounts could use %d files in %s; now they cannot: %s", len(repaired), folder, some)


def _entries(folder: Path, depth: int = 2) -> Iterator[Path]:
    """The folder, and what lies in it down to `depth`. A folder that is not there has nothing."""
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


def _make_private(variable: str, path: Path, *, is_top: bool) -> bool:
    """Whether permissions had to be taken away. The top folder may be a link that the operator made."""
    try:
        found = path.stat() if is_top else path.lstat()
        if found.st_uid not in (os.geteuid(), ROOT):
            raise InvalidEnvironment(
                f"{variable}: {path} belongs to {_account(found.st_uid)}, and Novella runs as "
                f"{_account(os.geteuid())}. Run it as that account, or make it yours: chown -R {os.geteuid()} {path}"
            )
        refused = FOLDER_BITS_REFUSED if stat.S_ISDIR(found.st_mode) else FILE_BITS_REFUSED
        if stat.S_ISLNK(found.st_mode) or not found.st_mode & refused:
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
