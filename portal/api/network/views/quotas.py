"""Quotas of projects: limits, usage, and changes by administrators."""

from __future__ import annotations

from dataclasses import asdict
from typing import ClassVar

from rest_framework.response import Response

from conductor.network import quotas
from conductor.services.quotas import network_quotas
from portal.api.base import ApiRequest
from portal.api.network.representations.quotas import requested_limits
from portal.api.network.schemas import routing
from portal.api.network.view import NetworkView
from portal.api.network.views.collections import checked_project
from portal.api.validation import validate


class Quotas(NetworkView):
    """/v2.0/quotas: projects with limits of their own."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("list_quotas")
        found = quotas.list_set().items()
        shown = [{**limits, "project_id": project_id, "tenant_id": project_id} for project_id, limits in found]
        return Response({"quotas": shown})


class QuotaProject(NetworkView):
    """/v2.0/quotas/project: the project of the caller's token."""

    name: ClassVar[str] = "project"

    def get(self, request: ApiRequest) -> Response:
        self.authorize("get_quota")
        project_id = request.context.project_id
        return Response({self.name: {"project_id": project_id, "tenant_id": project_id}})


class Quota(NetworkView):
    """/v2.0/quotas/{project}."""

    def get(self, request: ApiRequest, project_id: str) -> Response:
        self.authorize("get_quota", target_project_id=project_id)
        checked_project(project_id)
        return Response({"quota": quotas.limits(project_id)})

    def put(self, request: ApiRequest, project_id: str) -> Response:
        """Set limits. `check_limit` refuses limits below the usage; `force` (the default) does not."""
        self.authorize("update_quota", target_project_id=project_id)
        checked_project(project_id)
        given = validate(request.data, routing.QUOTA)["quota"]
        limits, is_checked = requested_limits(given)
        network_quotas.update(request.context, project_id, limits, is_checked=is_checked)
        return Response({"quota": quotas.limits(project_id)})

    def delete(self, request: ApiRequest, project_id: str) -> Response:
        self.authorize("delete_quota", target_project_id=project_id)
        checked_project(project_id)
        network_quotas.reset(project_id)
        return Response(status=204)


class Defaults(NetworkView):
    """/v2.0/quotas/{project}/default."""

    def get(self, request: ApiRequest, project_id: str) -> Response:
        self.authorize("get_quota", target_project_id=project_id)
        checked_project(project_id)
        return Response({"quota": quotas.defaults()})


class Details(NetworkView):
    """/v2.0/quotas/{project}/details: limits with their usage."""

    def get(self, request: ApiRequest, project_id: str) -> Response:
        self.authorize("get_quota", target_project_id=project_id)
        checked_project(project_id)
        return Response({"quota": {name: asdict(use) for name, use in quotas.usages(project_id).items()}})
