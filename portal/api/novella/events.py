"""Events of a project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rest_framework import serializers
from rest_framework.response import Response

from conductor.services.workflows import event_log, workflows
from conductor.services.workflows.event_log import Cursor
from conductor.services.workflows.types import EventView
from portal.api.base import ApiRequest
from portal.api.novella.data import DataSerializer, envelope
from portal.api.novella.filters import CursorFilter, FilterField, LimitFilter, QuerySerializer
from portal.api.novella.operations import describes
from portal.api.novella.viewset import NovellaViewSet

MOST_EVENTS = 1000


class EventSerializer(DataSerializer):
    """An event; `cursor` is the position after it in its log."""

    cursor = serializers.CharField()

    class Meta:
        dataclass = EventView

    def represent_cursor(self, event: EventView) -> str:
        return f"{event.alias}:{event.number}"


class EventPageFilter(QuerySerializer):
    after = CursorFilter()
    limit = LimitFilter(default=MOST_EVENTS)


class EventFilter(EventPageFilter):
    topic = FilterField(max_length=128)
    kind = FilterField(max_length=64)


EVENTS = envelope(events=EventSerializer(many=True), cursor=serializers.CharField)


class EventViewSet(NovellaViewSet):
    @describes(EVENTS, query=EventFilter)
    def list(self, request: ApiRequest) -> Response:
        """List the project's events after `after`; without it, only the current cursor."""
        self.authorize("novella:events:list")
        query = EventFilter.parse(request)
        if "after" not in request.query_params:
            return event_page(request, [], event_log.here())
        after = event_log.read_cursor(query["after"])
        topic, kind = query["topic"], query["kind"]
        found, reached = workflows.events_of_project(request.context, after, most_of(query), topic=topic, kind=kind)
        return event_page(request, found, reached)


def event_page(request: ApiRequest, found: Sequence[EventView], reached: Cursor) -> Response:
    """Return a page of events; the headers give a stream (portal.live.event_streams) the scope of the events."""
    events = EventSerializer(found, many=True).data
    follow = "all" if request.context.is_admin else request.context.project_id
    headers = {"Novella-Follow": follow, "Novella-Caller": request.context.user_id}
    return Response({"events": events, "cursor": event_log.write_cursor(reached)}, headers=headers)


def most_of(query: Mapping[str, Any]) -> int:
    """Return the number of events per page, at least one."""
    return max(1, int(query["limit"]))
