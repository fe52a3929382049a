"""Rights of domain managers: users, groups and grants within what the manager may grant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden
from conductor.identity import effective, roles
from conductor.identity.assignments import AssignmentScope
from conductor.identity.models import Group, Project, RoleAssignment, Trust, User

# Services act with it in every project, so only administrators of the cloud may grant it.
_OF_THE_CLOUD = "service"


@dataclass(frozen=True)
class _Holding:
    """A role and its scope; neither a project nor a domain stands for the system."""

    role_id: str
    project: Project | None = None
    domain_id: str | None = None
    is_inherited: bool = False

    @property
    def home_id(self) -> str | None:
        """The domain of the scope."""
        return self.project.domain_id if self.project is not None else self.domain_id

    @property
    def role_names(self) -> frozenset[str]:
        """The role with all that it implies, as tokens name them."""
        return effective.names(roles.book([self.role_id]).in_token([self.role_id]))

    @property
    def reaches_cloud(self) -> bool:
        """Whether the role makes its holder an administrator of the cloud, or a service."""
        names = self.role_names
        return _OF_THE_CLOUD in names or ("admin" in names and self._reaches_admin_project())

    def _reaches_admin_project(self) -> bool:
        if self.home_id is None:
            return True
        if self.project is not None and not self.is_inherited:
            return effective.is_admin_project(self.project)
        if self.is_inherited and effective.is_any_project_for_admins():
            return True
        admin_project = effective.admin_project() if self.is_inherited else None
        if admin_project is None:
            return False
        above = self.project.id if self.project is not None else None
        return above in admin_project.ancestor_ids if above else self.home_id == admin_project.domain_id


def may_manage(context: RequestContext, actor: User | Group) -> bool:
    """Whether the caller may change, remove or act for a user or group.

    An administrator of the cloud may. A manager of the actor's domain may if every role of the actor, direct, through
    groups, inherited or implied, is one that the manager may grant.
    """
    if context.is_admin:
        return True
    if not context.domain_id or actor.domain_id != context.domain_id:
        return False
    if isinstance(actor, Group):
        rows = RoleAssignment.objects.filter(group_id=actor.pk)
        return all(_may_grant(context, held) for held in _holdings(rows.select_related("project")))
    rows = effective.assignments_of(actor.pk)
    return all(_may_grant(context, held) for held in _holdings(rows.select_related("project"))) and not any(
        held.reaches_cloud for held in _trusted_with(actor.pk)
    )


def may_grant(context: RequestContext, place: AssignmentScope, role_id: str) -> bool:
    """Whether the caller may grant or revoke a role at a target, for any actor. `may_manage` checks the actor."""
    if context.is_admin:
        return True
    project = Project.objects.filter(id=place.project_id).first() if place.project_id is not None else None
    is_missing = place.project_id is not None and project is None
    wanted = _Holding(role_id, project, place.domain_id, place.is_inherited)
    return not is_missing and roles.get(role_id).domain_id is None and _may_grant(context, wanted)


def require_actor(context: RequestContext, actor: User | Group, rule: str) -> None:
    """Raise Forbidden unless the caller may manage the user or group."""
    if not may_manage(context, actor):
        raise Forbidden(
            f"Policy doesn't allow {rule} to be performed: this {type(actor).__name__.lower()} has a role above those "
            "that you may grant.",
            rule=rule,
        )


def require_grant(context: RequestContext, place: AssignmentScope, role_id: str, rule: str) -> None:
    """Raise Forbidden unless the caller may manage the actor and grant the role there. Actor and target exist."""
    actor = Group.objects.get(id=place.group_id) if place.group_id is not None else User.objects.get(id=place.user_id)
    require_actor(context, actor, rule)
    if not may_grant(context, place, role_id):
        raise Forbidden(f"Policy doesn't allow {rule} of this role to be performed.", rule=rule)


def require_project(context: RequestContext, name: str, domain_id: str, rule: str) -> None:
    """Raise Forbidden where a caller other than a cloud administrator changes the admin project, or takes its name."""
    if not context.is_admin and effective.is_admin_project_name(name, domain_id):
        raise Forbidden(f"Policy doesn't allow {rule} of the admin project to be performed.", rule=rule)


def _may_grant(context: RequestContext, held: _Holding) -> bool:
    is_inside = bool(context.domain_id) and held.home_id == context.domain_id
    return is_inside and held.role_names <= context.roles and not held.reaches_cloud


def _holdings(rows: Iterable[RoleAssignment]) -> Iterator[_Holding]:
    for row in rows:
        yield _Holding(row.role_id, row.project, row.domain_id, row.is_inherited)


def _trusted_with(user_id: str) -> Iterator[_Holding]:
    """Yield the roles that trusts of other users give the user."""
    for trust in Trust.objects.filter(trustee_id=user_id).select_related("project").prefetch_related("roles"):
        for role in trust.roles.all():
            yield _Holding(role.id, trust.project)
