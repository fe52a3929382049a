"""Cells: their health, closing one to new servers, and quarantine."""

from __future__ import annotations

from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.response import Response

from conductor.services.cells import actions
from conductor.services.cells import health as cell_health
from conductor.services.cells.health import Backlog, CellHealth
from portal.api.base import ApiRequest
from portal.api.idempotency import idempotent
from portal.api.novella.bodies import BodySerializer
from portal.api.novella.data import DataSerializer, envelope, serializer_of
from portal.api.novella.fields import ReasonField
from portal.api.novella.filters import QuerySerializer
from portal.api.novella.operations import describes
from portal.api.novella.viewset import NovellaViewSet


class CellSerializer(DataSerializer):
    """A cell, with its problems in sentences."""

    troubles = serializers.ListField(child=serializers.CharField())

    class Meta:
        dataclass = CellHealth

    def represent_troubles(self, cell: CellHealth) -> list[str]:
        return [str(one) for one in cell.troubles]


class CellFilter(QuerySerializer):
    """No filters."""


class CellActionBody(BodySerializer):
    reason = ReasonField()


BacklogSerializer = serializer_of(Backlog)
ONE = envelope(cell=CellSerializer)


class CellViewSet(NovellaViewSet):
    lookup_url_kwarg = "cell"

    @describes(envelope(cells=CellSerializer(many=True), api_backlog=BacklogSerializer))
    def list(self, request: ApiRequest) -> Response:
        """List all cells with their problems, and the work that is queued at the API level."""
        self.authorize("novella:cells:list")
        CellFilter.parse(request)
        health = cell_health.survey(request.context)
        cells = self.shown(CellSerializer, list(health.cells))
        return Response({"cells": cells, "api_backlog": self.shown(BacklogSerializer, health.api_backlog)})

    @describes(ONE)
    def retrieve(self, request: ApiRequest, cell: str) -> Response:
        """Check one cell now: the latency of its database, and which of its services send heartbeats."""
        self.authorize("novella:cells:list")
        return Response({"cell": self.shown(CellSerializer, cell_health.get(request.context, cell))})

    @describes(ONE, body=CellActionBody)
    @action(detail=True, methods=["post"])
    @idempotent
    def close(self, request: ApiRequest, cell: str) -> Response:
        """Close a cell: no new server is placed on its hosts; existing servers stay."""
        return self._act(request, cell, "close")

    @describes(ONE, body=CellActionBody)
    @action(detail=True, methods=["post"])
    @idempotent
    def open(self, request: ApiRequest, cell: str) -> Response:
        """Open a cell: the scheduler may place servers in it again."""
        return self._act(request, cell, "open")

    @describes(ONE, body=CellActionBody)
    @action(detail=True, methods=["post"])
    @idempotent
    def quarantine(self, request: ApiRequest, cell: str) -> Response:
        """Quarantine a cell: until that is lifted it counts as unreachable."""
        return self._act(request, cell, "quarantine")

    @describes(ONE, body=CellActionBody)
    @action(detail=True, methods=["post"])
    @idempotent
    def lift(self, request: ApiRequest, cell: str) -> Response:
        """Lift the quarantine of a cell: it is used again."""
        return self._act(request, cell, "lift")

    def _act(self, request: ApiRequest, cell: str, name: str) -> Response:
        self.authorize("novella:cells:change")
        actions.execute(request.context, cell, name, reason=CellActionBody.parse(request.data)["reason"])
        return Response({"cell": self.shown(CellSerializer, cell_health.get(request.context, cell))})
