"""Limits of the kinds of rows that OpenStack's quota APIs do not name."""

from __future__ import annotations

from collections.abc import Mapping

from rest_framework import serializers
from rest_framework.response import Response

from conductor.services.quotas import row_quotas
from conductor.services.quotas.row_quotas import RowQuota
from portal.api.base import ApiRequest
from portal.api.novella.bodies import BodySerializer
from portal.api.novella.data import envelope, numbers, serializer_of
from portal.api.novella.fields import IntegerField, MapField
from portal.api.novella.operations import describes
from portal.api.novella.viewset import NovellaViewSet

RowQuotaSerializer = serializer_of(RowQuota)


class LimitsBody(BodySerializer):
    limits = MapField(IntegerField(min_value=-1, max_value=2**31 - 1), least=1, most=50, longest_name=64)


DEFAULTS = envelope(defaults=numbers())
QUOTAS = envelope(quotas=serializers.DictField(child=RowQuotaSerializer()))


class QuotaDefaultViewSet(NovellaViewSet):
    @describes(DEFAULTS)
    def retrieve(self, request: ApiRequest) -> Response:
        """Show the default limit of each kind for projects without limits of their own; -1 is no limit."""
        self.authorize("novella:quotas:show")
        return Response({"defaults": row_quotas.defaults()})

    @describes(DEFAULTS, body=LimitsBody)
    def update(self, request: ApiRequest) -> Response:
        """Set some of the default limits."""
        self.authorize("novella:quotas:change")
        limits = LimitsBody.parse(request.data)["limits"]
        return Response({"defaults": row_quotas.update_defaults(request.context, limits)})


class QuotaViewSet(NovellaViewSet):
    lookup_url_kwarg = "project_id"

    @describes(QUOTAS)
    def retrieve(self, request: ApiRequest, project_id: str) -> Response:
        """Show each kind with its limit and usage; for kinds that count per user, the caller's usage."""
        self.authorize("novella:quotas:show")
        return self._quotas(row_quotas.show(request.context, project_id))

    @describes(QUOTAS, body=LimitsBody)
    def update(self, request: ApiRequest, project_id: str) -> Response:
        """Set some limits of a project; existing resources stay, even above a limit."""
        self.authorize("novella:quotas:change")
        limits = LimitsBody.parse(request.data)["limits"]
        return self._quotas(row_quotas.update(request.context, project_id, limits))

    @describes(None, 204)
    def destroy(self, request: ApiRequest, project_id: str) -> Response:
        """Go back to the defaults."""
        self.authorize("novella:quotas:change")
        row_quotas.reset(request.context, project_id)
        return Response(status=204)

    def _quotas(self, found: Mapping[str, RowQuota]) -> Response:
        return Response({"quotas": {kind: self.shown(RowQuotaSerializer, one) for kind, one in found.items()}})
