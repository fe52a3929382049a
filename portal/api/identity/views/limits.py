"""Registered limits and limits."""

from __future__ import annotations

from collections.abc import Mapping

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.identity import limits
from conductor.identity.models import Limit as LimitRow
from conductor.identity.models import RegisteredLimit as RegisteredRow
from portal.api.base import ApiRequest
from portal.api.identity.representations.resources import Document, link_to, listing
from portal.api.identity.schemas import catalog as schemas
from portal.api.identity.view import IdentityView
from portal.api.identity.views.services import OWN_SERVICES
from portal.api.validation import validate


def _registered(request: ApiRequest, row: RegisteredRow) -> Document:
    return {
        "id": row.id,
        "service_id": row.service_id,
        "region_id": row.region_id,
        "resource_name": row.resource_name,
        "default_limit": row.default_limit,
        "description": row.description,
        "links": link_to(request, f"registered_limits/{row.id}"),
    }


def _limit(request: ApiRequest, row: LimitRow) -> Document:
    return {
        "id": row.id,
        "project_id": row.project_id,
        "domain_id": row.domain_id,
        "service_id": row.registered.service_id,
        "region_id": row.registered.region_id,
        "resource_name": row.registered.resource_name,
        "resource_limit": row.resource_limit,
        "description": row.description,
        "links": link_to(request, f"limits/{row.id}"),
    }


class RegisteredLimits(IdentityView):
    """/v3/registered_limits."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("identity:list_registered_limits")
        found, has_more = limits.find_registered(self.question(*limits.COLUMNS))
        return Response(listing(request, "registered_limits", found, _registered, has_more=has_more))

    def post(self, request: ApiRequest) -> Response:
        self.authorize("identity:change_registered_limits")
        given = validate(request.data, schemas.CREATE_REGISTERED)["registered_limits"]
        made = limits.register(OWN_SERVICES, given)
        return Response(listing(request, "registered_limits", made, _registered), status=201)


class RegisteredLimit(IdentityView):
    """/v3/registered_limits/{id}."""

    def get(self, request: ApiRequest, limit_id: str) -> Response:
        self.authorize("identity:list_registered_limits")
        return Response({"registered_limit": _registered(request, limits.registered(limit_id))})

    def patch(self, request: ApiRequest, limit_id: str) -> Response:
        self.authorize("identity:change_registered_limits")
        given = validate(request.data, schemas.CHANGE_REGISTERED)["registered_limit"]
        changed = limits.change_registered(OWN_SERVICES, limit_id, given)
        return Response({"registered_limit": _registered(request, changed)})

    def delete(self, request: ApiRequest, limit_id: str) -> Response:
        self.authorize("identity:change_registered_limits")
        limits.unregister(limit_id)
        return Response(status=204)


class LimitModel(IdentityView):
    """/v3/limits/model: flat, so a project's limits do not depend on its parents."""

    def get(self, request: ApiRequest) -> Response:
        description = "Limit enforcement and validation does not take project hierarchy into consideration."
        return Response({"model": {"name": "flat", "description": description}})


class Limits(IdentityView):
    """/v3/limits."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("identity:list_limits")
        question = self.question(*limits.LIMIT_COLUMNS)
        found, has_more = limits.find(question, self._own())
        return Response(listing(request, "limits", found, _limit, has_more=has_more))

    def _own(self) -> Mapping[str, str]:
        """Return the filter for callers that may not read all limits: their own project or domain."""
        context = self.request.context
        if self.may("identity:list_all_limits"):
            return {}
        return {"domain_id": context.domain_id} if context.domain_id else {"project_id": context.project_id}

    def post(self, request: ApiRequest) -> Response:
        self.authorize("identity:change_limits")
        given = validate(request.data, schemas.CREATE_LIMITS)["limits"]
        for requested in given:
            if (requested.get("project_id") is None) == (requested.get("domain_id") is None):
                raise Invalid("Invalid input for field/attribute limits. Each is for a project_id or a domain_id.")
        return Response(listing(request, "limits", limits.create(given), _limit), status=201)


class Limit(IdentityView):
    """/v3/limits/{id}."""

    def get(self, request: ApiRequest, limit_id: str) -> Response:
        row = limits.get(limit_id)
        domain_id = row.domain_id or (row.project.domain_id if row.project is not None else "")
        self.authorize("identity:get_limit", target_project_id=row.project_id or "", target_domain_id=domain_id)
        return Response({"limit": _limit(request, row)})

    def patch(self, request: ApiRequest, limit_id: str) -> Response:
        self.authorize("identity:change_limits")
        given = validate(request.data, schemas.CHANGE_LIMIT)["limit"]
        return Response({"limit": _limit(request, limits.change(limit_id, given))})

    def delete(self, request: ApiRequest, limit_id: str) -> Response:
        self.authorize("identity:change_limits")
        limits.delete(limit_id)
        return Response(status=204)
