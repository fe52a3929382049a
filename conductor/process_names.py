"""Process name in leases and decisions. It is unique for one life of one process, and never reused."""

from __future__ import annotations

import os
import socket
from uuid import uuid4


def _new_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"


def _take_new_name() -> None:
    global _name
    _name = _new_name()


# A fork has a name of its own, as two workers of one name would share a lease.
_name = _new_name()
os.register_at_fork(after_in_child=_take_new_name)


def mine() -> str:
    """Return the machine, the process and a random word of each start, so that a name is an epoch."""
    return _name
