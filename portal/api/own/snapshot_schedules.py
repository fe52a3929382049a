"""Snapshots that come round, over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.services import snapshot_schedules
from conductor.services.snapshot_schedules import SERVER, SUBJECTS, VOLUME, ScheduleView, ScheduleWish
from portal.api.base import ApiRequest
from portal.api.idempotency import idempotent
from portal.api.own import schemas
from portal.api.own.openapi import described, next_page
from portal.api.own.queries import PAGES, page_of, refuse_unknown, word_of
from portal.api.own.shapes import Part
from portal.api.own.view import OwnView, plain
from portal.api.pagination import next_links
from portal.api.validation import validate

SCHEDULE = Part("SnapshotSchedule", ScheduleView)
ONE = {"snapshot_schedule": SCHEDULE}
KNOWN = PAGES | set(SUBJECTS)


class SnapshotSchedules(OwnView):
    @described({"snapshot_schedules": [SCHEDULE], **next_page("snapshot_schedules")}, query=KNOWN)
    def get(self, request: ApiRequest) -> Response:
        """The project's, the newest first; of one server or volume where it is named."""
        self.authorize("novella:snapshot_schedules:list")
        refuse_unknown(request, KNOWN)
        limit, marker = page_of(request)
        server, volume = (word_of(request, name, longest=64) for name in (SERVER, VOLUME))
        kind = SERVER if server else VOLUME if volume else ""
        subject = server or volume
        page = snapshot_schedules.list_of(request.context, kind=kind, subject_uuid=subject, limit=limit, marker=marker)
        body = {"snapshot_schedules": [plain(asdict(one)) for one in page.items]}
        last = page.items[-1].uuid if page.items else None
        return Response(body | next_links(request, "snapshot_schedules", last_id=last, has_more=page.has_more))

    @described(ONE, 201, body=schemas.SCHEDULE_SNAPSHOTS)
    @idempotent
    def post(self, request: ApiRequest) -> Response:
        """Name a server or a volume; `at` is by the clock of `time_zone`, where it is left out of the asker's own."""
        self.authorize("novella:snapshot_schedules:change")
        wish = validate(request.data, schemas.SCHEDULE_SNAPSHOTS)["snapshot_schedule"]
        made = snapshot_schedules.schedule(request.context, _wish(wish))
        location = request.build_absolute_uri(f"/api/snapshot-schedules/{made.uuid}")
        return Response({"snapshot_schedule": plain(asdict(made))}, status=201, headers={"Location": location})


class SnapshotSchedule(OwnView):
    @described(ONE)
    def get(self, request: ApiRequest, schedule_uuid: str) -> Response:
        """One of them, with the state of its last time."""
        self.authorize("novella:snapshot_schedules:list")
        found = snapshot_schedules.get(request.context, schedule_uuid)
        return Response({"snapshot_schedule": plain(asdict(found))})

    @described(None, 204)
    def delete(self, request: ApiRequest, schedule_uuid: str) -> Response:
        """It comes round no more; what it has kept stays."""
        self.authorize("novella:snapshot_schedules:change")
        snapshot_schedules.delete(request.context, schedule_uuid)
        return Response(status=204)


def _wish(given: Mapping[str, Any]) -> ScheduleWish:
    """Raises Invalid."""
    named = [kind for kind in SUBJECTS if given.get(kind)]
    if len(named) != 1:
        raise Invalid("Name a server or a volume, one of the two.", field="snapshot_schedule")
    hour, _, minute = given["at"].partition(":")
    same = {name: given[name] for name in ("every", "keep", "hours", "weekday") if name in given}
    return ScheduleWish(
        kind=named[0],
        subject_uuid=given[named[0]],
        minute=int(hour) * 60 + int(minute),
        zone=given.get("time_zone", ""),
        **same,
    )
