"""How much a project may have, and how much it has."""

from __future__ import annotations

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.services import quotas
from conductor.services.values import QuotaView
from portal.api.base import ApiRequest
from portal.api.compute.schemas import quotas as schemas
from portal.api.compute.serializers import parts
from portal.api.compute.serializers import quotas as serializers
from portal.api.compute.view import ComputeView
from portal.api.validation import as_boolean, validate


class Limits(ComputeView):
    def get(self, request: ApiRequest) -> Response:
        self.refuse_unknown_query(("tenant_id", "reserved"))
        project_id = request.query_params.get("tenant_id", request.context.project_id)
        if project_id != request.context.project_id:
            self.allow("limits:other_project")
        shown = serializers.absolute(quotas.show(request.context, project_id), request.microversion)
        return Response({"limits": {"rate": [], "absolute": shown}})


class QuotaSet(ComputeView):
    def get(self, request: ApiRequest, project_id: str) -> Response:
        self.allow("os-quota-sets:show", target_project_id=project_id)
        self.refuse_unknown_query(("user_id",))
        found = quotas.show(request.context, project_id)
        return Response({"quota_set": {"id": project_id, **serializers.quota_set(found, request.microversion)}})

    def put(self, request: ApiRequest, project_id: str) -> Response:
        self._refuse_users()
        wanted = dict(validate(request.data, schemas.update(request.microversion))["quota_set"])
        is_forced = as_boolean(wanted.pop("force", False), "quota_set.force")
        wanted.pop("tenant_id", None)
        limits = {name: parts.number(value, f"quota_set.{name}") for name, value in wanted.items()}
        found = quotas.update(request.context, project_id, limits, is_forced=is_forced)
        return Response({"quota_set": serializers.quota_set(found, request.microversion)})

    def delete(self, request: ApiRequest, project_id: str) -> Response:
        self._refuse_users()
        quotas.reset(request.context, project_id)
        return Response(status=202)

    def _refuse_users(self) -> None:
        if "user_id" in self.request.query_params:
            raise Invalid("Limits are kept per project, not per user.", field="user_id")


class QuotaSetDetail(ComputeView):
    def get(self, request: ApiRequest, project_id: str) -> Response:
        self.allow("os-quota-sets:detail", target_project_id=project_id)
        self.refuse_unknown_query(("user_id",))
        found = quotas.show(request.context, project_id)
        return Response({"quota_set": {"id": project_id, **serializers.quota_set_detail(found, request.microversion)}})


class QuotaSetDefaults(ComputeView):
    def get(self, request: ApiRequest, project_id: str) -> Response:
        found = [QuotaView(resource, limit) for resource, limit in quotas.DEFAULTS.items()]
        return Response({"quota_set": {"id": project_id, **serializers.quota_set(found, request.microversion)}})
