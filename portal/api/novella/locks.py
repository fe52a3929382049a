"""Locks of workflows, with their holders and waiters; read-only."""

from __future__ import annotations

from rest_framework.response import Response

from conductor.services.workflows import locks
from conductor.services.workflows.locks import LockQuery, LockView
from portal.api.base import ApiRequest
from portal.api.novella.data import DataSerializer, missing_cells, page
from portal.api.novella.filters import FilterField, PageFilter
from portal.api.novella.operations import describes
from portal.api.novella.viewset import NovellaViewSet


class LockSerializer(DataSerializer):
    """A lock, its holder and the workflows that wait for it."""

    class Meta:
        dataclass = LockView


class LockFilter(PageFilter):
    resource = FilterField()
    kind = FilterField()
    cell = FilterField()
    run_uuid = FilterField()


class LockViewSet(NovellaViewSet):
    @describes(page("locks", LockSerializer, missing_cells=missing_cells()), query=LockFilter)
    def list(self, request: ApiRequest) -> Response:
        """List the locks of the project by resource; administrators see all."""
        self.authorize("novella:locks:list")
        found = locks.list_locks(request.context, LockQuery(**LockFilter.parse(request)))
        return self.page("locks", LockSerializer, found, key=_marker, missing_cells=found.missing_cells)


def _marker(lock: LockView) -> str:
    return "@".join(lock.place)
