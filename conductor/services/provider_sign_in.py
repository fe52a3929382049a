"""Signing in with an OpenID provider: what its claims mean here, who comes in, and what is put on record of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.identity import provider_accounts
from conductor.identity.models import User
from conductor.identity.provider_accounts import LONGEST, Given, Person
from conductor.services import audit
from conductor.services.audit import Entry
from conductor.transactions import write_tx

EVERYBODY = "*"
NAME_CLAIMS = ("preferred_username", "email", "name", "sub")

Rules = Sequence[tuple[str, str, str]]


def enter(claims: Mapping[str, Any], *, claim: str, rules: Rules, context: RequestContext) -> User:
    """The user whom these proven claims are of; their roles follow `rules` from now on.

    Raises Invalid for claims that name nobody, Conflict where their name belongs to another account, Forbidden for
    whoever is disabled; then nothing has changed.
    """
    person = _person(claims)
    with write_tx(API_ALIAS):
        entry = provider_accounts.enter(person, _roles(claims.get(claim), rules))
        if entry.is_new or entry.given or entry.taken:
            audit.record(API_ALIAS, _as(context, entry.user), _told(person, entry))
    return entry.user


def _person(claims: Mapping[str, Any]) -> Person:
    issuer, subject = (_text(claims.get(name)) for name in ("iss", "sub"))
    if not issuer or not subject:
        raise Invalid("The provider does not say who this is.")
    name = next(found for found in (_text(claims.get(name)) for name in NAME_CLAIMS) if found)
    return Person(issuer, subject, name, _email(claims))


def _text(value: Any) -> str:
    """What can be kept and shown; anything else counts as not said."""
    said = value.strip() if isinstance(value, str) else ""
    return said if len(said) <= LONGEST and said.isprintable() else ""


def _email(claims: Mapping[str, Any]) -> str:
    said = _text(claims.get("email"))
    try:
        validate_email(said)
    except ValidationError:
        return ""
    return said if len(said) <= 254 else ""


def _roles(said: Any, rules: Rules) -> list[Given]:
    """A claim is a list of words, or one word."""
    words = said if isinstance(said, list | tuple) else [said]
    values = {word for word in words if isinstance(word, str)} | {EVERYBODY}
    return [Given(project, role) for value, project, role in rules if value in values]


def _as(context: RequestContext, user: User) -> RequestContext:
    return RequestContext(
        user_id=user.id,
        project_id="",
        request_id=context.request_id,
        user_name=user.username,
        remote_address=context.remote_address,
    )


def _told(person: Person, entry: provider_accounts.Entry) -> Entry:
    details = {"issuer": person.issuer, "subject": person.subject, "given": entry.given, "taken": entry.taken}
    action = "user.create_from_provider" if entry.is_new else "user.roles_from_provider"
    return Entry(action=action, project_id="", details=details)
