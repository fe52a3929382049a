"""One request, or the newest ones, asked twice: of the fleet and the plugins as they are, and as supposed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.services import what_if_batches, what_if_comparisons
from conductor.services.what_if_batches import Batch, Turned
from conductor.services.what_if_comparisons import (
    Comparison,
    HostDifference,
    Question,
    StageDifference,
    Supposition,
)
from portal.api.base import ApiRequest
from portal.api.own import schemas
from portal.api.own.openapi import described
from portal.api.own.plugins import change_of
from portal.api.own.shapes import Part
from portal.api.own.view import OwnView, plain
from portal.api.own.what_if import fleet_of, wish_of
from portal.api.validation import validate

STAGE = Part("StageDifference", StageDifference, {"by": int})
HOST = Part("HostDifference", HostDifference, {"fate": str})
COMPARISON = Part("Comparison", Comparison, {"stages": [STAGE], "hosts": [HOST]})
# What the service calls by another name than our bodies do.
FIELDS = {"without": "fleet.remove", "closed": "fleet.disable", "opened": "fleet.enable", "replay": "count"}
PARTS_OF_A_WISH = ("flavor", "image", "availability_zone", "host", "scheduler_hints")


class Compare(OwnView):
    @described({"comparison": COMPARISON}, body=schemas.WHAT_IF_COMPARE)
    def post(self, request: ApiRequest) -> Response:
        """What would become of one request: a stored decision's, or a launch."""
        self.authorize("novella:what_if:compare")
        body = validate(request.data, schemas.WHAT_IF_COMPARE)
        with _fields_as_sent():
            found = what_if_comparisons.compare(request.context, _question_of(body), supposition_of(body))
        shown = asdict(found)
        shown["stages"] = [{**asdict(one), "by": one.by} for one in found.stages]
        shown["hosts"] = [{**asdict(one), "fate": one.fate} for one in found.hosts]
        return Response({"comparison": shown})


class Replay(OwnView):
    @described({"replay": Batch}, body=schemas.WHAT_IF_REPLAY)
    def post(self, request: ApiRequest) -> Response:
        """What would become of the newest requests, each by itself: who would lose, and who would win."""
        self.authorize("novella:what_if:replay")
        body = validate(request.data, schemas.WHAT_IF_REPLAY)
        with _fields_as_sent():
            found = what_if_batches.replay(request.context, body["count"], supposition_of(body))
        turned = {name: [_turned(one) for one in getattr(found, name)] for name in ("lost", "won")}
        return Response({"replay": {**asdict(found), **turned}})


def supposition_of(body: Mapping[str, Any]) -> Supposition:
    """What a checked body says would be different."""
    fleet = fleet_of(body.get("fleet", {}))
    return Supposition(
        without=fleet.remove,
        closed=fleet.disable,
        opened=fleet.enable,
        add=fleet.add,
        plugins={
            kind: {name: change_of(wish) for name, wish in named.items()}
            for kind, named in body.get("plugins", {}).items()
        },
        subset=int(body.get("subset", 0)),
    )


def _question_of(body: Mapping[str, Any]) -> Question:
    properties = body.get("image_properties", {})
    if "decision" not in body:
        return Question(wish_of(body), image_properties=properties)
    for name in PARTS_OF_A_WISH:
        if name in body:
            raise Invalid(f"The decision says what was asked: name either it or a {name}.", field=name)
    return Question(decision_uuid=body["decision"], image_properties=properties, count=int(body.get("count", 0)))


def _turned(one: Turned) -> dict[str, Any]:
    return plain(asdict(one))


@contextmanager
def _fields_as_sent() -> Iterator[None]:
    """What cannot be asked is named as the body names it."""
    try:
        yield
    except Invalid as refused:
        field = FIELDS.get(named := str(refused.details.get("field", "")), named)
        message = refused.message if field in refused.message else f"{field}: {refused.message}"
        raise Invalid(message, **{**refused.details, "field": field}) from refused
