"""Portal sessions: the signed-in user and project, read anew for each request, so that a revoked right ends at once."""

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
from conductor.core.errors import Invalid, NotAuthenticated
from conductor.core.phrases import phrase
from conductor.identity import effective, rights, roles, statements, tokens
from conductor.identity.models import User

THEMES = ("system", "light", "dark")


@dataclass(frozen=True)
class ProjectChoice:
    """A project that a user may work in, with the names of their roles there."""

    project_id: str
    name: str
    domain_name: str
    roles: tuple[str, ...]


def projects_of(user_id: str) -> list[ProjectChoice]:
    """Return the enabled projects in which a user has a role, by name: assigned, through a group, or inherited."""
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


def context_for(user_id: str, project_id: str, request_id: str, delegated_by: str = "") -> RequestContext | None:
    """Return the context of a request. None if the user has no role in the project, or if one of them is disabled.

    A stored row passes the `delegated_by` of the request that created it. The context then has the rights of that trust
    or application credential, and is None once this has ended.
    """
    try:
        return tokens.standing(user_id, project_id, delegated_by).context(request_id)
    except NotAuthenticated:
        return None


def context_of_token(digest: str, request_id: str) -> RequestContext | None:
    """Return the context of a token that is stored by its digest. None once the token has ended."""
    try:
        return tokens.validate_digest(digest).context(request_id)
    except NotAuthenticated:
        return None


def rights_number() -> int:
    """Return a number that changes with the rights of any user. Until it changes, results of `context_for` stay
    valid.
    """
    return rights.now()


def sessions(keys: Collection[str]) -> dict[str, Mapping[str, Any]]:
    """Return the data of the sessions with these keys, in one query, without expired ones."""
    rows = statements.unexpired_sessions(connections["default"], list(keys), timezone.now())
    return {key: _decoded(data) for key, data in rows}


@lru_cache(maxsize=4096)
def _decoded(data: str) -> Mapping[str, Any]:
    """Decode a session's data. The result is cached, as equal texts mean the same."""
    found: Mapping[str, Any] = SessionStore().decode(data)
    return found


def half_signed_in(user_id: str, session_hash: str) -> User | None:
    """Return the user who has given a password but no code yet. None if the password has changed since."""
    user: User | None = User.objects.filter(id=user_id, is_active=True, domain__is_enabled=True).first()
    return user if user is not None and constant_time_compare(user.get_session_auth_hash(), session_hash) else None


def remember_theme(user_id: str, theme: str) -> None:
    """Save a user's theme: light, dark or the system's. Raises Invalid for another word."""
    require_theme(theme)
    get_user_model().objects.filter(pk=user_id).update(theme=theme)


def require_theme(theme: str) -> None:
    """Raise Invalid for an unknown theme."""
    if theme not in THEMES:
        raise Invalid(phrase("Select a theme: %(choices)s.", choices=", ".join(THEMES)), field="theme")
