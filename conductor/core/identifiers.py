"""Ids: parsing of uuids, ids of requests and of workflow runs, names of host locks."""

from __future__ import annotations

import secrets
import threading
import time
from uuid import UUID, uuid4

REQUEST_ID_HEADER = "x-openstack-request-id"


def uuid_or_none(text: object) -> UUID | None:
    """Parse a uuid with dashes, in either case. None for any other text.

    Callers look resources up by user input. A text that is not a uuid names no resource, which is not an error.
    """
    if isinstance(text, UUID):
        return text
    if not isinstance(text, str) or len(text) != 36:
        return None
    try:
        return UUID(text)
    except ValueError:
        return None


def new_request_id() -> str:
    """Return a new request id, `req-<uuid>`. Responses and log lines have it, and it is the key of an action's
    history.
    """
    return f"req-{uuid4()}"


NANOSECONDS_OF_A_TICK = 250_000
_NUMBER_BITS = 96  # below 32 bits of ticks, which repeat after twelve days
_VERSION = 8 << 76  # RFC 9562, section 5.8: vendor-specific bits
_VARIANT = 2 << 62

_last = 0
_lock = threading.Lock()


def new_run_uuid() -> UUID:
    """Return a time-ordered uuid, so that rows of live runs are close together in every index.

    With a random uuid each new row is on a page of its own, and every page that a transaction touches is written to the
    database's log. The first eight digits are unique in this process for twelve days, as people read and type them.
    """
    global _last
    with _lock:
        _last = tick = max(_last + 1, time.time_ns() // NANOSECONDS_OF_A_TICK)
    number = (tick & 0xFFFF_FFFF) << _NUMBER_BITS | secrets.randbits(_NUMBER_BITS)
    return UUID(int=number & ~(0xF << 76) & ~(3 << 62) | _VERSION | _VARIANT)


LONGEST_HOST = 80  # a lock's name has room for a suffix


def host_resource(host: str) -> str:
    """Return the name of the lock for exclusive use of a host."""
    return f"host:{host[:LONGEST_HOST]}"


def host_use_resource(host: str, run_uuid: UUID | str) -> str:
    """Return the name of the lock of one run that shares a host with others."""
    return f"{host_resource(host)}#{run_uuid}"
