"""Roles and implied roles."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from conductor.identity import implications
from conductor.services.accounts import roles
from portal.api.base import ApiRequest
from portal.api.identity import queries
from portal.api.identity.representations import resources
from portal.api.identity.schemas.resources import CHANGE_ROLE, CREATE_ROLE, extra_of
from portal.api.identity.view import IdentityView, require_unchanged
from portal.api.validation import validate


class Roles(IdentityView):
    """/v3/roles."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("identity:list_roles", target_domain_id=request.context.domain_id)
        found, has_more = roles.find(self.question(*queries.ROLES))
        return Response(resources.listing(request, "roles", found, resources.role, has_more=has_more))

    def post(self, request: ApiRequest) -> Response:
        self.authorize("identity:create_role")
        given = validate(request.data, CREATE_ROLE)["role"]
        created = roles.create(given, extra_of(given, CREATE_ROLE, "role"))
        return Response({"role": resources.role(request, created)}, status=201)


class Role(IdentityView):
    """/v3/roles/{id}."""

    def get(self, request: ApiRequest, role_id: str) -> Response:
        self.authorize("identity:get_role", target_domain_id=request.context.domain_id)
        return Response({"role": resources.role(request, roles.get(role_id))})

    def patch(self, request: ApiRequest, role_id: str) -> Response:
        self.authorize("identity:update_role")
        given = validate(request.data, CHANGE_ROLE)["role"]
        require_unchanged(given, {"domain_id": roles.get(role_id).domain_id}, ["domain_id"])
        changed = roles.update(role_id, given, extra_of(given, CHANGE_ROLE, "role"))
        return Response({"role": resources.role(request, changed)})

    def delete(self, request: ApiRequest, role_id: str) -> Response:
        self.authorize("identity:delete_role")
        roles.delete(role_id)
        return Response(status=204)


class ImpliedRoles(IdentityView):
    """/v3/roles/{id}/implies."""

    def get(self, request: ApiRequest, role_id: str) -> Response:
        self.authorize("identity:list_implied_roles")
        prior = roles.get(role_id)
        shown = resources.inference(request, prior, implications.of(prior))
        return Response({"role_inference": shown, "links": {"self": request.build_absolute_uri()}})


class ImpliedRole(IdentityView):
    """/v3/roles/{id}/implies/{id}."""

    def _shown(self, request: ApiRequest, rule: tuple[Any, Any]) -> dict[str, Any]:
        prior, implied = (resources.role_reference(request, role) for role in rule)
        links = {"self": request.build_absolute_uri()}
        return {"role_inference": {"prior_role": prior, "implies": implied}, "links": links}

    def get(self, request: ApiRequest, role_id: str, implied_id: str) -> Response:
        self.authorize("identity:list_implied_roles")
        return Response(self._shown(request, implications.require(role_id, implied_id)))

    def head(self, request: ApiRequest, role_id: str, implied_id: str) -> Response:
        self.authorize("identity:list_implied_roles")
        implications.require(role_id, implied_id)
        return Response(status=204)

    def put(self, request: ApiRequest, role_id: str, implied_id: str) -> Response:
        self.authorize("identity:create_implied_role")
        return Response(self._shown(request, implications.add(role_id, implied_id)), status=201)

    def delete(self, request: ApiRequest, role_id: str, implied_id: str) -> Response:
        self.authorize("identity:delete_implied_role")
        implications.remove(role_id, implied_id)
        return Response(status=204)


class RoleInferences(IdentityView):
    """/v3/role_inferences: every rule."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("identity:list_implied_roles")
        shown = [resources.inference(request, prior, implied) for prior, implied in implications.all_rules()]
        return Response({"role_inferences": shown, "links": {"self": request.build_absolute_uri()}})
