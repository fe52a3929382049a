"""Users, their passwords and projects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.response import Response

from conductor.identity import domains, projects, users
from portal.api.base import ApiRequest
from portal.api.identity.schemas.resources import CHANGE_PASSWORD, CHANGE_USER, CREATE_USER
from portal.api.identity.serializers import resources
from portal.api.identity.view import IdentityView, unless_visible
from portal.api.identity.views.projects import require_same_domain
from portal.api.validation import as_boolean, validate

# Name in the body → ours; a null stands for the empty value behind it.
_FIELDS: Mapping[str, tuple[str, Any]] = {
    "name": ("username", ""),
    "password": ("password", None),
    "email": ("email", ""),
    "description": ("description", ""),
    "enabled": ("is_active", True),
    "default_project_id": ("default_project_id", None),
}


def fields_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The changeable fields in a body, by our names."""
    return {
        field: empty if given[name] is None else given[name]
        for name, (field, empty) in _FIELDS.items()
        if name in given
    }


class Users(IdentityView):
    """/v3/users."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("identity:list_users")
        query = request.query_params
        enabled = as_boolean(query["enabled"], "enabled") if "enabled" in query else None
        found = users.find(username=query.get("name"), domain_id=query.get("domain_id"), is_active=enabled)
        return Response(resources.listing(request, "users", found, resources.user))

    def post(self, request: ApiRequest) -> Response:
        self.authorize("identity:create_user")
        given = validate(request.data, CREATE_USER)["user"]
        fields = fields_of(given)
        created = users.create(
            fields.pop("username"),
            fields.pop("password", None),
            domain_id=given.get("domain_id") or domains.DEFAULT_ID,
            **fields,
        )
        return Response({"user": resources.user(request, created)}, status=201)


class User(IdentityView):
    """/v3/users/{id}."""

    def get(self, request: ApiRequest, user_id: str) -> Response:
        self.authorize("identity:get_user", target_user_id=user_id)
        return Response({"user": resources.user(request, users.get(user_id))})

    def patch(self, request: ApiRequest, user_id: str) -> Response:
        self.authorize("identity:update_user")
        given = validate(request.data, CHANGE_USER)["user"]
        require_same_domain(given, users.get(user_id).domain_id)
        changed = users.change(user_id, fields_of(given))
        return Response({"user": resources.user(request, changed)})

    def delete(self, request: ApiRequest, user_id: str) -> Response:
        self.authorize("identity:delete_user")
        users.delete(user_id)
        return Response(status=204)


class UserPassword(IdentityView):
    """/v3/users/{id}/password: one's own, proved by the old one."""

    def post(self, request: ApiRequest, user_id: str) -> Response:
        unless_visible(user_id == request.context.user_id, "user", user_id)
        self.authorize("identity:change_password", target_user_id=user_id)
        given = validate(request.data, CHANGE_PASSWORD)["user"]
        users.change_own_password(user_id, given["original_password"], given["password"])
        return Response(status=204)


class UserProjects(IdentityView):
    """/v3/users/{id}/projects."""

    def get(self, request: ApiRequest, user_id: str) -> Response:
        self.authorize("identity:list_user_projects", target_user_id=user_id)
        users.get(user_id)
        return Response(resources.listing(request, "projects", projects.of_user(user_id), resources.project))
