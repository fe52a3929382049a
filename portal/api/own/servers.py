"""What our own API does with servers beyond the Compute API."""

from __future__ import annotations

from rest_framework.response import Response

from conductor.core.errors import Conflict, Forbidden
from conductor.services import audit, second_tries
from portal.api.base import ApiRequest
from portal.api.idempotency import idempotent
from portal.api.links import absolute
from portal.api.own.openapi import described
from portal.api.own.view import OwnView


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
