"""Effective roles of users: own assignments and those of groups, direct and inherited ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from django.conf import settings
from django.db.models import Q, QuerySet

from conductor.identity import roles
from conductor.identity.domains import DEFAULT_ID
from conductor.identity.models import Domain, GroupMembership, Project, Role, RoleAssignment

ANY = "any"  # value of NOVELLA_ADMIN_PROJECT with which `admin` on any project is `admin` of the cloud


def is_any_project_for_admins() -> bool:
    """Whether every project is one of the cloud's administrators."""
    return bool(settings.NOVELLA_ADMIN_PROJECT == ANY)


def is_admin_project(project: Project) -> bool:
    """Whether `admin` on this project is `admin` of the cloud: the setting names it within the default domain."""
    return is_any_project_for_admins() or is_admin_project_name(project.name, project.domain_id)


def is_admin_project_name(name: str, domain_id: str) -> bool:
    """Whether a project of this name would be the admin project."""
    wanted = settings.NOVELLA_ADMIN_PROJECT
    return bool(wanted) and domain_id == DEFAULT_ID and name == wanted


def admin_project() -> Project | None:
    """Return the admin project; None where no project has that name, or the setting is empty."""
    return Project.objects.filter(domain_id=DEFAULT_ID, name=settings.NOVELLA_ADMIN_PROJECT or None).first()


def assignments_of(user_id: str) -> QuerySet[RoleAssignment]:
    """Return all assignments of a user and of the user's groups."""
    groups = GroupMembership.objects.filter(user_id=user_id).values("group_id")
    return RoleAssignment.objects.filter(Q(user_id=user_id) | Q(group_id__in=groups))


def reaching(project: Project) -> Q:
    """Return the condition for assignments that apply to a project."""
    inherited = Q(domain_id=project.domain_id) | Q(project_id__in=project.ancestor_ids)
    return Q(project_id=project.id, is_inherited=False) | (Q(is_inherited=True) & inherited)


def role_ids_on(user_id: str, *, project: Project | None = None, domain: Domain | None = None) -> list[str]:
    """Return the ids of roles on a project or a domain, or on the system where neither is given. One query."""
    if project is not None:
        where = reaching(project)
    elif domain is not None:
        where = Q(domain_id=domain.id, is_inherited=False)
    else:
        where = Q(is_on_system=True)
    return list(assignments_of(user_id).filter(where).values_list("role_id", flat=True).distinct())


def roles_on(user_id: str, *, project: Project | None = None, domain: Domain | None = None) -> list[Role]:
    """Return the roles on a project, a domain or the system by name, with the implied ones."""
    role_ids = role_ids_on(user_id, project=project, domain=domain)
    return roles.book(role_ids).in_token(role_ids)


def projects_of(user_id: str) -> list[Project]:
    """Return the projects in which a user has a role, enabled or not, by name. The number of queries is constant."""
    return [project for project, _ in projects_with_roles(user_id)]


def projects_with_roles(user_id: str) -> list[tuple[Project, frozenset[str]]]:
    """Return the projects in which a user has a role, with the ids of the roles assigned there. Implied ones are left
    out.
    """
    direct: defaultdict[str, set[str]] = defaultdict(set)
    below_project: defaultdict[str, set[str]] = defaultdict(set)
    below_domain: defaultdict[str, set[str]] = defaultdict(set)
    for row in assignments_of(user_id).filter(is_on_system=False):
        if row.project_id is not None:
            (below_project if row.is_inherited else direct)[row.project_id].add(row.role_id)
        elif row.is_inherited and row.domain_id is not None:
            below_domain[row.domain_id].add(row.role_id)
    reached = Q(id__in=list(direct)) | Q(domain_id__in=list(below_domain))
    for project_id in below_project:
        reached |= Q(path__contains=f"{project_id}/")
    found = Project.objects.select_related("domain").prefetch_related("tags").filter(reached).order_by("name", "id")
    with_roles = []
    for project in found:
        held = direct[project.id] | below_domain[project.domain_id]
        held |= {role_id for above in project.ancestor_ids for role_id in below_project[above]}
        with_roles.append((project, frozenset(held)))
    return with_roles


def domains_of(user_id: str) -> list[Domain]:
    """Return the domains on which a user has a role, enabled or not, by name."""
    ids = assignments_of(user_id).filter(is_inherited=False, domain__isnull=False).values("domain_id")
    return list(Domain.objects.filter(id__in=ids).order_by("name", "id"))


def is_on_system(user_id: str) -> bool:
    """Whether a user has a role on the system as a whole."""
    return assignments_of(user_id).filter(is_on_system=True).exists()


def names(found: Iterable[Role]) -> frozenset[str]:
    """Return the names of roles."""
    return frozenset(role.name for role in found)


def closure(role_ids: Iterable[str]) -> set[str]:
    """Return the ids of roles with all that they imply."""
    wanted = list(role_ids)
    return roles.book(wanted).closure(wanted)
