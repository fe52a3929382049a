"""Approvals: interventions that one operator has requested and a second operator approves or declines."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from conductor.services.workflows import pending_approvals
from conductor.services.workflows.pending_approvals import WaitingView
from portal.api.base import ApiRequest
from portal.api.links import absolute
from portal.api.novella.data import DataSerializer, LinkSerializer, envelope, missing_cells
from portal.api.novella.filters import QuerySerializer
from portal.api.novella.operations import describes
from portal.api.novella.viewset import NovellaViewSet

ANSWERS = ("agree", "decline")


class WaitingApprovalSerializer(DataSerializer):
    """An intervention that waits for a second operator."""

    links = LinkSerializer(many=True)

    class Meta:
        dataclass = WaitingView

    def represent_links(self, waiting: WaitingView) -> list[dict[str, Any]]:
        request, path = self.context["request"], f"/api/workflows/{waiting.run_uuid}"
        links = [{"rel": "workflow", "href": absolute(request, path)}]
        return links + [{"rel": one, "href": absolute(request, f"{path}/{one}")} for one in ANSWERS]


class ApprovalFilter(QuerySerializer):
    """No filters."""


class ApprovalViewSet(NovellaViewSet):
    @describes(envelope(approvals=WaitingApprovalSerializer(many=True), missing_cells=missing_cells()))
    def list(self, request: ApiRequest) -> Response:
        """List pending approvals, the first to expire first; `revision` is the `If-Match` for the URLs in `links`."""
        self.authorize("novella:approvals:list")
        ApprovalFilter.parse(request)
        found = pending_approvals.waiting(request.context)
        rows = self.shown(WaitingApprovalSerializer, list(found.items))
        return Response({"approvals": rows, "missing_cells": found.missing_cells})
