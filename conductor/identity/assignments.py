"""Role assignments: grant, revoke, list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Q, QuerySet

from conductor.core.errors import Invalid, NotFound
from conductor.identity import domains, effective, groups, lost_roles, projects, rights, roles, users
from conductor.identity.models import GroupMembership, Project, Role, RoleAssignment


@dataclass(frozen=True)
class AssignmentScope:
    """An actor (a user or a group) and a target (a project, a domain or the system) of assignments."""

    user_id: str | None = None
    group_id: str | None = None
    project_id: str | None = None
    domain_id: str | None = None
    is_inherited: bool = False

    @property
    def is_on_system(self) -> bool:
        return self.project_id is None and self.domain_id is None

    @property
    def columns(self) -> dict[str, Any]:
        return {
            "user_id": self.user_id,
            "group_id": self.group_id,
            "project_id": self.project_id,
            "domain_id": self.domain_id,
            "is_on_system": self.is_on_system,
            "is_inherited": self.is_inherited,
        }

    def domain_ids(self) -> list[str]:
        """Return the domains of actor and target. Empty texts for those that do not exist."""
        found = []
        if self.user_id is not None:
            found.append(users.domain_id_of(self.user_id))
        if self.group_id is not None:
            found.append(groups.domain_id_of(self.group_id))
        if self.project_id is not None:
            found.append(projects.domain_id_of(self.project_id))
        if self.domain_id is not None:
            found.append(self.domain_id)
        return found

    def user_ids(self) -> list[str]:
        """Return the user, or the members of the group."""
        members = GroupMembership.objects.filter(group_id=self.group_id).values_list("user_id", flat=True)
        return [self.user_id] if self.user_id is not None else list(members)

    def require(self) -> None:
        """Raise NotFound for an actor or target that does not exist."""
        if self.user_id is not None:
            users.get(self.user_id)
        if self.group_id is not None:
            groups.get(self.group_id)
        if self.project_id is not None:
            projects.get(self.project_id)
        if self.domain_id is not None:
            domains.get(self.domain_id)


def at(place: AssignmentScope) -> list[Role]:
    """Return the roles assigned there, by name. Raises NotFound."""
    place.require()
    return list(Role.objects.filter(assignments__in=RoleAssignment.objects.filter(**place.columns)).order_by("name"))


def grant(place: AssignmentScope, role_id: str, *, check: rights.Check | None = None) -> None:
    """Assign a role; idempotent. Raises NotFound, and what `check` raises."""
    place.require()
    role = roles.get(role_id)
    if role.domain_id is not None:
        _require_home(place, role)
    with rights.changing(check):
        RoleAssignment.objects.get_or_create(role=role, **place.columns)


def _require_home(place: AssignmentScope, role: Role) -> None:
    """Raise Forbidden for a role of one domain anywhere but on that domain's projects."""
    home = place.domain_id or (projects.get(place.project_id).domain_id if place.project_id else None)
    if home != role.domain_id:
        raise Invalid(f"Role {role.id} belongs to a domain and can only be given there and on its projects.")


def require(place: AssignmentScope, role_id: str) -> Role:
    """Return the role if it is assigned there itself, not through one that implies it. Raises NotFound."""
    place.require()
    role = roles.get(role_id)
    if not RoleAssignment.objects.filter(role_id=role_id, **place.columns).exists():
        raise NotFound(f"Could not find role assignment with role: {role_id}.")
    return role


def take_away(place: AssignmentScope, role_id: str, *, check: rights.Check | None = None) -> None:
    """Remove an assignment. Raises NotFound when the role is not assigned there, and what `check` raises."""
    with rights.changing(check):
        removed, _ = RoleAssignment.objects.filter(role_id=role_id, **place.columns).delete()
        lost_roles.end_credentials(place.user_ids())
    if not removed:
        raise NotFound(f"Could not find role assignment with role: {role_id}.")


@dataclass(frozen=True)
class AssignmentFilter:
    """Filter of a list of assignments; None means any."""

    role_id: str | None = None
    user_id: str | None = None
    group_id: str | None = None
    project_id: str | None = None
    domain_id: str | None = None
    is_on_system: bool | None = None
    is_inherited: bool | None = None
    with_subtree: bool = False

    @property
    def target_ids(self) -> Mapping[str, Any]:
        wanted = {"project_id": self.project_id, "domain_id": self.domain_id}
        return {name: value for name, value in wanted.items() if value is not None}


@dataclass(frozen=True)
class ListedAssignment:
    """One assignment in a list; an effective one names its source."""

    role: Role
    user: Any = None
    group: Any = None
    project: Any = None
    domain: Any = None
    is_inherited: bool = False
    source: RoleAssignment | None = None
    prior_role: Role | None = None


_RELATED = ("user__domain", "group__domain", "project__domain", "domain", "role__domain")


def given(wanted: AssignmentFilter) -> Iterator[ListedAssignment]:
    """Yield the assignments as they are stored."""
    rows = RoleAssignment.objects.select_related(*_RELATED).order_by("id")
    for column in ("role_id", "user_id", "group_id", "is_on_system", "is_inherited"):
        value = getattr(wanted, column)
        rows = rows.filter(**{column: value}) if value is not None else rows
    for row in _on_targets(rows, wanted):
        yield _as_given(row)


def _on_targets(rows: QuerySet[RoleAssignment], wanted: AssignmentFilter) -> QuerySet[RoleAssignment]:
    if wanted.with_subtree and wanted.project_id is not None:
        return rows.filter(project_id__in=_tree(projects.get(wanted.project_id)))
    return rows.filter(**wanted.target_ids)


def _tree(project: Project) -> set[str]:
    return {project.id, *(row.id for row in projects.subtree_of(project))}


def _as_given(row: RoleAssignment) -> ListedAssignment:
    return ListedAssignment(
        row.role, row.user, row.group, row.project, row.domain, is_inherited=row.is_inherited, source=row
    )


def in_effect(wanted: AssignmentFilter) -> list[ListedAssignment]:
    """Return users' effective assignments: groups expanded to members, inheritance to projects, roles to implied ones.

    A narrow filter reads little: rows and projects that cannot matter to it are left out in the database.
    """
    every = RoleAssignment.objects.all()
    rows = effective.assignments_of(wanted.user_id) if wanted.user_id is not None else every
    rows = rows.select_related(*_RELATED).order_by("id")
    if wanted.is_on_system is not None:
        rows = rows.filter(is_on_system=wanted.is_on_system)
    if wanted.is_inherited is not None:
        rows = rows.filter(is_inherited=wanted.is_inherited)
    project = projects.get(wanted.project_id) if wanted.project_id is not None else None
    if project is not None and not wanted.with_subtree:
        rows = rows.filter(effective.reaching(project))
    elif wanted.domain_id is not None:
        rows = rows.filter(domain_id=wanted.domain_id, is_inherited=False)
    held = list(rows)
    tree = _tree(project) if project is not None else None
    found = _with_implied(_on_projects(_to_members(held, wanted), held, wanted))
    unique: dict[tuple[Any, ...], ListedAssignment] = {}
    for shown in found:
        is_inside = tree is None or (shown.project is not None and shown.project.id in tree)
        if is_inside and wanted.role_id in (None, shown.role.id):
            target = shown.project or shown.domain
            unique.setdefault((shown.role.id, shown.user.id, target.id if target else None), shown)
    return list(unique.values())


def _to_members(held: list[RoleAssignment], wanted: AssignmentFilter) -> list[ListedAssignment]:
    group_ids = {row.group_id for row in held if row.group_id is not None}
    members: dict[str, list[Any]] = {}
    memberships = GroupMembership.objects.filter(group_id__in=group_ids).select_related("user__domain").order_by("id")
    if wanted.user_id is not None:
        memberships = memberships.filter(user_id=wanted.user_id)
    for membership in memberships if group_ids else ():
        members.setdefault(membership.group_id, []).append(membership.user)
    spread = []
    for row in held:
        shown = _as_given(row)
        people = [row.user] if row.group_id is None else members.get(row.group_id, [])
        spread += [replace(shown, user=user, group=None) for user in people]
    return spread


def _on_projects(
    spread: list[ListedAssignment], held: list[RoleAssignment], wanted: AssignmentFilter
) -> Iterator[ListedAssignment]:
    reached = _projects_below(held, wanted)
    for shown in spread:
        if not shown.is_inherited:
            yield shown
            continue
        for project in reached:
            top = shown.project
            if top.id in project.ancestor_ids if top is not None else project.domain_id == shown.domain.id:
                yield replace(shown, project=project, domain=None, is_inherited=False)


def _projects_below(held: list[RoleAssignment], wanted: AssignmentFilter) -> list[Project]:
    below = Q()
    for row in held:
        if row.is_inherited:
            below |= Q(path__contains=f"{row.project_id}/") if row.project_id else Q(domain_id=row.domain_id)
    if not below:
        return []
    found = Project.objects.filter(below).select_related("domain").order_by("id")
    if wanted.project_id is not None and not wanted.with_subtree:
        found = found.filter(id=wanted.project_id)
    elif wanted.project_id is not None:
        found = found.filter(Q(id=wanted.project_id) | Q(path__contains=f"{wanted.project_id}/"))
    return list(found)


def _with_implied(spread: Iterator[ListedAssignment]) -> Iterator[ListedAssignment]:
    for shown in spread:
        book = roles.book([shown.role.id])
        for role in book.in_token([shown.role.id]):
            yield shown if role.id == shown.role.id else replace(shown, role=role, prior_role=shown.role)
