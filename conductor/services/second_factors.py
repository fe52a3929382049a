"""Second factors of the people of the portal."""

from __future__ import annotations

from conductor.identity import second_factors
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

__all__ = ["Enrolment", "codes_left", "confirm", "enrolment", "is_on", "prove", "renew_codes", "turn_off"]


def enrolment(user_id: str, *, is_new: bool = False) -> Enrolment:
    """The key to set up, until it is confirmed. Raises Conflict once it is."""
    return second_factors.enrolment(User.objects.get(id=user_id), is_new=is_new)
