"""Ids as texts and as values."""

from __future__ import annotations

from uuid import UUID


def uuid_or_none(text: object) -> UUID | None:
    """The uuid that `text` spells with dashes, in either case; None for anything else.

    Callers look things up by what a user typed: what is no uuid names nothing, and is no fault.
    """
    if isinstance(text, UUID):
        return text
    if not isinstance(text, str) or len(text) != 36:
        return None
    try:
        return UUID(text)
    except ValueError:
        return None


LONGEST_HOST = 80  # a lock's name has room for a use beside it


def host_resource(host: str) -> str:
    """The lock of whoever wants a host for itself."""
    return f"host:{host[:LONGEST_HOST]}"


def host_use_resource(host: str, run_uuid: UUID | str) -> str:
    """The lock of one of those who use a host beside others."""
    return f"{host_resource(host)}#{run_uuid}"
