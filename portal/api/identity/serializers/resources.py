"""Domains, projects, users, roles and assignments as the identity API shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from conductor.identity.models import Domain, Project, Role, RoleAssignment, User
from portal.api.base import ApiRequest
from portal.api.links import absolute

Row = TypeVar("Row")
Document = dict[str, Any]
ROOT = "/identity/v3"


def _self(request: ApiRequest, collection: str, item_id: str) -> dict[str, str]:
    return {"self": absolute(request, f"{ROOT}/{collection}/{item_id}")}


def listing(
    request: ApiRequest, name: str, rows: Iterable[Row], show: Callable[[ApiRequest, Row], Document]
) -> Document:
    """A whole collection: identity lists are not paged."""
    links = {"self": request.build_absolute_uri(), "previous": None, "next": None}
    return {name: [show(request, row) for row in rows], "links": links}


def domain(request: ApiRequest, row: Domain) -> Document:
    return {
        "id": row.id,
        "name": row.name,
        "description": row.description,
        "enabled": row.is_enabled,
        "tags": [],
        "options": {},
        "links": _self(request, "domains", row.id),
    }


def project(request: ApiRequest, row: Project) -> Document:
    return {
        "id": row.id,
        "name": row.name,
        "domain_id": row.domain_id,
        "description": row.description,
        "enabled": row.is_enabled,
        "parent_id": row.domain_id,
        "is_domain": False,
        "tags": [],
        "options": {},
        "links": _self(request, "projects", row.id),
    }


def user(request: ApiRequest, row: User) -> Document:
    return {
        "id": row.id,
        "name": row.username,
        "domain_id": row.domain_id,
        "description": row.description,
        "email": row.email or None,
        "enabled": row.is_active,
        "default_project_id": row.default_project_id,
        "password_expires_at": None,
        "options": {},
        "links": _self(request, "users", row.id),
    }


def role(request: ApiRequest, row: Role) -> Document:
    return {
        "id": row.id,
        "name": row.name,
        "domain_id": None,
        "description": None,
        "options": {},
        "links": _self(request, "roles", row.id),
    }


def assignment(request: ApiRequest, row: RoleAssignment) -> Document:
    path = f"{ROOT}/projects/{row.project_id}/users/{row.user_id}/roles/{row.role_id}"
    return {
        "role": {"id": row.role_id},
        "user": {"id": row.user_id},
        "scope": {"project": {"id": row.project_id}},
        "links": {"assignment": absolute(request, path)},
    }


def named_assignment(request: ApiRequest, row: RoleAssignment) -> Document:
    """The same with the names that `include_names` asks for."""
    shown = assignment(request, row)
    shown["role"]["name"] = row.role.name
    for target, name, owner in (
        (shown["user"], row.user.username, row.user.domain),
        (shown["scope"]["project"], row.project.name, row.project.domain),
    ):
        target |= {"name": name, "domain": {"id": owner.id, "name": owner.name}}
    return shown
