"""Doing something to a workflow: one view for every intervention; the table is conductor.core.interventions."""

from __future__ import annotations

import re
from typing import ClassVar

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.services import flow_actions, flows, interventions
from conductor.services.interventions import Asked
from portal.api.base import ApiRequest
from portal.api.idempotency import idempotent
from portal.api.own import schemas
from portal.api.own.openapi import described
from portal.api.own.view import RUN_IN_FULL, OwnView, panel_body, run_body
from portal.api.validation import validate

_ENTITY_TAG = re.compile(r'\A(?:W/)?"([^"]{0,64})"\Z')


class Intervention(OwnView):
    """POST …/workflows/UUID/<name>. Who may is asked for inside, so that a refusal is on record too."""

    name: ClassVar[str] = ""

    @described({"workflow": RUN_IN_FULL}, 202, body=lambda view: schemas.INTERVENE[view.name], takes_if_match=True)
    @idempotent
    def post(self, request: ApiRequest, run_uuid: str) -> Response:
        body = validate(request.data, schemas.INTERVENE[self.name])
        asked = Asked(revision=_if_match(request), **body)
        interventions.intervene(request.context, run_uuid, self.name, asked)
        run = flows.get(request.context, run_uuid)
        panel = flow_actions.panel(request.context, run_uuid)
        answer = Response({"workflow": {**run_body(request, run), **panel_body(panel)}}, status=202)
        answer["ETag"] = f'"{panel.revision}"'
        return answer


def _if_match(request: ApiRequest) -> str:
    """The revision that the asker has seen; empty for any."""
    text = request.headers.get("If-Match", "").strip()
    if text in ("", "*"):
        return ""
    found = _ENTITY_TAG.match(text)
    if found is None:
        raise Invalid('If-Match is one revision in quotes, such as "4f2a91c0d3e85b76", or *.', field="If-Match")
    return found[1]
