"""Uuids as requests spell them → in the one form in which they are stored."""

from __future__ import annotations

from uuid import UUID

from conductor.core.errors import Invalid, NotFound


def uuid_of(text: str | None) -> str | None:
    """A uuid in the one form in which it is stored."""
    return None if text is None else str(UUID(text))


def uuid_in(text: str, field: str) -> str:
    """A uuid that stands somewhere in a request. Raises Invalid for what is none."""
    try:
        return str(UUID(text))
    except ValueError:
        raise Invalid(f"Malformed {field}: {text[:60]} is no uuid.", field=field) from None


def provider_uuid(text: str) -> str:
    """A provider's uuid as it is stored. Raises NotFound for what cannot be one."""
    try:
        return str(UUID(text))
    except ValueError:
        raise NotFound(f"No resource provider with uuid {text[:60]} found.") from None
