"""Normalizes UUIDs in requests to the form in which they are stored."""

from __future__ import annotations

from uuid import UUID

from conductor.core.errors import Invalid, NotFound


def uuid_of(text: str | None) -> str | None:
    """Return a uuid in its stored form."""
    return None if text is None else str(UUID(text))


def uuid_in(text: str, field: str) -> str:
    """Return the uuid in a request. Raises Invalid for a malformed one."""
    try:
        return str(UUID(text))
    except ValueError:
        raise Invalid(f"Malformed {field}: {text[:60]} is no uuid.", field=field) from None


def provider_uuid(text: str) -> str:
    """Return a provider's uuid in its stored form. Raises NotFound for a malformed one."""
    try:
        return str(UUID(text))
    except ValueError:
        raise NotFound(f"No resource provider with uuid {text[:60]} found.") from None
