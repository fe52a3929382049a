"""Users of the cloud, as callers with the right to do so read and change them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from conductor.core.context import RequestContext
from conductor.identity import domains, managers, tokens, users
from conductor.identity.models import User
from conductor.identity.rights import Check
from conductor.identity.tokens import Granted
from conductor.identity.users import find, get
from conductor.services.accounts import passwords

__all__ = ["create", "delete", "find", "get", "update"]

# Name in a request's body → column; null becomes the empty value given here.
_FIELDS: Mapping[str, tuple[str, Any]] = {
    "name": ("username", ""),
    "password": ("password", None),
    "email": ("email", ""),
    "description": ("description", ""),
    "enabled": ("is_active", True),
    "default_project_id": ("default_project_id", None),
    "options": ("options", {}),
}


def create(context: RequestContext, given: Mapping[str, Any], extra: Mapping[str, Any] | None = None) -> User:
    """Create a user by the names of the API's fields; `extra` are further values to store.

    Raises Conflict for a taken name, Invalid, NotFound for the domain.
    """
    fields = _fields(given, extra)
    domain_id = domains.of_new(context, given.get("domain_id"))
    return users.create(fields.pop("username"), fields.pop("password", None), domain_id=domain_id, **fields)


def update(
    context: RequestContext,
    user: User,
    given: Mapping[str, Any],
    extra: Mapping[str, Any] | None = None,
    *,
    granted: Granted | None = None,
) -> User:
    """Update the given fields of a user. `granted` is the caller's token; without it the caller is a session.

    Raises Forbidden, Conflict for a taken name, Invalid.
    """
    if "password" in given:
        passwords.require_reset(granted or tokens.of_session(context), user.id)
    return users.change(user.id, _fields(given, extra), check=_check(context, user, "identity:update_user"))


def delete(context: RequestContext, user: User) -> None:
    """Delete a user with their assignments and tokens. Raises Forbidden, NotFound."""
    users.delete(user.id, check=_check(context, user, "identity:delete_user"))


def _check(context: RequestContext, user: User, rule: str) -> Check:
    return partial(managers.require_actor, context, user, rule)


def _fields(given: Mapping[str, Any], extra: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the changeable fields by column."""
    fields = {
        field: empty if given[name] is None else given[name]
        for name, (field, empty) in _FIELDS.items()
        if name in given
    }
    return {**fields, "extra": extra} if extra else fields
