"""How large a request body may be, by route: the first row that fits. Image data are bounded by the image service."""

from __future__ import annotations

import re

from django.conf import settings

KIB = 1 << 10
STREAMS = re.compile(r"\A/image/v[0-9.]+/images/[^/]+/(file|stage)/?\Z")  # image data, in both directions
BOUNDS: tuple[tuple[re.Pattern[str], int], ...] = (
    (re.compile(r"\A/identity/v3/auth/"), 64 * KIB),  # asked without a token
    (re.compile(r"\A/(identity|network)/"), 512 * KIB),
    (re.compile(r"\A/compute/v2[.0-9]*/os-keypairs"), 64 * KIB),
    (re.compile(r"\A/api/"), 1024 * KIB),
    (re.compile(r"\A/sign-in"), 64 * KIB),
)


def most_bytes(path: str) -> int:
    """The largest body that this path takes."""
    usual = settings.DATA_UPLOAD_MAX_MEMORY_SIZE or 2_500_000
    return next((min(most, usual) for pattern, most in BOUNDS if pattern.match(path)), usual)
