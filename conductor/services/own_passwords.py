"""A person's own password: changed by who knows the old one, and on record without either."""

from __future__ import annotations

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, NotFound, NovellaError
from conductor.identity import users
from conductor.identity.models import User
from conductor.services import operator_audit

LONGEST = 4096
CHANGED = "user.change_password"


def change(context: RequestContext, original: str, password: str) -> User:
    """The user with a new password; what has signed in with the old one, a session or a token, has ended.

    Raises NotAuthenticated where the original one is wrong, Invalid for a new one that cannot be, and Forbidden where
    an administrator has locked it. That it was done or refused is on record.
    """
    try:
        if not 1 <= len(password) <= LONGEST:
            raise Invalid(f"It must have 1 to {LONGEST} characters.", field="password")
        users.change_own_password(context.user_id, original, password)
    except NotFound:
        raise  # of nobody there is no record
    except NovellaError as error:
        _keep(context, error)
        raise
    _keep(context, None)
    return users.get(context.user_id)


def _keep(context: RequestContext, error: NovellaError | None) -> None:
    operator_audit.keep(context, CHANGED, reason="", error=error, details={"user_id": context.user_id})
