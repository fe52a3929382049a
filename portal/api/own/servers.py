"""What our own API does with servers beyond the Compute API."""

from __future__ import annotations

from dataclasses import asdict

from rest_framework.response import Response

from conductor.core.errors import Conflict, Forbidden
from conductor.services import audit, guest_counts, second_tries
from conductor.services.guest_counts import GuestSample
from portal.api.base import ApiRequest
from portal.api.idempotency import idempotent
from portal.api.links import absolute
from portal.api.own.openapi import described
from portal.api.own.shapes import Part
from portal.api.own.view import OwnView

SAMPLE = Part("GuestSample", GuestSample)


class Metrics(OwnView):
    @described({"metrics": [SAMPLE]})
    def get(self, request: ApiRequest, server_id: str) -> Response:
        """What its hosts counted every few minutes, the oldest first; sums since the guest began, but for memory."""
        self.authorize("novella:servers:metrics")
        found = guest_counts.samples(request.context, server_id)
        return Response({"metrics": [asdict(sample) for sample in found]})


class TryAgain(OwnView):
    @described({"workflow": {"uuid": str, "href": str}}, 202)
    @idempotent
    def post(self, request: ApiRequest, server_id: str) -> Response:
        """Have a server whose build has failed be built again; takes no body."""
        try:
            self.authorize("novella:servers:try_again")
            run_uuid = second_tries.try_again(request.context, server_id)
        except (Conflict, Forbidden) as error:
            audit.record_refusal(request.context, "tryAgain", server_id, error)
            raise
        monitor = absolute(request, f"/api/workflows/{run_uuid}")
        response = Response({"workflow": {"uuid": run_uuid, "href": monitor}}, status=202)
        response["Link"] = f'<{monitor}>; rel="monitor"'
        return response
