"""Resources that several test workers or runs share are created by one of them while the others wait."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def locked(path: Path) -> Iterator[IO[str]]:
    """Hold the lock on the file at `path`, which is made; it may be locked in another way inside."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
