"""Quota limits and usage of projects."""

from __future__ import annotations

from rest_framework.response import Response

from conductor.services.quotas import quotas
from conductor.services.quotas.types import QuotaView
from portal.api.base import ApiRequest
from portal.api.compute.representations import quotas as serializers
from portal.api.compute.schemas import quotas as schemas
from portal.api.compute.view import BARE_SINCE, ComputeView
from portal.api.validation import validate


class Limits(ComputeView):
    def get(self, request: ApiRequest) -> Response:
        self.refuse_unknown_query(("tenant_id", "reserved"))
        project_id = request.query_params.get("tenant_id")
        if project_id is not None:
            self.allow("limits:other_project")
        project_id = project_id or request.context.project_id
        shown = serializers.absolute(quotas.show(request.context, project_id), request.microversion)
        return Response({"limits": {"rate": [], "absolute": shown}})


class QuotaSetView(ComputeView):
    """Limits of a project, or with `user_id` of one of its users."""

    @property
    def user_id(self) -> str:
        self.refuse_unknown_query(("user_id",))
        return self.request.query_params.get("user_id", "")

    def found(self, project_id: str) -> list[QuotaView]:
        quotas.require_project(project_id)
        return quotas.show(self.request.context, project_id, self.user_id)


class QuotaSet(QuotaSetView):
    def get(self, request: ApiRequest, project_id: str) -> Response:
        self.allow("os-quota-sets:show", target_project_id=project_id)
        shown = serializers.quota_set(self.found(project_id), request.microversion)
        return Response({"quota_set": {"id": project_id, **shown}})

    def put(self, request: ApiRequest, project_id: str) -> Response:
        wanted = validate(request.data, schemas.update(request.microversion))["quota_set"]
        limits, is_forced = serializers.requested_limits(wanted)
        context, user_id = request.context, self.user_id
        if user_id:
            found = quotas.update_user(context, project_id, user_id, limits, is_forced=is_forced)
        else:
            found = quotas.update(context, project_id, limits, is_forced=is_forced)
        return Response({"quota_set": serializers.quota_set(found, request.microversion)})

    def delete(self, request: ApiRequest, project_id: str) -> Response:
        quotas.reset(request.context, project_id, self.user_id)
        return Response(status=202)


class QuotaSetDetail(QuotaSetView):
    def get(self, request: ApiRequest, project_id: str) -> Response:
        self.allow("os-quota-sets:detail", target_project_id=project_id)
        shown = serializers.quota_set_detail(self.found(project_id), request.microversion)
        return Response({"quota_set": {"id": project_id, **shown}})


class QuotaSetDefaults(ComputeView):
    def get(self, request: ApiRequest, project_id: str) -> Response:
        quotas.require_project(project_id)
        found = [QuotaView(resource, limit) for resource, limit in quotas.class_limits("default").items()]
        return Response({"quota_set": {"id": project_id, **serializers.quota_set(found, request.microversion)}})


class QuotaClassSet(ComputeView):
    """Limits of projects without limits of their own: the class `default`. Other classes are stored without effect."""

    bare_since = BARE_SINCE

    def get(self, request: ApiRequest, name: str) -> Response:
        return Response({"quota_class_set": {"id": name, **self._shown(quotas.class_limits(name))}})

    def put(self, request: ApiRequest, name: str) -> Response:
        wanted = validate(request.data, schemas.update_class(request.microversion))["quota_class_set"]
        limits = serializers.limits(wanted, "quota_class_set")
        return Response({"quota_class_set": self._shown(quotas.update_class(request.context, name, limits))})

    def _shown(self, limits: dict[str, int]) -> dict[str, int]:
        return {
            name: limit for name, limit in limits.items() if serializers.is_of_class(name, self.request.microversion)
        }
