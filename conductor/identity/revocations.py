"""Revokes sessions: one token, or all of a user, project or domain."""

from __future__ import annotations

from typing import Any

from conductor.identity import rights
from conductor.identity.models import Token


def revoke_where(**condition: Any) -> int:
    """Delete the tokens of a condition and notify every process. Call inside the transaction with the reason."""
    removed, _ = Token.objects.filter(**condition).delete()
    rights.changed()
    return removed
