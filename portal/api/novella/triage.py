"""Triage: problems that need an operator, snoozing one, and applying its advice."""

from __future__ import annotations

from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.response import Response

from conductor.services.operations import triage
from conductor.services.operations.triage import TriageItem
from portal.api.base import ApiRequest
from portal.api.idempotency import idempotent
from portal.api.novella.bodies import BodySerializer
from portal.api.novella.data import DataSerializer, envelope, missing_cells, numbers, page
from portal.api.novella.fields import ReasonField, TextField
from portal.api.novella.filters import FlagFilter, PageFilter, time_of
from portal.api.novella.operations import describes
from portal.api.novella.viewset import NovellaViewSet


class TriageItemSerializer(DataSerializer):
    """A problem that needs an operator, with the first thing to do."""

    class Meta:
        dataclass = TriageItem


class TriageFilter(PageFilter):
    snoozed = FlagFilter()


class WakeBody(BodySerializer):
    key = TextField(min_length=1, max_length=300)


class SnoozeBody(WakeBody):
    reason = ReasonField()
    until = TextField(max_length=64)


class ApplyBody(WakeBody):
    action = TextField(min_length=1, max_length=64)
    reason = ReasonField()


TRIAGE = page(
    "triage",
    TriageItemSerializer,
    counts=numbers(),
    total=serializers.IntegerField(),
    snoozed=serializers.IntegerField(),
    missing_cells=missing_cells(),
)


class TriageViewSet(NovellaViewSet):
    @describes(TRIAGE, query=TriageFilter)
    def list(self, request: ApiRequest) -> Response:
        """List problems that need an operator, the most harmful first; with `snoozed=true` the snoozed ones instead."""
        self.authorize("novella:triage:list")
        query = TriageFilter.parse(request)
        found = triage.survey(request.context, is_snoozed=query.pop("snoozed"), **query)
        return self.page(
            "triage",
            TriageItemSerializer,
            found,
            key="key",
            counts={str(level): number for level, number in found.counts.items()},
            total=found.total,
            snoozed=found.snoozed,
            missing_cells=found.missing_cells,
        )

    @describes(envelope(item=TriageItemSerializer), body=SnoozeBody)
    @action(detail=False, methods=["post"])
    @idempotent
    def snooze(self, request: ApiRequest) -> Response:
        """Snooze an item; it comes back when the time is over or it gets worse."""
        self.authorize("novella:triage:change")
        body = SnoozeBody.parse(request.data)
        until = time_of(body["until"], "until")
        item = triage.snooze(request.context, body["key"], reason=body["reason"], until=until)
        return Response({"item": self.shown(TriageItemSerializer, item)})

    @describes(envelope(key=serializers.CharField), body=WakeBody)
    @action(detail=False, methods=["post"])
    @idempotent
    def wake(self, request: ApiRequest) -> Response:
        """Bring an item back at once."""
        self.authorize("novella:triage:change")
        key = WakeBody.parse(request.data)["key"]
        triage.wake(request.context, key)
        return Response({"key": key})

    @describes(envelope(done=serializers.CharField), 202, body=ApplyBody)
    @action(detail=False, methods=["post"])
    @idempotent
    def apply(self, request: ApiRequest) -> Response:
        """Apply an item's advice, where it needs no more than a reason."""
        self.authorize("novella:triage:change")
        body = ApplyBody.parse(request.data)
        done = triage.apply(request.context, body["key"], body["action"], reason=body["reason"])
        return Response({"done": done}, status=202)
