"""Who has signed in to the portal, and for which project: read anew for each request, so that a taken right is gone."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth import get_user_model

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.identity.models import RoleAssignment
from conductor.identity.roles import implied_names

THEMES = ("system", "light", "dark")


@dataclass(frozen=True)
class ProjectChoice:
    """A project that a person may work in, with the role names assigned to them there."""

    project_id: str
    name: str
    domain_name: str
    roles: tuple[str, ...]


def projects_of(user_id: str) -> list[ProjectChoice]:
    """The enabled projects in which a person has a role, by name."""
    assignments = (
        RoleAssignment.objects.filter(user_id=user_id, project__is_enabled=True, project__domain__is_enabled=True)
        .select_related("project__domain", "role")
        .order_by("project__name", "project_id", "role__name")
    )
    roles: dict[str, list[str]] = {}
    projects = {}
    for assignment in assignments:
        projects[assignment.project_id] = assignment.project
        roles.setdefault(assignment.project_id, []).append(assignment.role.name)
    return [
        ProjectChoice(project_id, project.name, project.domain.name, tuple(roles[project_id]))
        for project_id, project in projects.items()
    ]


def context_for(user_id: str, project_id: str, request_id: str) -> RequestContext | None:
    """The asker of a request; None when the person has no role in the project, or either is disabled."""
    assignments = RoleAssignment.objects.filter(
        user_id=user_id,
        project_id=project_id,
        user__is_active=True,
        user__domain__is_enabled=True,
        project__is_enabled=True,
        project__domain__is_enabled=True,
    )
    rows = list(assignments.values_list("role__name", "user__username", "project__name"))
    if not rows:
        return None
    return RequestContext(
        user_id=user_id,
        project_id=project_id,
        request_id=request_id,
        roles=implied_names(row[0] for row in rows),
        user_name=rows[0][1],
        project_name=rows[0][2],
    )


def remember_theme(user_id: str, theme: str) -> None:
    """Keep a person's choice of light, dark or as the system has it. Raises Invalid for another word."""
    if theme not in THEMES:
        raise Invalid(f"The theme is one of {', '.join(THEMES)}.", field="theme")
    get_user_model().objects.filter(pk=user_id).update(theme=theme)
