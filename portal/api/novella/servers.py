"""Servers, beyond the Compute API: their metrics, and a retry of a failed build."""

from __future__ import annotations

from rest_framework.decorators import action
from rest_framework.response import Response

from conductor.core.errors import Conflict, Forbidden
from conductor.services.audit import audit
from conductor.services.servers import build_retries, guest_metrics
from conductor.services.servers.guest_metrics import GuestSample
from portal.api.base import ApiRequest
from portal.api.idempotency import idempotent
from portal.api.novella.data import envelope, serializer_of
from portal.api.novella.operations import describes
from portal.api.novella.viewset import ACCEPTED, NovellaViewSet, accepted

GuestSampleSerializer = serializer_of(GuestSample)


class ServerViewSet(NovellaViewSet):
    lookup_url_kwarg = "server_id"

    @describes(envelope(metrics=GuestSampleSerializer(many=True)))
    @action(detail=True)
    def metrics(self, request: ApiRequest, server_id: str) -> Response:
        """List metrics sampled every few minutes, the oldest first; counters since the start, except memory."""
        self.authorize("novella:servers:metrics")
        found = guest_metrics.samples(request.context, server_id)
        return Response({"metrics": self.shown(GuestSampleSerializer, list(found))})

    @describes(ACCEPTED, 202)
    @action(detail=True, methods=["post"], url_path="try-again")
    @idempotent
    def try_again(self, request: ApiRequest, server_id: str) -> Response:
        """Retry the failed build of a server. Takes no body."""
        try:
            self.authorize("novella:servers:try_again")
            run_uuid = build_retries.try_again(request.context, server_id)
        except (Conflict, Forbidden) as error:
            audit.record_refusal(request.context, "tryAgain", server_id, error)
            raise
        return accepted(request, run_uuid)
