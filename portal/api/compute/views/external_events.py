"""Events that other services report."""

from __future__ import annotations

from rest_framework.response import Response

from conductor.services.servers import external_events
from conductor.services.servers.external_events import TAKEN, ExternalEvent
from portal.api.base import ApiRequest
from portal.api.compute.schemas import external_events as schemas
from portal.api.compute.view import ComputeView
from portal.api.validation import validate

SOME_FAILED = 207


class ExternalEvents(ComputeView):
    def post(self, request: ApiRequest) -> Response:
        """Handle each event by itself; 207 where some were rejected."""
        reported = validate(request.data, schemas.create(request.microversion))["events"]
        codes = external_events.take(
            request.context,
            [
                ExternalEvent(one["name"], one["server_uuid"].lower(), one.get("status", "completed"), one.get("tag"))
                for one in reported
            ],
        )
        shown = [
            {**one, "code": code, "status": "completed" if code == TAKEN else "failed"}
            for one, code in zip(reported, codes, strict=True)
        ]
        return Response({"events": shown}, status=TAKEN if set(codes) == {TAKEN} else SOME_FAILED)
