"""Endpoint filters: endpoints and endpoint groups that a project sees instead of the whole catalog."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from conductor.core.errors import NotFound
from conductor.identity import endpoint_filters, projects
from portal.api.base import ApiRequest
from portal.api.identity.representations import catalog as shown
from portal.api.identity.representations.resources import Document, listing, project
from portal.api.identity.schemas import catalog as schemas
from portal.api.identity.view import IdentityView
from portal.api.identity.views.services import all_endpoints, collection, one
from portal.api.validation import validate

_LIST = "identity:list_endpoint_groups"
_CHANGE = "identity:change_endpoint_groups"
_LIST_OF_PROJECT = "identity:list_project_endpoints"
_CHANGE_OF_PROJECT = "identity:change_project_endpoints"


def _in_group(request: ApiRequest, filters: dict[str, str]) -> list[Document]:
    return [endpoint for endpoint in all_endpoints(request) if endpoint_filters.is_in(endpoint, filters)]


class EndpointGroups(IdentityView):
    """/v3/OS-EP-FILTER/endpoint_groups."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize(_LIST)
        found = endpoint_filters.groups(request.query_params.get("name"))
        return Response(listing(request, "endpoint_groups", found, shown.endpoint_group))

    def post(self, request: ApiRequest) -> Response:
        self.authorize(_CHANGE)
        given = validate(request.data, schemas.CREATE_ENDPOINT_GROUP)["endpoint_group"]
        return Response({"endpoint_group": shown.endpoint_group(request, endpoint_filters.create_group(given))}, 201)


class EndpointGroup(IdentityView):
    """/v3/OS-EP-FILTER/endpoint_groups/{id}."""

    def get(self, request: ApiRequest, group_id: str) -> Response:
        self.authorize(_LIST)
        return Response({"endpoint_group": shown.endpoint_group(request, endpoint_filters.group(group_id))})

    def patch(self, request: ApiRequest, group_id: str) -> Response:
        self.authorize(_CHANGE)
        given = validate(request.data, schemas.CHANGE_ENDPOINT_GROUP)["endpoint_group"]
        changed = endpoint_filters.change_group(group_id, given)
        return Response({"endpoint_group": shown.endpoint_group(request, changed)})

    def delete(self, request: ApiRequest, group_id: str) -> Response:
        self.authorize(_CHANGE)
        endpoint_filters.delete_group(group_id)
        return Response(status=204)


class GroupEndpoints(IdentityView):
    """/v3/OS-EP-FILTER/endpoint_groups/{id}/endpoints."""

    def get(self, request: ApiRequest, group_id: str) -> Response:
        self.authorize(_LIST)
        return collection(request, "endpoints", _in_group(request, endpoint_filters.group(group_id).filters))


class GroupProjects(IdentityView):
    """/v3/OS-EP-FILTER/endpoint_groups/{id}/projects."""

    def get(self, request: ApiRequest, group_id: str) -> Response:
        self.authorize(_LIST)
        return Response(listing(request, "projects", endpoint_filters.projects_with(group_id), project))


class GroupProject(IdentityView):
    """/v3/OS-EP-FILTER/endpoint_groups/{id}/projects/{id}."""

    def get(self, request: ApiRequest, group_id: str, project_id: str) -> Response:
        self.authorize(_LIST)
        found = endpoint_filters.group_of(group_id, project_id)
        return Response({"endpoint_group": shown.endpoint_group(request, found)})

    def put(self, request: ApiRequest, group_id: str, project_id: str) -> Response:
        self.authorize(_CHANGE)
        endpoint_filters.add_group(group_id, project_id)
        return Response(status=204)

    def delete(self, request: ApiRequest, group_id: str, project_id: str) -> Response:
        self.authorize(_CHANGE)
        endpoint_filters.remove_group(group_id, project_id)
        return Response(status=204)


class ProjectEndpointGroups(IdentityView):
    """/v3/OS-EP-FILTER/projects/{id}/endpoint_groups."""

    def get(self, request: ApiRequest, project_id: str) -> Response:
        self.authorize(_LIST)
        found = endpoint_filters.groups_of(project_id)
        return Response(listing(request, "endpoint_groups", found, shown.endpoint_group))


class ProjectEndpoints(IdentityView):
    """/v3/OS-EP-FILTER/projects/{id}/endpoints: the project's endpoints; empty if it sees the whole catalog."""

    def get(self, request: ApiRequest, project_id: str) -> Response:
        self.authorize(_LIST_OF_PROJECT)
        narrowing = endpoint_filters.narrowing(projects.get(project_id).id)
        found: list[dict[str, Any]] = []
        if narrowing is not None:
            found = [endpoint for endpoint in all_endpoints(request) if narrowing.keeps(endpoint)]
        return collection(request, "endpoints", found)


class ProjectEndpoint(IdentityView):
    """/v3/OS-EP-FILTER/projects/{id}/endpoints/{id}."""

    def get(self, request: ApiRequest, project_id: str, endpoint_id: str) -> Response:
        self.authorize(_LIST_OF_PROJECT)
        if not endpoint_filters.has(project_id, endpoint_id):
            raise NotFound(f"Could not find endpoint {endpoint_id} of project {project_id}.")
        return Response(status=204)

    def put(self, request: ApiRequest, project_id: str, endpoint_id: str) -> Response:
        self.authorize(_CHANGE_OF_PROJECT)
        one("endpoint", all_endpoints(request), endpoint_id)
        endpoint_filters.add(project_id, endpoint_id)
        return Response(status=204)

    def delete(self, request: ApiRequest, project_id: str, endpoint_id: str) -> Response:
        self.authorize(_CHANGE_OF_PROJECT)
        endpoint_filters.remove(project_id, endpoint_id)
        return Response(status=204)


class EndpointProjects(IdentityView):
    """/v3/OS-EP-FILTER/endpoints/{id}/projects."""

    def get(self, request: ApiRequest, endpoint_id: str) -> Response:
        self.authorize(_LIST_OF_PROJECT)
        one("endpoint", all_endpoints(request), endpoint_id)
        return Response(listing(request, "projects", endpoint_filters.projects_of(endpoint_id), project))
