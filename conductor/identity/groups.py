"""Groups: users with common roles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError

from conductor.core.errors import Conflict, NotFound
from conductor.db.transactions import write_tx
from conductor.identity import domains, lost_roles, rights, users
from conductor.identity.domains import merged_value
from conductor.identity.listing import IdentityListQuery, narrowed, paged
from conductor.identity.models import Group, GroupMembership

CHANGEABLE = frozenset({"name", "description", "extra"})
COLUMNS = {"name": "name", "domain_id": "domain_id", "id": "id"}


def get(group_id: str) -> Group:
    """Return a group. Raises NotFound."""
    group = Group.objects.select_related("domain").filter(id=group_id).first()
    if group is None:
        raise NotFound(f"Could not find group: {group_id}.")
    return group


def domain_id_of(group_id: str) -> str:
    """Return the domain of a group; empty where there is no such group."""
    return Group.objects.filter(id=group_id).values_list("domain_id", flat=True).first() or ""


def find(question: IdentityListQuery, *, user_id: str | None = None) -> tuple[list[Group], bool]:
    """Return a page of groups by name, and whether there are more; of `user_id` only, where given."""
    rows = narrowed(Group.objects.all(), question, COLUMNS)
    return paged(rows if user_id is None else rows.filter(memberships__user_id=user_id), question, "name")


def create(name: str, *, domain_id: str = domains.DEFAULT_ID, **fields: Any) -> Group:
    """Create a group. Raises Conflict for a taken name, NotFound for the domain."""
    assert fields.keys() <= CHANGEABLE, fields.keys()
    domain = domains.get(domain_id)
    try:
        with write_tx():
            return Group.objects.create(domain=domain, name=name, **fields)
    except IntegrityError:
        raise _taken(name) from None


def change(group_id: str, changes: Mapping[str, Any], *, check: rights.Check | None = None) -> Group:
    """Update the fields in `changes` (of CHANGEABLE). Raises what `check` raises."""
    assert changes.keys() <= CHANGEABLE, changes.keys()
    group = get(group_id)
    for field, value in changes.items():
        setattr(group, field, merged_value(group, field, value))
    try:
        with rights.changing(check):
            group.save(update_fields=sorted(changes))
    except IntegrityError:
        raise _taken(str(changes.get("name"))) from None
    return group


def delete(group_id: str, *, check: rights.Check | None = None) -> None:
    """Delete the group with its assignments. Raises NotFound, and what `check` raises."""
    with rights.changing(check):
        group = get(group_id)
        members = list(GroupMembership.objects.filter(group=group).values_list("user_id", flat=True))
        group.delete()
        lost_roles.end_credentials(members)


def add(group_id: str, user_id: str, *, check: rights.Check | None = None) -> None:
    """Add a user; idempotent. Raises NotFound, and what `check` raises."""
    group, user = get(group_id), users.get(user_id)
    with rights.changing(check):
        GroupMembership.objects.get_or_create(group=group, user=user)


def require_member(group_id: str, user_id: str) -> None:
    """Raise NotFound when the user is not in the group."""
    get(group_id)
    users.get(user_id)
    if not GroupMembership.objects.filter(group_id=group_id, user_id=user_id).exists():
        raise NotFound(f"User {user_id} is not found in group {group_id}.")


def remove(group_id: str, user_id: str, *, check: rights.Check | None = None) -> None:
    """Remove a user. Raises NotFound when the user is not in the group, and what `check` raises."""
    require_member(group_id, user_id)
    with rights.changing(check):
        GroupMembership.objects.filter(group_id=group_id, user_id=user_id).delete()
        lost_roles.end_credentials([user_id])


def _taken(name: str) -> Conflict:
    return Conflict(f"Conflict occurred attempting to store group - Duplicate entry found with name {name}.")
