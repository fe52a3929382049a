"""First path segments of the APIs; every other path is a page."""

from __future__ import annotations

# First path segment → service. All but the last are OpenStack-compatible; `api` is our own.
ROOTS = {
    "identity": "identity",
    "compute": "compute",
    "image": "image",
    "network": "network",
    "load-balancer": "load-balancer",
    "volume": "volume",
    "placement": "placement",
    "api": "novella",
}
# Paths without sessions, cookies and CSRF. Pages read our own API too, so it keeps the session.
COOKIELESS = frozenset({*ROOTS, "healthz", "readyz"} - {"api"})


def _first_segment(path: str) -> str:
    return path.lstrip("/").split("/", 1)[0]


def service_of(path: str) -> str | None:
    """Return the service that a path belongs to; None for pages."""
    return ROOTS.get(_first_segment(path))


def is_cookieless(path: str) -> bool:
    """Whether sessions, CSRF and messages are disabled for this path."""
    return _first_segment(path) in COOKIELESS
