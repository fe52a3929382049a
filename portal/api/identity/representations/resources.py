"""JSON of domains, projects, users, groups and roles."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from conductor.identity.models import Domain, Group, Project, Role, User
from conductor.identity.roles import is_built_in
from portal.api.base import ApiRequest
from portal.api.links import absolute
from portal.api.pagination import fit, next_path

Row = TypeVar("Row")
Document = dict[str, Any]
ROOT = "/identity/v3"


def link_to(request: ApiRequest, path: str) -> dict[str, str]:
    """Return the `links` of a resource: a link to itself."""
    return {"self": absolute(request, f"{ROOT}/{path}")}


def listing(
    request: ApiRequest,
    name: str,
    rows: Iterable[Row],
    show: Callable[[ApiRequest, Row], Document],
    *,
    has_more: bool | None = None,
) -> Document:
    """Return a collection: whole without `has_more`, or a page with a link to the next one."""
    shown = [show(request, row) for row in rows]
    if has_more is not None:
        shown, has_more = fit(shown, has_more=has_more)
    following = absolute(request, next_path(request, shown[-1]["id"])) if has_more and shown else None
    return {name: shown, "links": {"self": request.build_absolute_uri(), "previous": None, "next": following}}


def domain(request: ApiRequest, row: Domain) -> Document:
    return {
        **row.extra,
        "id": row.id,
        "name": row.name,
        "description": row.description,
        "enabled": row.is_enabled,
        "tags": row.tags,
        "options": row.options,
        "links": link_to(request, f"domains/{row.id}"),
    }


def domain_as_project(request: ApiRequest, row: Domain) -> Document:
    """Return a domain as the root project of its trees."""
    shown = {**domain(request, row), "domain_id": None, "parent_id": None, "is_domain": True}
    return {**shown, "links": link_to(request, f"projects/{row.id}")}


def project(request: ApiRequest, row: Project) -> Document:
    return {**project_fields(row), "links": link_to(request, f"projects/{row.id}")}


def project_fields(row: Project) -> Document:
    return {
        **row.extra,
        "id": row.id,
        "name": row.name,
        "domain_id": row.domain_id,
        "description": row.description,
        "enabled": row.is_enabled,
        "parent_id": row.parent_or_domain_id,
        "is_domain": False,
        "tags": [tag.name for tag in row.tags.all()],
        "options": row.options,
    }


def user(request: ApiRequest, row: User) -> Document:
    return {**user_fields(row), "links": link_to(request, f"users/{row.id}")}


def user_fields(row: User) -> Document:
    return {
        **row.extra,
        "id": row.id,
        "name": row.username,
        "domain_id": row.domain_id,
        "description": row.description,
        "email": row.email or None,
        "enabled": row.is_active,
        "default_project_id": row.default_project_id,
        "password_expires_at": None,
        "options": row.options,
    }


def group(request: ApiRequest, row: Group) -> Document:
    return {
        **row.extra,
        "id": row.id,
        "name": row.name,
        "domain_id": row.domain_id,
        "description": row.description,
        "links": link_to(request, f"groups/{row.id}"),
    }


def role(request: ApiRequest, row: Role) -> Document:
    return {**role_fields(row), "links": link_to(request, f"roles/{row.id}")}


def role_fields(row: Role) -> Document:
    return {
        **row.extra,
        "id": row.id,
        "name": row.name,
        "domain_id": row.domain_id,
        "description": row.description,
        "options": {"immutable": True} if is_built_in(row) else row.options,
    }


def role_reference(request: ApiRequest, row: Role) -> Document:
    """Return a role as implied-role rules and trusts refer to it."""
    return {"id": row.id, "name": row.name, "links": link_to(request, f"roles/{row.id}")}


def inference(request: ApiRequest, prior: Role, implied: Iterable[Role]) -> Document:
    """Return a role with all roles that it implies."""
    shown = [role_reference(request, row) for row in implied]
    return {"prior_role": role_reference(request, prior), "implies": shown}
