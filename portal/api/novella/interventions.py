"""Interventions in workflows: one route for each row of `conductor.core.interventions`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from rest_framework import serializers
from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.core.interventions import INTERVENTIONS
from conductor.core.interventions import Intervention as Row
from conductor.services.workflows import interventions
from conductor.services.workflows.interventions import InterventionRequest
from portal.api.base import ApiRequest
from portal.api.idempotency import idempotent
from portal.api.novella.bodies import BodySerializer
from portal.api.novella.data import envelope
from portal.api.novella.fields import ChoiceField, MapField, NameField, ReasonField, TextField
from portal.api.novella.operations import describes
from portal.api.novella.viewset import NovellaViewSet
from portal.api.novella.workflows import WorkflowInFullSerializer, workflow_in_full

_ENTITY_TAG = re.compile(r'\A(?:W/)?"([^"]{0,64})"\Z')
_FIELDS: Mapping[str, serializers.Field[Any, Any, Any, Any]] = {
    "reason": ReasonField(),
    "step": TextField(min_length=1, max_length=64),
    "confirm": NameField(),
    "mark": ChoiceField(("forced", "skipped")),
}
_OPTIONAL: Mapping[str, Mapping[str, MapField]] = {"skip": {"result": MapField(most=50, required=False)}}


def _body_of(one: Row) -> type[BodySerializer]:
    """Return the body serializer of an intervention."""
    name = "".join(word.capitalize() for word in one.id.split("-"))
    needed = {name: _FIELDS[name] for name in one.needs}
    return type(f"{name}Body", (BodySerializer,), {**needed, **_OPTIONAL.get(one.id, {})})


BODIES: Mapping[str, type[BodySerializer]] = {one.id: _body_of(one) for one in INTERVENTIONS}


class InterventionViewSet(NovellaViewSet):
    """POST …/workflows/UUID/<intervention>. The service checks authorization, so that it can audit refusals too."""

    intervention: ClassVar[str] = ""

    @describes(
        envelope(workflow=WorkflowInFullSerializer),
        202,
        body=lambda view: BODIES[view.intervention],
        takes_if_match=True,
    )
    @idempotent
    def create(self, request: ApiRequest, run_uuid: str) -> Response:
        body = BODIES[self.intervention].parse(request.data)
        requested = InterventionRequest(revision=_if_match(request), **body)
        interventions.intervene(request.context, run_uuid, self.intervention, requested)
        return workflow_in_full(request, run_uuid, status=202)


def _if_match(request: ApiRequest) -> str:
    """Return the revision that the caller has seen; empty for any."""
    text = request.headers.get("If-Match", "").strip()
    if text in ("", "*"):
        return ""
    found = _ENTITY_TAG.match(text)
    if found is None:
        raise Invalid('If-Match is one revision in quotes, such as "4f2a91c0d3e85b76", or *.', field="If-Match")
    return found[1]
