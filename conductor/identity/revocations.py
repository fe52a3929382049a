"""Ends sessions of users, projects and domains: their tokens, and sessions of the portal."""

from __future__ import annotations

from typing import Any

from django.db.models import F

from conductor.identity import rights
from conductor.identity.models import Token, User


def revoke_where(**condition: Any) -> int:
    """Delete the tokens of a condition and notify every process. Call inside the transaction with the reason."""
    removed, _ = Token.objects.filter(**condition).delete()
    rights.changed()
    return removed


def end_portal_sessions(**condition: Any) -> None:
    """End the portal sessions of the users of a condition, also for a time when they may sign in again.

    Call inside the transaction with the reason.
    """
    User.objects.filter(**condition).update(session_epoch=F("session_epoch") + 1)
    rights.changed()
