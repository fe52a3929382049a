"""Ids and addresses of requests: every response has an id, errors and pages included."""

from __future__ import annotations

from django.http import HttpRequest

from conductor.core.identifiers import new_request_id

COMPUTE_HEADER = "x-compute-request-id"


def request_id_of(request: HttpRequest) -> str:
    """Return the id of this request; generated on first use."""
    found: str | None = getattr(request, "request_id", None)
    if found is None:
        found = new_request_id()
        request.request_id = found  # type: ignore[attr-defined]
    return found


def remote_address_of(request: HttpRequest) -> str:
    """Return the client's address: the connection's, or as reported by a trusted proxy (`public_address`)."""
    return str(request.META.get("REMOTE_ADDR", ""))[:64]
