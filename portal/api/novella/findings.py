"""Findings of the reconciler, read-only."""

from __future__ import annotations

from rest_framework.response import Response

from conductor.services.operations import findings
from conductor.services.operations.findings import FindingQuery, FindingView
from portal.api.base import ApiRequest
from portal.api.novella.data import DataSerializer, numbers, page
from portal.api.novella.filters import FilterField, PageFilter
from portal.api.novella.operations import describes
from portal.api.novella.viewset import NovellaViewSet


class FindingSerializer(DataSerializer):
    """A difference between databases or hosts."""

    class Meta:
        dataclass = FindingView


class FindingFilter(PageFilter):
    state = FilterField()
    kind = FilterField()
    severity = FilterField()
    cell = FilterField()
    instance_uuid = FilterField()


class FindingViewSet(NovellaViewSet):
    @describes(page("findings", FindingSerializer, open=numbers()), query=FindingFilter)
    def list(self, request: ApiRequest) -> Response:
        """List findings, the newest first; without `state` the open ones."""
        self.authorize("novella:findings:list")
        found = findings.list_findings(request.context, FindingQuery(**FindingFilter.parse(request)))
        return self.page("findings", FindingSerializer, found, open=findings.counts(request.context))
