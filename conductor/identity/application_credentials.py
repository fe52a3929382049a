"""Application credentials: secrets with which programs act as a user on one project, with some of the user's roles."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError
from django.db.models import Q, QuerySet

from conductor import row_limits
from conductor.core.errors import Conflict, Forbidden, Invalid, NotAuthenticated, NotFound
from conductor.db.transactions import database_now, database_time, write_tx
from conductor.identity import delegation, passwords, rights
from conductor.identity.delegation import Power
from conductor.identity.listing import IdentityListQuery, narrowed, paged
from conductor.identity.models import AccessRule, ApplicationCredential, Role, User
from conductor.identity.tokens import Granted


@dataclass(frozen=True)
class ApplicationCredentialCreate:
    """A credential to create. Without `roles` it has all roles of the token; without `access_rules` it allows any
    request.
    """

    name: str
    secret: str | None = None
    description: str = ""
    roles: Sequence[Mapping[str, str]] | None = None  # each by id or name
    expires_at: datetime | None = None
    is_unrestricted: bool = False
    access_rules: Sequence[Mapping[str, str]] = ()  # each an id, or service, path and method


def _rows() -> QuerySet[ApplicationCredential]:
    related = ("user__domain", "project__domain")
    return ApplicationCredential.objects.select_related(*related).prefetch_related("roles", "access_rules")


def get(user_id: str, credential_id: str) -> ApplicationCredential:
    """Return a user's credential. Raises NotFound."""
    found = _rows().filter(id=credential_id, user_id=user_id).first()
    if found is None:
        raise NotFound(f"Could not find Application Credential: {credential_id}.")
    return found


def find(user_id: str, question: IdentityListQuery) -> tuple[list[ApplicationCredential], bool]:
    """Return a user's credentials by name, and whether there are more."""
    return paged(narrowed(_rows().filter(user_id=user_id), question, {"name": "name"}), question, "name")


def create(caller: Granted, requested: ApplicationCredentialCreate) -> tuple[ApplicationCredential, str]:
    """Create a credential for the token's own user and project. Return it with its secret, which is shown only here.

    Raises Forbidden for a token that may not delegate this much (see `delegation`) or has no project, Invalid for roles
    that the token lacks, an end in the past or a short secret, Conflict for a taken name, NotFound for an access rule.
    """
    delegation.require(caller, Power.APPLICATION_CREDENTIALS)
    if caller.project is None:
        raise Forbidden("An application credential is made with a token for the project that it is for.")
    if requested.expires_at is not None and requested.expires_at <= database_time():
        raise Invalid("Invalid input for field/attribute expires_at. It must be in the future.", field="expires_at")
    if requested.secret is not None and len(requested.secret) < passwords.SHORTEST:
        raise Invalid(
            f"Invalid input for field/attribute secret. It must have at least {passwords.SHORTEST} characters; "
            "without one, the credential gets a generated secret.",
            field="secret",
        )
    roles, rules = _roles(caller, requested.roles), delegation.bounded_rules(caller, requested.access_rules)
    expires_at = delegation.bounded_end(caller, requested.expires_at)
    secret = requested.secret or secrets.token_urlsafe(64)
    made = ApplicationCredential(
        user=caller.user,
        project=caller.project,
        name=requested.name,
        description=requested.description,
        secret_hash=passwords.hashed(secret),  # before the transaction: hashing takes long
        is_unrestricted=requested.is_unrestricted,
        expires_at=expires_at,
    )
    try:
        with write_tx():
            row_limits.require("application_credentials", caller.user.id)
            row_limits.require("access_rules", caller.user.id, wanted=0)
            made.save(force_insert=True)
            made.roles.set(roles)
            made.access_rules.set(_rule(caller.user, given) for given in rules)
            row_limits.require("access_rules", caller.user.id, wanted=0)  # existing rules do not count twice
    except IntegrityError:
        raise Conflict(
            "Conflict occurred attempting to store application_credential - "
            f"Duplicate entry found with name {requested.name}."
        ) from None
    return get(caller.user.id, made.id), secret


def _roles(caller: Granted, wanted: Sequence[Mapping[str, str]] | None) -> list[Role]:
    if wanted is None:
        return list(caller.roles)
    chosen = []
    for given in wanted:
        found = [role for role in caller.roles if given.get("id", role.id) == role.id]
        found = [role for role in found if given.get("name", role.name) == role.name]
        if not found:
            named = given.get("id") or given.get("name", "")
            raise Invalid(f"Invalid input for field/attribute roles. You do not have the role '{named[:60]}' here.")
        chosen += found
    return chosen


def _rule(user: User, given: Mapping[str, str]) -> AccessRule:
    if "id" in given:
        return access_rule(user.id, given["id"])
    columns: dict[str, Any] = {name: given[name] for name in ("service", "path", "method")}
    return AccessRule.objects.get_or_create(user=user, **columns)[0]


def delete(granted: Granted, user_id: str, credential_id: str) -> None:
    """Delete the credential and all sessions that it has opened. Raises Forbidden and NotFound."""
    delegation.require(granted, Power.APPLICATION_CREDENTIALS)
    with write_tx():
        get(user_id, credential_id).delete()
        rights.changed()


def prove(credential_id: str, name: str, user: User | None, secret: str) -> ApplicationCredential:
    """Return the credential with that id, or with that name and user. Raises NotAuthenticated for a wrong secret."""
    wanted: dict[str, Any] = {"id": credential_id} if credential_id else {"name": name, "user": user}
    if not credential_id and user is None:
        raise NotAuthenticated()
    is_alive = Q(expires_at=None) | Q(expires_at__gt=database_now())
    found = _rows().filter(is_alive, **wanted).first()
    if found is None:
        passwords.hashed(secret)  # takes as long as the check of a wrong secret
        raise NotAuthenticated()
    if (user is not None and user.id != found.user_id) or not passwords.matches(found.secret_hash, secret):
        raise NotAuthenticated()
    return found


def id_of(user_id: str, name: str) -> str | None:
    """Return the id of a user's credential by its name. None if the user has none of that name."""
    found: str | None = (
        ApplicationCredential.objects.filter(user_id=user_id, name=name).values_list("id", flat=True).first()
    )
    return found


def access_rules(user_id: str) -> list[AccessRule]:
    """Return the access rules that a user's credentials have had, until they are deleted."""
    return list(AccessRule.objects.filter(user_id=user_id).order_by("service", "path", "method", "id"))


def access_rule(user_id: str, rule_id: str) -> AccessRule:
    """Return a user's access rule. Raises NotFound."""
    found = AccessRule.objects.filter(id=rule_id, user_id=user_id).first()
    if found is None:
        raise NotFound(f"Could not find Access Rule: {rule_id}.")
    return found


def delete_access_rule(granted: Granted, user_id: str, rule_id: str) -> None:
    """Delete an access rule. Raises NotFound, and Forbidden while a credential has it or for a delegated token."""
    delegation.require(granted, Power.APPLICATION_CREDENTIALS)
    with write_tx():
        rule = access_rule(user_id, rule_id)
        if rule.application_credentials.exists():
            raise Forbidden(f"Access rule {rule_id} is in use by an application credential.")
        rule.delete()
