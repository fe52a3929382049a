"""Parts that many answers share: links, times, hashed host names."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from rest_framework.request import Request

from conductor.core.errors import Invalid
from portal.api.links import absolute

ROOT = "/compute"
VERSION_ROOT = "/compute/v2.1"
LARGEST = 2**31 - 1


def self_link(request: Request, *path: str) -> dict[str, str]:
    """`…/v2.1/servers/<id>`"""
    return {"rel": "self", "href": absolute(request, "/".join((VERSION_ROOT, *path)))}


def bookmark(request: Request, *path: str) -> dict[str, str]:
    """Return a link without a version: `…/servers/<id>`"""
    return {"rel": "bookmark", "href": absolute(request, "/".join((ROOT, *path)))}


def links(request: Request, *path: str) -> list[dict[str, str]]:
    """Return both links of a resource."""
    return [self_link(request, *path), bookmark(request, *path)]


def to_the_second(time: datetime) -> str:
    """`2026-01-31T12:00:00Z`"""
    return time.astimezone(UTC).isoformat(timespec="seconds")[:19] + "Z"


def to_the_digit(time: datetime | None) -> str | None:
    """`2026-01-31T12:00:00.000000`, without a zone."""
    return time.astimezone(UTC).isoformat(timespec="microseconds")[:26] if time else None


@lru_cache(maxsize=4096)
def host_id(project_id: str, host: str) -> str:
    """Return a hash of project and host: it distinguishes the hosts of a project's servers without revealing them."""
    return hashlib.sha224((project_id + host).encode()).hexdigest() if host else ""


def number(value: Any, field: str) -> int:
    """Parse a number that may have been sent as text. Raises Invalid for one too large for a column."""
    if int(value) > LARGEST:
        raise Invalid(f"Invalid input for field/attribute {field}. It must be at most {LARGEST}.", field=field)
    return int(value)
