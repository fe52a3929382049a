"""Password changes by users, with the old password and the second factor if there is one. Each change is audited."""

from __future__ import annotations

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden, Invalid, NotAuthenticated, NovellaError, TooManyRequests
from conductor.core.messages import message
from conductor.identity import delegation, passwords, second_factors, sign_in_limits, users
from conductor.identity.delegation import Power
from conductor.identity.models import User
from conductor.identity.tokens import Granted
from conductor.services.audit import operator_audit

CHANGED = "user.change_password"
CODE_METHOD = "totp"
# The same answer for all of these, so that it does not reveal which one it was.
REFUSED = (
    "The original password is wrong, or a second factor is missing: a user with an authenticator sends a token that "
    "was issued for the methods password and totp."
)
NEEDS_CODE = message("password.needs_code")


def change(
    context: RequestContext, original: str, password: str, *, code: str = "", granted: Granted | None = None
) -> User:
    """Set a new password. Sessions and tokens of the old password end. The change or its refusal is audited.

    A user with a second factor gives a `code` of it, or `granted`, a token that was issued for one.

    Raises:
        NotAuthenticated: the original password or the code is wrong.
        TooManyRequests: too many of these failed.
        Invalid: the new password is easily guessed.
        Forbidden: an administrator has locked the password, or the token is a delegated one.
    """
    try:
        if granted is not None and delegation.is_own_account(granted, context.user_id):
            delegation.require(granted, Power.ACCOUNT)
        with sign_in_limits.attempt(context.remote_address, sign_in_limits.of_user(context.user_id)):
            has_shown_code = _has_shown_code(granted, context.user_id)
            users.change_own_password(context.user_id, original, password, code=code, has_shown_code=has_shown_code)
    except TooManyRequests:
        raise  # not audited, as so many refusals could fill the log
    except NovellaError as error:
        _keep(context, error)
        if isinstance(error, NotAuthenticated):
            raise NotAuthenticated(REFUSED) from None
        raise
    _keep(context, None)
    return users.get(context.user_id)


def require_acceptable(context: RequestContext, password: str) -> None:
    """Raise Invalid for a new password that is easily guessed, and audit it. Called before a code is used up."""
    try:
        passwords.require_acceptable(users.get(context.user_id), password)
    except Invalid as error:
        _keep(context, error)
        raise


def require_reset(granted: Granted, user_id: str) -> None:
    """Raise Forbidden where a token may not set this user's password without the old one.

    An administrator may set the password of others. For their own password they need a token that is not delegated, and
    the second factor.
    """
    if not delegation.is_own_account(granted, user_id):
        return
    delegation.require(granted, Power.ACCOUNT)
    if second_factors.is_on(user_id) and not _has_shown_code(granted, user_id):
        raise Forbidden(NEEDS_CODE)


def _has_shown_code(granted: Granted | None, user_id: str) -> bool:
    return granted is not None and granted.user.id == user_id and CODE_METHOD in granted.methods


def _keep(context: RequestContext, error: NovellaError | None) -> None:
    if User.objects.filter(id=context.user_id).exists():
        details = {"user_id": context.user_id}
        operator_audit.keep(context, CHANGED, reason="", error=error, details=details)
