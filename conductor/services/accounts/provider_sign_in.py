"""Sign-in with an OpenID provider: maps its claims to a user and roles, and audits the sign-in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.core.phrases import phrase
from conductor.db.transactions import write_tx
from conductor.identity import provider_accounts
from conductor.identity.models import User
from conductor.identity.provider_accounts import LONGEST, ProjectRole, ProviderClaims
from conductor.services.audit import audit
from conductor.services.audit.audit import AuditEntry

ANY_VALUE = "*"
NAME_CLAIMS = ("preferred_username", "email", "name", "sub")

Rules = Sequence[tuple[str, str, str]]


def enter(claims: Mapping[str, Any], *, claim: str, rules: Rules, context: RequestContext) -> User:
    """Return the user whom these verified claims identify, with their roles updated by `rules`.

    A refusal changes nothing.

    Raises:
        Invalid: the claims have no subject.
        Conflict: their name belongs to another account.
        Forbidden: the user is disabled.
    """
    person = _person(claims)
    with write_tx(API_ALIAS):
        entry = provider_accounts.enter(person, _roles(claims.get(claim), rules))
        if entry.is_new or entry.given or entry.taken:
            audit.record(API_ALIAS, _as(context, entry.user), _on_person(person, entry))
    return entry.user


def _person(claims: Mapping[str, Any]) -> ProviderClaims:
    issuer, subject = (_text(claims.get(name)) for name in ("iss", "sub"))
    if not issuer or not subject:
        raise Invalid(phrase("The provider's answer names no user."))
    name = next(found for found in (_text(claims.get(name)) for name in NAME_CLAIMS) if found)
    return ProviderClaims(issuer, subject, name, _email(claims))


def _text(value: Any) -> str:
    """Return a claim's text that can be stored and shown. Empty for any other value."""
    reported = value.strip() if isinstance(value, str) else ""
    return reported if len(reported) <= LONGEST and reported.isprintable() else ""


def _email(claims: Mapping[str, Any]) -> str:
    reported = _text(claims.get("email"))
    try:
        validate_email(reported)
    except ValidationError:
        return ""
    return reported if len(reported) <= 254 else ""


def _roles(reported: Any, rules: Rules) -> list[ProjectRole]:
    """Return the roles that the rules give. A claim is a list of words, or one word."""
    words = reported if isinstance(reported, list | tuple) else [reported]
    values = {word for word in words if isinstance(word, str)} | {ANY_VALUE}
    return [ProjectRole(project, role) for value, project, role in rules if value in values]


def _as(context: RequestContext, user: User) -> RequestContext:
    return RequestContext(
        user_id=user.id,
        project_id="",
        request_id=context.request_id,
        user_name=user.username,
        remote_address=context.remote_address,
    )


def _on_person(person: ProviderClaims, entry: provider_accounts.ProviderSignIn) -> AuditEntry:
    details = {"issuer": person.issuer, "subject": person.subject, "given": entry.given, "taken": entry.taken}
    action = "user.create_from_provider" if entry.is_new else "user.roles_from_provider"
    return AuditEntry(action=action, project_id="", details=details)
