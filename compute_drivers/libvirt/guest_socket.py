"""Opens sockets of a guest's QEMU safely: the guest's account could have put anything else under their names."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def hold(path: Path) -> int:
    """Return a descriptor of the socket at `path`. Raises OSError.

    Links are not followed, and in a folder of another account only that account's own sockets are accepted. Otherwise
    a guest could direct this process to a socket of the host.
    """
    descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        owner = path.parent.stat().st_uid
        if not stat.S_ISSOCK(found.st_mode) or owner not in (os.geteuid(), found.st_uid):
            raise PermissionError(f"{path.name} is no socket of this guest")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def address_of(descriptor: int) -> str:
    """Return an address for `connect` and `sendto` that does not depend on the path."""
    return f"/proc/self/fd/{descriptor}"


@contextmanager
def opened(path: Path) -> Iterator[str]:
    """Yield the address of a socket for one use. Raises OSError."""
    descriptor = hold(path)
    try:
        yield address_of(descriptor)
    finally:
        os.close(descriptor)
