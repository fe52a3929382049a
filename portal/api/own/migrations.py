"""A live migration: how it gets on, and the orders that it takes while its guest moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import ClassVar

from rest_framework.response import Response

from conductor.core.errors import Conflict, Forbidden, NotFound, NotSupported
from conductor.core.live_steering import STEERINGS, Steering
from conductor.services import audit, migration_panels
from conductor.services.convergence import Sample, Verdict
from conductor.services.live_orders import ABORT, FINISH
from conductor.services.migration_offers import Offer
from conductor.services.migration_panels import MigrationPanel, OrderView
from portal.api.base import ApiRequest
from portal.api.idempotency import idempotent
from portal.api.links import absolute
from portal.api.own.openapi import described
from portal.api.own.shapes import Part
from portal.api.own.view import OwnView, plain
from portal.api.schema_parts import Schema, closed
from portal.api.validation import validate

MIGRATION = Part(
    "LiveMigration",
    MigrationPanel,
    {
        "verdict": Part("MigrationVerdict", Verdict),
        "offers": [Part("MigrationOffer", Offer)],
        "orders": [Part("MigrationOrder", OrderView)],
        "last?": Part("MigrationSample", Sample),
    },
    without=("samples", "rates"),
)


def _amount_of(one: Steering) -> Schema:
    amount = {one.field: {"type": "integer", "minimum": one.least, "maximum": one.most}}
    return closed(amount, required=(one.field,)) if one.field else closed({})


# The body of each order: its amount, where it takes one.
ORDERS: Mapping[str, Schema] = {
    **dict.fromkeys((ABORT, FINISH), closed({})),
    **{one.kind: _amount_of(one) for one in STEERINGS.values()},
}


class LiveMigration(OwnView):
    @described({"migration": MIGRATION})
    def get(self, request: ApiRequest, run_uuid: str) -> Response:
        """How the workflow's live migration gets on, what was ordered of it, and what may be, with why not."""
        self.authorize("novella:workflows:show")
        panel = _panel(request, run_uuid)
        body = asdict(replace(panel, samples=[], rates=[]))
        body = {name: value for name, value in body.items() if name not in ("samples", "rates")}
        body |= {"orders": [plain(order) for order in body["orders"]]}
        last = {"last": plain(asdict(panel.samples[-1]))} if panel.samples else {}
        return Response({"migration": plain({**body, **last})})


class MigrationOrder(OwnView):
    """POST …/workflows/UUID/migration/<name>."""

    name: ClassVar[str] = ""

    @described({"workflow": {"uuid": str, "href": str}}, 202, body=lambda view: ORDERS[view.name])
    @idempotent
    def post(self, request: ApiRequest, run_uuid: str) -> Response:
        """Order this of a live migration whose guest moves; the workflow that does it."""
        panel: MigrationPanel | None = None
        try:
            self.authorize("novella:workflows:steer")
            body = validate(request.data or {}, ORDERS[self.name])
            panel = _panel(request, run_uuid)
            ordered = migration_panels.order(request.context, run_uuid, self.name, next(iter(body.values()), 0))
        except (Conflict, Forbidden, NotSupported) as error:
            about = panel.instance_uuid if panel is not None else ""
            audit.record_refusal(request.context, f"live_migration.{self.name.replace('-', '_')}", about, error)
            raise
        monitor = absolute(request, f"/api/workflows/{ordered}")
        response = Response({"workflow": {"uuid": ordered, "href": monitor}}, status=202)
        response["Link"] = f'<{monitor}>; rel="monitor"'
        return response


def _panel(request: ApiRequest, run_uuid: str) -> MigrationPanel:
    panel = migration_panels.of_run(request.context, run_uuid)
    if panel is None:
        raise NotFound(f"Workflow {run_uuid} moves no guest.")
    return panel
