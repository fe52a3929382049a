"""Roles, as administrators read and change them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.identity import roles
from conductor.identity.models import Role
from conductor.identity.roles import delete, find, get

__all__ = ["create", "delete", "find", "get", "update"]


def create(given: Mapping[str, Any], extra: Mapping[str, Any] | None = None) -> Role:
    """Create a role by the names of the API's fields; `extra` are further values to store.

    Raises Conflict for a taken name, NotFound for the domain.
    """
    fields = _fields(given, extra)
    return roles.create(fields.pop("name"), domain_id=given.get("domain_id"), **fields)


def update(role_id: str, given: Mapping[str, Any], extra: Mapping[str, Any] | None = None) -> Role:
    """Update the given fields of a role. Raises NotFound, Conflict, and Forbidden for the name of a built-in role."""
    return roles.change(role_id, _fields(given, extra))


def _fields(given: Mapping[str, Any], extra: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the changeable fields by column."""
    fields: dict[str, Any] = {name: given[name] for name in ("name", "description", "options") if name in given}
    return {**fields, "extra": extra} if extra else fields
