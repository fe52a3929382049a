"""Who works in a project: whom to tell of what concerns it."""

from __future__ import annotations

from conductor.identity import assignments
from conductor.identity.assignments import Wanted
from conductor.identity.models import Membership, Role


def members(project_id: str) -> list[str]:
    """Ids of those who may launch servers in the project."""
    member = Role.objects.filter(name="member", domain=None).first()
    if member is None:
        return []
    held = assignments.in_effect(Wanted(role_id=member.id, project_id=project_id))
    return sorted({shown.user.id for shown in held if shown.project is not None})


def groups_of(user_id: str) -> set[str]:
    """Ids of the groups that somebody is in: what is given to one of those, they have."""
    return set(Membership.objects.filter(user_id=user_id).values_list("group_id", flat=True))
