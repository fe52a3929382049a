"""Projects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.identity import domains, projects
from portal.api.base import ApiRequest
from portal.api.identity.schemas.resources import CHANGE_PROJECT, CREATE_PROJECT
from portal.api.identity.serializers import resources
from portal.api.identity.view import IdentityView, unless_visible
from portal.api.validation import as_boolean, validate


def fields_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The changeable fields in a body, by our names."""
    fields: dict[str, Any] = {}
    if "name" in given:
        fields["name"] = given["name"]
    if "description" in given:
        fields["description"] = given["description"] or ""
    if "enabled" in given:
        fields["is_enabled"] = given["enabled"]
    return fields


def require_same_domain(given: Mapping[str, Any], domain_id: str) -> None:
    """Raises Invalid for a change of the domain, or for a parent that is a project."""
    for name in ("domain_id", "parent_id"):
        if given.get(name) not in (None, domain_id):
            raise Invalid(f"Invalid input for field/attribute {name}. It cannot be other than {domain_id}.")


class Projects(IdentityView):
    """/v3/projects."""

    def get(self, request: ApiRequest) -> Response:
        query = request.query_params
        if not self.may("identity:list_projects"):
            own = projects.of_user(request.context.user_id)
            return Response(resources.listing(request, "projects", _named(own, query), resources.project))
        enabled = as_boolean(query["enabled"], "enabled") if "enabled" in query else None
        found = projects.find(name=query.get("name"), domain_id=query.get("domain_id"), is_enabled=enabled)
        return Response(resources.listing(request, "projects", found, resources.project))

    def post(self, request: ApiRequest) -> Response:
        self.authorize("identity:create_project")
        given = validate(request.data, CREATE_PROJECT)["project"]
        domain_id = given.get("domain_id") or domains.DEFAULT_ID
        require_same_domain(given, domain_id)
        created = projects.create(domain_id=domain_id, **fields_of(given))
        return Response({"project": resources.project(request, created)}, status=201)


def _named(rows: list[Any], query: Mapping[str, str]) -> list[Any]:
    return [row for row in rows if query.get("name") in (None, row.name)]


class Project(IdentityView):
    """/v3/projects/{id}."""

    def get(self, request: ApiRequest, project_id: str) -> Response:
        is_visible = self.may("identity:get_project") or any(
            row.id == project_id for row in projects.of_user(request.context.user_id)
        )
        unless_visible(is_visible, "project", project_id)
        return Response({"project": resources.project(request, projects.get(project_id))})

    def patch(self, request: ApiRequest, project_id: str) -> Response:
        self.authorize("identity:update_project")
        given = validate(request.data, CHANGE_PROJECT)["project"]
        require_same_domain(given, projects.get(project_id).domain_id)
        changed = projects.change(project_id, fields_of(given))
        return Response({"project": resources.project(request, changed)})

    def delete(self, request: ApiRequest, project_id: str) -> Response:
        self.authorize("identity:delete_project")
        projects.delete(project_id)
        return Response(status=204)
