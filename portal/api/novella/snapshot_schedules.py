"""Schedules of snapshots and backups."""

from __future__ import annotations

from rest_framework.response import Response

from conductor.core.recurrence import EVERY, STEPS, WEEKDAYS
from conductor.services.servers import snapshot_schedules
from conductor.services.servers.snapshot_schedules import (
    MOST_KEPT,
    SERVER,
    VOLUME,
    ScheduleView,
    SnapshotScheduleRequest,
)
from portal.api.base import ApiRequest
from portal.api.idempotency import idempotent
from portal.api.novella.bodies import BodySerializer
from portal.api.novella.data import DataSerializer, envelope, page
from portal.api.novella.fields import ChoiceField, IntegerField, TextField
from portal.api.novella.filters import FilterField, PageFilter
from portal.api.novella.operations import describes
from portal.api.novella.viewset import NovellaViewSet


class SnapshotScheduleSerializer(DataSerializer):
    """A schedule, with the state of its last run."""

    class Meta:
        dataclass = ScheduleView


class SnapshotScheduleFilter(PageFilter):
    server = FilterField(max_length=64)
    volume = FilterField(max_length=64)


class SnapshotScheduleCreate(BodySerializer):
    server = TextField(required=False, min_length=1, max_length=64)
    volume = TextField(required=False, min_length=1, max_length=64)
    every = ChoiceField(EVERY)
    hours = ChoiceField(STEPS, required=False)
    weekday = ChoiceField(WEEKDAYS, required=False)
    at = TextField(pattern=r"\A([01]\d|2[0-3]):[0-5]\d\Z", message="It must be a time of day such as 02:30.")
    time_zone = TextField(required=False, min_length=1, max_length=64)
    keep = IntegerField(min_value=1, max_value=MOST_KEPT)


class SnapshotScheduleBody(BodySerializer):
    snapshot_schedule = SnapshotScheduleCreate()


ONE = envelope(snapshot_schedule=SnapshotScheduleSerializer)


class SnapshotScheduleViewSet(NovellaViewSet):
    lookup_url_kwarg = "schedule_uuid"

    @describes(page("snapshot_schedules", SnapshotScheduleSerializer), query=SnapshotScheduleFilter)
    def list(self, request: ApiRequest) -> Response:
        """List the project's schedules, the newest first; `server` or `volume` narrows."""
        self.authorize("novella:snapshot_schedules:list")
        query = SnapshotScheduleFilter.parse(request)
        server, volume = query.pop(SERVER), query.pop(VOLUME)
        kind = SERVER if server else VOLUME if volume else ""
        found = snapshot_schedules.list_of(request.context, kind=kind, subject_uuid=server or volume, **query)
        return self.page("snapshot_schedules", SnapshotScheduleSerializer, found)

    @describes(ONE, 201, body=SnapshotScheduleBody)
    @idempotent
    def create(self, request: ApiRequest) -> Response:
        """Schedule snapshots of a server or a volume; `at` is local time in `time_zone`, or in the caller's zone."""
        self.authorize("novella:snapshot_schedules:change")
        body = SnapshotScheduleBody.parse(request.data)["snapshot_schedule"]
        made = snapshot_schedules.schedule(request.context, SnapshotScheduleRequest.parse(body))
        answer = self._one(made, 201)
        answer["Location"] = request.build_absolute_uri(f"/api/snapshot-schedules/{made.uuid}")
        return answer

    @describes(ONE)
    def retrieve(self, request: ApiRequest, schedule_uuid: str) -> Response:
        """Show one schedule, with the state of its last run."""
        self.authorize("novella:snapshot_schedules:list")
        return self._one(snapshot_schedules.get(request.context, schedule_uuid))

    @describes(None, 204)
    def destroy(self, request: ApiRequest, schedule_uuid: str) -> Response:
        """Delete a schedule; its snapshots stay."""
        self.authorize("novella:snapshot_schedules:change")
        snapshot_schedules.delete(request.context, schedule_uuid)
        return Response(status=204)

    def _one(self, schedule: ScheduleView, status: int = 200) -> Response:
        return Response({"snapshot_schedule": self.shown(SnapshotScheduleSerializer, schedule)}, status=status)
