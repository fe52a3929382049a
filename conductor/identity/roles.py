"""Roles, what they imply, and who has them where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.db import IntegrityError
from django.db.models import ProtectedError, QuerySet

from conductor.core.errors import Conflict, NotFound
from conductor.identity.models import Project, Role, RoleAssignment, User
from conductor.transactions import write_tx

# A role stands for all that follow it: whoever has `manager` has `member` and `reader` too.
LADDER = ("admin", "manager", "member", "reader")


def implied_names(names: Iterable[str]) -> frozenset[str]:
    """The names with all that they imply."""
    held = set(names)
    for position, name in enumerate(LADDER):
        if name in held:
            held.update(LADDER[position:])
            break
    return frozenset(held)


def implied(roles: Sequence[Role]) -> list[Role]:
    """The roles with all that they imply, by name. One query at most."""
    have = {role.name: role for role in roles}
    lacking = implied_names(have) - have.keys()
    if lacking:
        have.update({role.name: role for role in Role.objects.filter(name__in=lacking)})
    return [have[name] for name in sorted(have)]


def roles_on(user_id: str, project_id: str | None) -> list[Role]:
    """The roles that were given to a user on a project, without the implied ones."""
    return list(Role.objects.filter(assignments__user_id=user_id, assignments__project_id=project_id))


def get(role_id: str) -> Role:
    """Raises NotFound."""
    role = Role.objects.filter(id=role_id).first()
    if role is None:
        raise NotFound(f"Could not find role: {role_id}.")
    return role


def find(*, name: str | None = None) -> list[Role]:
    """All roles, or the one of that name, by name."""
    found = Role.objects.order_by("name")
    return list(found.filter(name=name) if name is not None else found)


def create(name: str) -> Role:
    """Raises Conflict when the name is taken."""
    try:
        with write_tx():
            return Role.objects.create(name=name)
    except IntegrityError:
        raise Conflict(
            f"Conflict occurred attempting to store role - Duplicate entry found with name {name}."
        ) from None


def delete(role_id: str) -> None:
    """Takes the role away from everybody, then removes it. Raises NotFound, and Conflict for a role of the ladder."""
    role = get(role_id)
    if role.name in LADDER:
        raise Conflict(f"The role {role.name} is part of every rule and cannot be deleted.")
    try:
        with write_tx():
            RoleAssignment.objects.filter(role=role).delete()
            role.delete()
    except ProtectedError:
        raise Conflict(f"The role {role.name} was given to somebody just now; try again.") from None


def _triple(user_id: str, project_id: str, role_id: str) -> tuple[User, Project, Role]:
    user = User.objects.filter(id=user_id).first()
    if user is None:
        raise NotFound(f"Could not find user: {user_id}.")
    project = Project.objects.filter(id=project_id).first()
    if project is None:
        raise NotFound(f"Could not find project: {project_id}.")
    return user, project, get(role_id)


def grant(user_id: str, project_id: str, role_id: str) -> None:
    """Gives a role; giving it twice is the same as once. Raises NotFound."""
    user, project, role = _triple(user_id, project_id, role_id)
    with write_tx():
        RoleAssignment.objects.get_or_create(user=user, project=project, role=role)


def has(user_id: str, project_id: str, role_id: str) -> bool:
    """Whether exactly this role was given, not whether another one implies it."""
    return RoleAssignment.objects.filter(user_id=user_id, project_id=project_id, role_id=role_id).exists()


def take_away(user_id: str, project_id: str, role_id: str) -> None:
    """Raises NotFound when the user does not have the role there."""
    with write_tx():
        removed, _ = RoleAssignment.objects.filter(user_id=user_id, project_id=project_id, role_id=role_id).delete()
    if not removed:
        raise NotFound(f"Could not find role assignment with role: {role_id}, user: {user_id}, project: {project_id}.")


def assignments(
    *, user_id: str | None = None, project_id: str | None = None, role_id: str | None = None
) -> QuerySet[RoleAssignment]:
    """Who has what where, narrowed by what is given; users, projects, roles and their domains come along."""
    wanted = {"user_id": user_id, "project_id": project_id, "role_id": role_id}
    return (
        RoleAssignment.objects.filter(**{name: value for name, value in wanted.items() if value is not None})
        .select_related("user__domain", "project__domain", "role")
        .order_by("id")
    )
