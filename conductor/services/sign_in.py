"""Who has signed in to the portal, and for which project: read anew for each request, so that a taken right is gone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.sessions.backends.db import SessionStore
from django.db import connections
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.identity import effective, rights, roles
from conductor.identity.models import Project, User
from conductor.sql.dialect import padded, places, run

THEMES = ("system", "light", "dark")


@dataclass(frozen=True)
class ProjectChoice:
    """A project that a person may work in, with the role names assigned to them there."""

    project_id: str
    name: str
    domain_name: str
    roles: tuple[str, ...]


def projects_of(user_id: str) -> list[ProjectChoice]:
    """The enabled projects in which a person has a role, by name: given there, to a group of theirs, or inherited."""
    return [
        ProjectChoice(
            project.id,
            project.name,
            project.domain.name,
            tuple(sorted(role.name for role in map(roles.book(role_ids).by_id.__getitem__, role_ids))),
        )
        for project, role_ids in effective.projects_with_roles(user_id)
        if project.is_enabled and project.domain.is_enabled
    ]


def context_for(user_id: str, project_id: str, request_id: str) -> RequestContext | None:
    """The asker of a request; None when the person has no role in the project, or either is disabled."""
    user = User.objects.filter(id=user_id, is_active=True, domain__is_enabled=True).first()
    project = Project.objects.filter(id=project_id, is_enabled=True, domain__is_enabled=True).first()
    held = effective.roles_on(user_id, project=project) if user is not None and project is not None else []
    if user is None or project is None or not held:
        return None
    return RequestContext(
        user_id=user_id,
        project_id=project_id,
        request_id=request_id,
        roles=effective.names(held),
        user_name=user.username,
        project_name=project.name,
        project_domain_id=project.domain_id,
        is_on_admin_project=effective.is_admin_project(project),
    )


def rights_number() -> int:
    """Another one after each change of anybody's rights: what `context_for` has answered since holds as long as it."""
    return rights.now()


def sessions(keys: Collection[str]) -> dict[str, Mapping[str, Any]]:
    """What is kept in the sessions of these keys, in one query; those that have ended are left out."""
    connection, table = connections["default"], SessionStore.get_model_class()._meta.db_table
    now = connection.ops.adapt_datetimefield_value(timezone.now())
    wanted = padded(list(keys))
    asked = (
        f"SELECT session_key, session_data FROM {table} WHERE expire_date > %s AND session_key IN ({places(wanted)})"
    )
    return {key: _decoded(data) for key, data in (run(connection, asked, [now, *wanted]) if wanted else ())}


@lru_cache(maxsize=4096)
def _decoded(data: str) -> Mapping[str, Any]:
    """The same text always means the same."""
    found: Mapping[str, Any] = SessionStore().decode(data)
    return found


def half_signed_in(user_id: str, session_hash: str) -> User | None:
    """The person who has shown a password and not a code yet; None when the password has changed since."""
    user: User | None = User.objects.filter(id=user_id, is_active=True, domain__is_enabled=True).first()
    return user if user is not None and constant_time_compare(user.get_session_auth_hash(), session_hash) else None


def remember_theme(user_id: str, theme: str) -> None:
    """Keep a person's choice of light, dark or as the system has it. Raises Invalid for another word."""
    if theme not in THEMES:
        raise Invalid(f"The theme is one of {', '.join(THEMES)}.", field="theme")
    get_user_model().objects.filter(pk=user_id).update(theme=theme)
