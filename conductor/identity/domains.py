"""Domains: realms of users, groups and projects. `default` always exists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Forbidden, NotFound
from conductor.db.transactions import write_tx
from conductor.identity import rights
from conductor.identity.listing import IdentityListQuery, narrowed, paged
from conductor.identity.models import Domain, Group, Project, Role, RoleAssignment, User
from conductor.identity.options import merged, refuse_immutable
from conductor.identity.revocations import end_portal_sessions, revoke_where

DEFAULT_ID = "default"
CHANGEABLE = frozenset({"name", "description", "is_enabled", "tags", "options", "extra"})
COLUMNS = {"name": "name", "enabled": "is_enabled", "id": "id"}


def get(domain_id: str) -> Domain:
    """Return a domain. Raises NotFound."""
    domain = Domain.objects.filter(id=domain_id).first()
    if domain is None:
        raise NotFound(f"Could not find domain: {domain_id}.")
    return domain


def find(question: IdentityListQuery, ids: list[str] | None = None) -> tuple[list[Domain], bool]:
    """Domains by name, and whether there are more; of `ids` only, where given."""
    rows = narrowed(Domain.objects.all(), question, COLUMNS)
    return paged(rows if ids is None else rows.filter(id__in=ids), question, "name")


def of_new(context: RequestContext, domain_id: str | None) -> str:
    """Return the domain for a new object: the given one, else that of the caller's token."""
    return domain_id or context.domain_id or context.project_domain_id or DEFAULT_ID


def create(name: str, *, domain_id: str | None = None, **fields: Any) -> Domain:
    """Create a domain. Raises Conflict when the name or the id is taken."""
    assert fields.keys() <= CHANGEABLE, fields.keys()
    chosen = {"id": domain_id} if domain_id is not None else {}
    try:
        with write_tx():
            if domain_id is not None and Project.objects.filter(id=domain_id).exists():
                raise _taken(name)
            return Domain.objects.create(name=name, **chosen, **fields)
    except IntegrityError:
        raise _taken(name) from None


def change(domain_id: str, changes: Mapping[str, Any]) -> Domain:
    """Update the fields in `changes`. Disabling ends every session in the domain."""
    assert changes.keys() <= CHANGEABLE, changes.keys()
    try:
        with write_tx():
            domain = get(domain_id)
            refuse_immutable(domain, "domain", changes)
            if domain_id == DEFAULT_ID and changes.get("is_enabled") is False:
                raise Forbidden("The default domain cannot be disabled: no user could sign in to enable it again.")
            for field, value in changes.items():
                setattr(domain, field, merged_value(domain, field, value))
            domain.save(update_fields=sorted(changes))
            if not domain.is_enabled:
                _end_sessions(domain_id)
            rights.changed()
            return domain
    except IntegrityError:
        raise _taken(str(changes.get("name"))) from None


def fields_of(given: Mapping[str, Any], extra: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the changeable fields in the body of a domain or project, by column."""
    fields: dict[str, Any] = {name: given[name] for name in ("name", "tags", "options") if name in given}
    if "description" in given:
        fields["description"] = given["description"] or ""
    if "enabled" in given:
        fields["is_enabled"] = given["enabled"]
    return {**fields, "extra": extra} if extra else fields


def merged_value(row: Any, field: str, value: Any) -> Any:
    """Return the new value of a field: `options` and `extra` keep the entries that are not given."""
    if field == "options":
        return merged(row.options, value)
    return {**row.extra, **value} if field == "extra" else value


def delete(domain_id: str) -> None:
    """Delete a disabled domain with all that it holds. Raises NotFound, and Forbidden while it is enabled."""
    with write_tx():
        domain = get(domain_id)
        if domain_id == DEFAULT_ID:
            raise Forbidden("The default domain cannot be deleted.")
        refuse_immutable(domain, "domain")
        if domain.is_enabled:
            raise Forbidden("Cannot delete a domain that is enabled, please disable it first.")
        RoleAssignment.objects.filter(role__domain_id=domain_id).delete()
        for model in (Role, Group, User, Project):
            model._default_manager.filter(domain_id=domain_id).delete()
        domain.delete()
        rights.changed()


def _end_sessions(domain_id: str) -> None:
    for field in ("user__domain_id", "project__domain_id", "domain_id"):
        revoke_where(**{field: domain_id})
    end_portal_sessions(domain_id=domain_id)


def _taken(name: str) -> Conflict:
    return Conflict(f"Conflict occurred attempting to store domain - Duplicate entry found with name {name}.")
