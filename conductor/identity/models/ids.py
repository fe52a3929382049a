"""The form of user, project and role ids."""

from __future__ import annotations

import uuid


def new_id() -> str:
    """32 hex digits: the form of user, project and role ids."""
    return uuid.uuid4().hex
