"""Times in request bodies."""

from __future__ import annotations

from datetime import UTC, datetime

from conductor.core.errors import Invalid


def moment_of(text: str | None, field: str) -> datetime | None:
    """Parse a time; without a zone it is UTC. Raises Invalid for a day that does not exist."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise Invalid(f"Invalid input for field/attribute {field}. There is no such time.", field=field) from None
