"""Role assignments, as callers with the right to do so read and change them."""

from __future__ import annotations

from functools import partial

from conductor.core.context import RequestContext
from conductor.identity import assignments, managers
from conductor.identity.assignments import AssignmentScope, given
from conductor.identity.rights import Check

__all__ = ["check_of", "given", "grant", "take_away"]


def check_of(context: RequestContext, place: AssignmentScope, role_id: str, rule: str) -> Check:
    """Return the check that the caller may grant and revoke a role there; it passes now, else it raises Forbidden.

    It is repeated in the transaction that grants or revokes the role.
    """
    check = partial(managers.require_grant, context, place, role_id, rule)
    check()
    return check


def grant(context: RequestContext, role_id: str, **where: str | bool) -> None:
    """Assign a role; idempotent. `where` are fields of an `AssignmentScope`.

    Raises NotFound, Forbidden, and Invalid for a role of another domain.
    """
    place = AssignmentScope(**where)  # type: ignore[arg-type]
    assignments.grant(place, role_id, check=_check(context, place, role_id, "identity:create_grant"))


def take_away(context: RequestContext, role_id: str, **where: str | bool) -> None:
    """Remove an assignment. Raises NotFound, Forbidden."""
    place = AssignmentScope(**where)  # type: ignore[arg-type]
    assignments.take_away(place, role_id, check=_check(context, place, role_id, "identity:revoke_grant"))


def _check(context: RequestContext, place: AssignmentScope, role_id: str, rule: str) -> Check | None:
    if context.is_admin:
        return None
    place.require()
    return check_of(context, place, role_id, rule)
