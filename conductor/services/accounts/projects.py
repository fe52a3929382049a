"""Projects of the cloud, as callers with the right to do so read and change them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.core.context import RequestContext
from conductor.core.errors import NotFound
from conductor.core.phrases import phrase
from conductor.identity import domains, managers, projects
from conductor.identity.models import Project
from conductor.identity.projects import find, get

__all__ = ["create", "delete", "domain_of_new", "find", "get", "update"]


def domain_of_new(context: RequestContext, given: Mapping[str, Any]) -> str:
    """Return the domain of a project to create: for administrators that of its parent, if no domain is given."""
    parent_id = given.get("parent_id")
    if given.get("domain_id") is None and parent_id is not None and context.is_admin:
        try:
            return projects.get(parent_id).domain_id
        except NotFound:
            return domains.get(parent_id).id
    return domains.of_new(context, given.get("domain_id"))


def create(context: RequestContext, given: Mapping[str, Any], extra: Mapping[str, Any] | None = None) -> Project:
    """Create a project by the names of the API's fields; `extra` are further values to store.

    Raises Forbidden, Conflict for a taken name, and NotFound for a parent that the caller may not see.
    """
    domain_id, parent_id = domain_of_new(context, given), given.get("parent_id")
    managers.require_project(context, given["name"], domain_id, "identity:create_project")
    is_under_another = parent_id not in (None, domain_id) and not context.is_admin
    if is_under_another and projects.domain_id_of(str(parent_id)) != domain_id:
        raise NotFound(phrase("Could not find project: %(id)s.", id=parent_id))
    fields = domains.fields_of(given, extra)
    created = projects.create(fields.pop("name"), domain_id=domain_id, parent_id=parent_id, **fields)
    return projects.get(created.id)


def update(
    context: RequestContext, project: Project, given: Mapping[str, Any], extra: Mapping[str, Any] | None = None
) -> Project:
    """Update the given fields of a project. Raises Forbidden, Conflict for a taken name, NotFound."""
    name = given.get("name", project.name)
    managers.require_project(context, name, project.domain_id, "identity:update_project")
    return projects.change(project.id, domains.fields_of(given, extra))


def delete(context: RequestContext, project: Project) -> None:
    """Delete a project without descendants, with its assignments and tokens. Raises Forbidden, NotFound."""
    managers.require_project(context, project.name, project.domain_id, "identity:delete_project")
    projects.delete(project.id)
