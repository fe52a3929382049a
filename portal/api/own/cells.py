"""The cells over HTTP: how each is, and closing one to new servers, cutting one off."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rest_framework.response import Response

from conductor.services import cell_deeds, cell_health
from conductor.services.cell_health import Backlog, CellHealth
from portal.api.base import ApiRequest
from portal.api.idempotency import idempotent
from portal.api.own import schemas
from portal.api.own.openapi import described
from portal.api.own.queries import refuse_unknown
from portal.api.own.shapes import Part
from portal.api.own.view import OwnView
from portal.api.validation import validate

CELL = Part("Cell", CellHealth, {"troubles": [str]})


class Cells(OwnView):
    @described({"cells": [CELL], "api_backlog": Backlog})
    def get(self, request: ApiRequest) -> Response:
        """Every cell with what is wrong with it, and the work at the API level."""
        self.authorize("novella:cells:list")
        refuse_unknown(request, frozenset())
        health = cell_health.survey(request.context)
        body = {"cells": [cell_body(one) for one in health.cells], "api_backlog": asdict(health.api_backlog)}
        return Response(body)


class Cell(OwnView):
    @described({"cell": CELL})
    def get(self, request: ApiRequest, cell: str) -> Response:
        """Ask one cell now: how long its database takes, and who of it is heard."""
        self.authorize("novella:cells:list")
        return Response({"cell": cell_body(cell_health.get(request.context, cell))})


class Close(OwnView):
    deed = "close"

    @described({"cell": CELL}, body=schemas.CELL_DEED)
    @idempotent
    def post(self, request: ApiRequest, cell: str) -> Response:
        """No new server is placed on any host of the cell; those that are there stay."""
        return self._do(request, cell)

    def _do(self, request: ApiRequest, cell: str) -> Response:
        self.authorize("novella:cells:change")
        body = validate(request.data, schemas.CELL_DEED)
        cell_deeds.do(request.context, cell, self.deed, reason=body["reason"])
        return Response({"cell": cell_body(cell_health.get(request.context, cell))})


class Quarantine(Close):
    deed = "quarantine"

    @described({"cell": CELL}, body=schemas.CELL_DEED)
    @idempotent
    def post(self, request: ApiRequest, cell: str) -> Response:
        """The cell is left out of lists and sent nothing new, as one that does not answer, until that is lifted."""
        return self._do(request, cell)


class Lift(Close):
    deed = "lift"

    @described({"cell": CELL}, body=schemas.CELL_DEED)
    @idempotent
    def post(self, request: ApiRequest, cell: str) -> Response:
        """The cell is asked again."""
        return self._do(request, cell)


class Open(Close):
    deed = "open"

    @described({"cell": CELL}, body=schemas.CELL_DEED)
    @idempotent
    def post(self, request: ApiRequest, cell: str) -> Response:
        """The scheduler may place servers in the cell again."""
        return self._do(request, cell)


def cell_body(cell: CellHealth) -> dict[str, Any]:
    """A cell as JSON, with what is wrong with it in sentences."""
    return {**asdict(cell), "troubles": [str(one) for one in cell.troubles]}
