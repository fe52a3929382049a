"""Which paths belong to which API: everything else is a page."""

from __future__ import annotations

# First path segment → service. All but the last speak as OpenStack's services do; `api` is our own.
ROOTS = {
    "identity": "identity",
    "compute": "compute",
    "image": "image",
    "network": "network",
    "volume": "volume",
    "placement": "placement",
    "api": "own",
}
# Paths without sessions, cookies and CSRF. Our own API is read by pages too, so it keeps the session.
COOKIELESS = frozenset({"identity", "compute", "image", "network", "volume", "placement", "healthz", "readyz"})


def _first_segment(path: str) -> str:
    return path.lstrip("/").split("/", 1)[0]


def service_of(path: str) -> str | None:
    """The service that a path belongs to; None for pages."""
    return ROOTS.get(_first_segment(path))


def is_cookieless(path: str) -> bool:
    """Whether sessions, CSRF and messages stay away from this path."""
    return _first_segment(path) in COOKIELESS
