"""What waits for a second person: forced steps that one operator asked for, and another agrees to or declines."""

from __future__ import annotations

from dataclasses import asdict

from rest_framework.response import Response

from conductor.services import waiting_agreements
from conductor.services.waiting_agreements import WaitingView
from portal.api.base import ApiRequest
from portal.api.links import absolute
from portal.api.own.openapi import LINKS, MISSING, described
from portal.api.own.queries import refuse_unknown
from portal.api.own.shapes import Part
from portal.api.own.view import OwnView, plain

AGREEMENT = Part("WaitingAgreement", WaitingView, {"links": LINKS})
ANSWERS = ("agree", "decline")


class Agreements(OwnView):
    @described({"agreements": [AGREEMENT], "missing_cells": MISSING})
    def get(self, request: ApiRequest) -> Response:
        """The first to run out first; `links` say where each is answered, `revision` is the `If-Match` for it."""
        self.authorize("novella:agreements:list")
        refuse_unknown(request, frozenset())
        found = waiting_agreements.waiting(request.context)
        return Response(
            {"agreements": [_body(request, one) for one in found.items], "missing_cells": found.missing_cells}
        )


def _body(request: ApiRequest, view: WaitingView) -> dict[str, object]:
    path = f"/api/workflows/{view.run_uuid}"
    links = [{"rel": "workflow", "href": absolute(request, path)}]
    links += [{"rel": one, "href": absolute(request, f"{path}/{one}")} for one in ANSWERS]
    return {**plain(asdict(view)), "links": links}
