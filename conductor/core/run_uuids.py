"""Names of workflows that rise with time: rows of those under way lie side by side in every index that names them.

A random name puts each new row on a page of its own, and every page that a transaction touches is written to the log.
"""

from __future__ import annotations

import secrets
import threading
import time
from uuid import UUID

NANOSECONDS_OF_A_TICK = 250_000
_NUMBER_BITS = 96  # below the ticks, of which 32 bits are kept: twelve days
_VERSION = 8 << 76  # RFC 9562, section 5.8: bits of the maker's own choice
_VARIANT = 2 << 62

_last = 0
_lock = threading.Lock()


def new_run_uuid() -> UUID:
    """A uuid whose first eight digits, which people read and type, no other of this process has within twelve days."""
    global _last
    with _lock:
        _last = tick = max(_last + 1, time.time_ns() // NANOSECONDS_OF_A_TICK)
    number = (tick & 0xFFFF_FFFF) << _NUMBER_BITS | secrets.randbits(_NUMBER_BITS)
    return UUID(int=number & ~(0xF << 76) & ~(3 << 62) | _VERSION | _VARIANT)
