"""JSON of role assignments."""

from __future__ import annotations

from typing import Any

from conductor.identity.assignments import ListedAssignment
from conductor.identity.models import Domain, Role
from portal.api.base import ApiRequest
from portal.api.identity.representations.resources import ROOT, Document
from portal.api.links import absolute


def assignment(request: ApiRequest, shown: ListedAssignment, *, with_names: bool) -> Document:
    """Return an assignment with its links; `with_names` implements `include_names`."""
    return {**assignment_fields(shown, with_names=with_names), "links": _links(request, shown)}


def assignment_fields(shown: ListedAssignment, *, with_names: bool) -> Document:
    """Return role, actor and scope of an assignment."""
    document: Document = {"role": _role(shown.role, with_names), "scope": _scope(shown, with_names)}
    if shown.group is not None:
        document["group"] = _named(shown.group, shown.group.name, with_names)
    else:
        document["user"] = _named(shown.user, shown.user.username, with_names)
    return document


def _role(role: Role, with_names: bool) -> Document:
    document: Document = {"id": role.id}
    if with_names:
        document["name"] = role.name
        if role.domain is not None:
            document["domain"] = _domain(role.domain)
    return document


def _domain(domain: Domain) -> dict[str, str]:
    return {"id": domain.id, "name": domain.name}


def _named(row: Any, name: str, with_names: bool) -> Document:
    return {"id": row.id, "name": name, "domain": _domain(row.domain)} if with_names else {"id": row.id}


def _scope(shown: ListedAssignment, with_names: bool) -> Document:
    if shown.project is not None:
        scope: Document = {"project": _named(shown.project, shown.project.name, with_names)}
    elif shown.domain is not None:
        scope = {"domain": _domain(shown.domain) if with_names else {"id": shown.domain.id}}
    else:
        scope = {"system": {"all": True}}
    if shown.is_inherited:
        scope["OS-INHERIT:inherited_to"] = "projects"
    return scope


def _links(request: ApiRequest, shown: ListedAssignment) -> dict[str, str]:
    assert shown.source is not None
    links = {"assignment": absolute(request, f"{ROOT}/{assignment_path(shown)}")}
    if shown.source.group_id is not None and shown.group is None:
        links["membership"] = absolute(request, f"{ROOT}/groups/{shown.source.group_id}/users/{shown.user.id}")
    if shown.prior_role is not None:
        links["prior_role"] = absolute(request, f"{ROOT}/prior_role/{shown.prior_role.id}/implies/{shown.role.id}")
    return links


def assignment_path(shown: ListedAssignment) -> str:
    """Return the path, below the root of the API, that grants and revokes the assignment."""
    assert shown.source is not None
    row = shown.source
    actor = f"groups/{row.group_id}" if row.group_id is not None else f"users/{row.user_id}"
    if row.is_on_system:
        return f"system/{actor}/roles/{row.role_id}"
    target = f"projects/{row.project_id}" if row.project_id is not None else f"domains/{row.domain_id}"
    if row.is_inherited:
        return f"OS-INHERIT/{target}/{actor}/roles/{row.role_id}/inherited_to_projects"
    return f"{target}/{actor}/roles/{row.role_id}"
