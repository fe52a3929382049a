"""Roles, grants and assignments."""

from __future__ import annotations

from rest_framework.response import Response

from conductor.core.errors import NotFound
from conductor.identity import projects, roles, users
from portal.api.base import ApiRequest
from portal.api.identity.schemas.resources import CREATE_ROLE
from portal.api.identity.serializers import resources
from portal.api.identity.view import IdentityView
from portal.api.validation import validate


class Roles(IdentityView):
    """/v3/roles."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("identity:list_roles")
        found = roles.find(name=request.query_params.get("name"))
        return Response(resources.listing(request, "roles", found, resources.role))

    def post(self, request: ApiRequest) -> Response:
        self.authorize("identity:create_role")
        given = validate(request.data, CREATE_ROLE)["role"]
        return Response({"role": resources.role(request, roles.create(given["name"]))}, status=201)


class Role(IdentityView):
    """/v3/roles/{id}."""

    def get(self, request: ApiRequest, role_id: str) -> Response:
        self.authorize("identity:get_role")
        return Response({"role": resources.role(request, roles.get(role_id))})

    def delete(self, request: ApiRequest, role_id: str) -> Response:
        self.authorize("identity:delete_role")
        roles.delete(role_id)
        return Response(status=204)


class Grants(IdentityView):
    """/v3/projects/{p}/users/{u}/roles."""

    def get(self, request: ApiRequest, project_id: str, user_id: str) -> Response:
        self.authorize("identity:list_grants")
        projects.get(project_id)
        users.get(user_id)
        found = roles.roles_on(user_id, project_id)
        return Response(resources.listing(request, "roles", found, resources.role))


class Grant(IdentityView):
    """/v3/projects/{p}/users/{u}/roles/{r}."""

    def put(self, request: ApiRequest, project_id: str, user_id: str, role_id: str) -> Response:
        self.authorize("identity:create_grant")
        roles.grant(user_id, project_id, role_id)
        return Response(status=204)

    def head(self, request: ApiRequest, project_id: str, user_id: str, role_id: str) -> Response:
        self.authorize("identity:check_grant")
        if not roles.has(user_id, project_id, role_id):
            raise NotFound("Could not find role assignment.")
        return Response(status=204)

    get = head

    def delete(self, request: ApiRequest, project_id: str, user_id: str, role_id: str) -> Response:
        self.authorize("identity:revoke_grant")
        roles.take_away(user_id, project_id, role_id)
        return Response(status=204)


class RoleAssignments(IdentityView):
    """/v3/role_assignments."""

    def get(self, request: ApiRequest) -> Response:
        query = request.query_params
        user_id = query.get("user.id")
        if user_id is None or user_id != request.context.user_id:  # everybody may look at their own
            self.authorize("identity:list_role_assignments")
        found = roles.assignments(
            user_id=user_id, project_id=query.get("scope.project.id"), role_id=query.get("role.id")
        )
        wants_names = query.get("include_names", "false").lower() not in ("false", "0")
        show = resources.named_assignment if wants_names else resources.assignment
        return Response(resources.listing(request, "role_assignments", found, show))
