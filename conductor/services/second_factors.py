"""Second factors of the people of the portal."""

from __future__ import annotations

from typing import Any

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden
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
    "enrolment",
    "is_on",
    "prove",
    "renew_codes",
    "reset",
    "told",
    "turn_off",
]


def enrolment(user_id: str, *, is_new: bool = False) -> Enrolment:
    """The key to set up, until it is confirmed. Raises Conflict once it is."""
    return second_factors.enrolment(User.objects.get(id=user_id), is_new=is_new)


def told(context: RequestContext, user_id: str) -> dict[str, Any]:
    """Whether somebody has one, for administrators. Raises NotFound, Forbidden."""
    _require_operator(context)
    users.get(user_id)
    return {"is_on": is_on(user_id), "recovery_codes": codes_left(user_id)}


def reset(context: RequestContext, user_id: str) -> None:
    """Give up a lost one of another user. Raises NotFound, Forbidden, Conflict where there is none."""
    _require_operator(context)
    if user_id == context.user_id:
        raise Forbidden("Turn your own second factor off in your profile, with a code of it.")
    users.get(user_id)
    second_factors.reset(user_id)


def _require_operator(context: RequestContext) -> None:
    if not context.is_admin:
        raise Forbidden("Second factors of others are for administrators.")
