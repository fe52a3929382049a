"""Second factors of portal users."""

from __future__ import annotations

from typing import Any

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden
from conductor.core.messages import message
from conductor.core.phrases import phrase
from conductor.identity import second_factors, users
from conductor.identity.models import User
from conductor.identity.second_factors import (
    Enrolment,
    codes_left,
    confirm,
    is_on,
    prove,
    renew_codes,
    turn_off,
)

__all__ = [
    "Enrolment",
    "codes_left",
    "confirm",
    "describe",
    "enrolment",
    "is_on",
    "owner",
    "prove",
    "renew_codes",
    "reset",
    "turn_off",
]


def enrolment(user_id: str, *, is_new: bool = False) -> Enrolment:
    """Return the key to set up, until it is confirmed. Raises Conflict once it is."""
    return second_factors.enrolment(User.objects.get(id=user_id), is_new=is_new)


def owner(user_id: str) -> User:
    """Return the user as stored now. Raises NotFound."""
    return users.get(user_id)


def describe(context: RequestContext, user_id: str) -> dict[str, Any]:
    """Describe a user's second factor, for administrators. Raises NotFound, Forbidden."""
    _require_operator(context)
    users.get(user_id)
    return {"is_on": is_on(user_id), "recovery_codes": codes_left(user_id)}


def reset(context: RequestContext, user_id: str) -> None:
    """Remove another user's lost second factor. Raises NotFound, Forbidden, Conflict where there is none."""
    _require_operator(context)
    if user_id == context.user_id:
        raise Forbidden(message("second_factor.own"))
    users.get(user_id)
    second_factors.reset(user_id)


def _require_operator(context: RequestContext) -> None:
    if not context.is_admin:
        raise Forbidden(phrase("Only administrators can manage two-factor authentication of other users."))
