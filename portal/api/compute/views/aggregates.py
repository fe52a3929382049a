"""Aggregates: operators' groups of hosts. Read only for now."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from rest_framework.response import Response

from conductor.services import aggregates
from conductor.services.values import AggregateView
from portal.api.base import ApiRequest
from portal.api.compute.serializers import parts
from portal.api.compute.view import ComputeView
from portal.api.microversions import Microversion

# Aggregates keep no time of their making, and clients insist on one.
NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)


class Aggregates(ComputeView):
    def get(self, request: ApiRequest) -> Response:
        self.allow("os-aggregates")
        found = aggregates.list_all(request.context)
        return Response({"aggregates": [_aggregate(one, request.microversion) for one in found]})


class AggregateByRef(ComputeView):
    def get(self, request: ApiRequest, ref: str) -> Response:
        self.allow("os-aggregates")
        return Response({"aggregate": _aggregate(aggregates.get(request.context, ref), request.microversion)})


def _aggregate(aggregate: AggregateView, version: Microversion) -> dict[str, Any]:
    shown = {
        "id": aggregate.number,
        "name": aggregate.name,
        "availability_zone": aggregate.metadata.get("availability_zone"),
        "hosts": list(aggregate.hosts),
        "metadata": dict(aggregate.metadata),
        "created_at": parts.to_the_digit(NO_TIME),
        "updated_at": None,
        "deleted_at": None,
        "deleted": False,
    }
    return shown | {"uuid": aggregate.uuid} if version.covers("2.41") else shown
