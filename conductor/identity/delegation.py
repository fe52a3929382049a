"""Delegation rules: which lasting authority a token may create, show or end; one table for all callers.

A token of the user's own has every power. A delegated token (of a trust or an application credential) creates nothing
of wider scope or longer life than its own. Tokens keep their kind: a delegated token cannot be exchanged for another
one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden
from conductor.identity import tokens

if TYPE_CHECKING:
    from conductor.identity.models import AccessRule
    from conductor.identity.tokens import Granted


class TokenKind(StrEnum):
    """The way in which a token was opened, as a text for error messages."""

    OWN = "your own sign-in"
    UNRESTRICTED = "an unrestricted application credential"
    RESTRICTED = "a restricted application credential"
    TRUST = "a trust"


class Power(StrEnum):
    """Authority that a request creates, shows or ends, as a text for error messages."""

    TOKENS = "be exchanged for another token"
    TRUSTS = "manage trusts"
    APPLICATION_CREDENTIALS = "manage application credentials"
    SECRETS = "create, read or delete stored credentials and EC2 keys"
    LASTING_WORK = "create or change subscriptions, snapshot schedules or shared consoles"
    ACCOUNT = "change its own user's password or second factor"


POWERS: Mapping[TokenKind, frozenset[Power]] = {
    TokenKind.OWN: frozenset(Power),
    TokenKind.UNRESTRICTED: frozenset({Power.TRUSTS, Power.APPLICATION_CREDENTIALS, Power.SECRETS, Power.LASTING_WORK}),
    TokenKind.RESTRICTED: frozenset(),
    TokenKind.TRUST: frozenset(),
}
# These carry neither access rules nor an end, so a credential that has them cannot create them.
_CARRIES_NO_RULES = frozenset({Power.TRUSTS, Power.SECRETS, Power.LASTING_WORK})
_HAS_NO_END = frozenset({Power.SECRETS})


def kind_of(granted: Granted) -> TokenKind:
    """Return how this token was opened."""
    if granted.trust is not None:
        return TokenKind.TRUST
    credential = granted.application_credential
    if credential is None:
        return TokenKind.OWN
    return TokenKind.UNRESTRICTED if credential.is_unrestricted else TokenKind.RESTRICTED


def may_delegate(granted: Granted, power: Power) -> str | None:
    """Return why the token does not have the power. None if it has it."""
    kind = kind_of(granted)
    if power not in POWERS[kind]:
        return f"A token of {kind} cannot {power}. Use a token of your own."
    if granted.access_rules is not None and power in _CARRIES_NO_RULES:
        return f"A token of an application credential with access rules cannot {power}: they would have none."
    if _end_of(granted) is not None and power in _HAS_NO_END:
        return f"A token of an application credential that expires cannot {power}: they would not expire."
    return None


def require(granted: Granted, power: Power) -> None:
    """Raise Forbidden unless the token has the power."""
    reason = may_delegate(granted, power)
    if reason is not None:
        raise Forbidden(reason)


def require_of(context: RequestContext, power: Power) -> None:
    """Raise Forbidden unless the token of a request has the power."""
    if context.delegated_by:
        require(tokens.standing(context.user_id, context.project_id, context.delegated_by), power)


def require_maker(context: RequestContext, delegated_by: str) -> None:
    """Raise Forbidden for a delegated token that changes a row which its trust or credential has not created.

    The row would act with its creator's authority, which the token does not have.
    """
    if context.delegated_by and context.delegated_by != delegated_by:
        raise Forbidden(
            "A token of a trust or an application credential cannot change what was not created by it. "
            "Use a token of your own."
        )


def is_own_account(granted: Granted, user_id: str) -> bool:
    """Whether the token acts as this user, or by this user's trust."""
    return user_id == granted.user.id or (granted.trust is not None and user_id == granted.trust.trustor_id)


def bounded_end(granted: Granted, wanted: datetime | None) -> datetime | None:
    """Return the end of a delegation: the given one, or that of the token's credential. Raises Forbidden if later."""
    end = _end_of(granted)
    if end is not None and wanted is not None and wanted > end:
        raise Forbidden("It cannot expire later than the application credential that it is made with.")
    return wanted or end


def bounded_rules(granted: Granted, wanted: Sequence[Mapping[str, str]]) -> Sequence[Mapping[str, str]]:
    """Return the access rules of a delegation: the given ones, or else all of the token's.

    Raises Forbidden for a rule that the token does not have.
    """
    rules = granted.access_rules
    if rules is None:
        return wanted
    if any(not _is_among(rules, given) for given in wanted):
        raise Forbidden("An access rule is not one of the application credential that it is made with.")
    return wanted or [{"id": rule.id} for rule in rules]


def _is_among(rules: Sequence[AccessRule], given: Mapping[str, str]) -> bool:
    if "id" in given:
        return any(rule.id == given["id"] for rule in rules)
    named = tuple(given[name] for name in ("service", "path", "method"))
    return any((rule.service, rule.path, rule.method) == named for rule in rules)


def _end_of(granted: Granted) -> datetime | None:
    credential = granted.application_credential
    return credential.expires_at if credential is not None else None
