"""The form of user, project and role ids."""

from __future__ import annotations

import uuid


def new_id() -> str:
    """Return a new id of a user, project or role: 32 hexadecimal digits."""
    return uuid.uuid4().hex
