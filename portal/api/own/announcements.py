"""News of the cloud over HTTP: read by everybody, told by operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rest_framework.response import Response

from conductor.services import announcements
from conductor.services.announcements import AnnouncementView
from portal.api.base import ApiRequest
from portal.api.idempotency import idempotent
from portal.api.own import schemas
from portal.api.own.openapi import described, next_page
from portal.api.own.queries import PAGES, page_of, refuse_unknown, word_of
from portal.api.own.shapes import Part
from portal.api.own.view import OwnView, plain
from portal.api.pagination import next_links
from portal.api.validation import validate

ANNOUNCEMENT = Part("Announcement", AnnouncementView)
ONE = {"announcement": ANNOUNCEMENT}
KNOWN = PAGES | {"all"}
TIMES = ("begins_at", "ends_at")


class Announcements(OwnView):
    @described({"announcements": [ANNOUNCEMENT], **next_page("announcements")}, query=KNOWN)
    def get(self, request: ApiRequest) -> Response:
        """What is told now, the gravest first; `all=true` adds what is planned and what is over, for operators."""
        self.authorize("novella:announcements:list")
        refuse_unknown(request, KNOWN)
        limit, marker = page_of(request)
        of_all_times = word_of(request, "all", ("true", "false")) == "true"
        page = announcements.list_of(request.context, of_all_times=of_all_times, limit=limit, marker=marker)
        body = {"announcements": [plain(asdict(one)) for one in page.items]}
        last = page.items[-1].uuid if page.items else None
        return Response(body | next_links(request, "announcements", last_id=last, has_more=page.has_more))

    @described(ONE, 201, body=schemas.ANNOUNCE)
    @idempotent
    def post(self, request: ApiRequest) -> Response:
        """Tell everybody; without `begins_at` from now on, without `ends_at` until it is withdrawn."""
        self.authorize("novella:announcements:change")
        wish = validate(request.data, schemas.ANNOUNCE)["announcement"]
        made = announcements.announce(request.context, _with_times(wish))
        location = request.build_absolute_uri(f"/api/announcements/{made.uuid}")
        return Response({"announcement": plain(asdict(made))}, status=201, headers={"Location": location})


class Announcement(OwnView):
    @described(ONE)
    def get(self, request: ApiRequest, announcement_uuid: str) -> Response:
        """One of them."""
        self.authorize("novella:announcements:list")
        return _one(announcements.get(request.context, announcement_uuid))

    @described(ONE, body=schemas.CHANGE_ANNOUNCEMENT)
    def patch(self, request: ApiRequest, announcement_uuid: str) -> Response:
        """Say it otherwise; what is not named stays."""
        self.authorize("novella:announcements:change")
        values = validate(request.data, schemas.CHANGE_ANNOUNCEMENT)["announcement"]
        return _one(announcements.change(request.context, announcement_uuid, _with_times(values)))

    @described(None, 204)
    def delete(self, request: ApiRequest, announcement_uuid: str) -> Response:
        """Withdraw it; the audit log still knows of it."""
        self.authorize("novella:announcements:change")
        announcements.withdraw(request.context, announcement_uuid)
        return Response(status=204)


def _with_times(values: Mapping[str, Any]) -> dict[str, Any]:
    """Raises Invalid."""
    times = {name: announcements.moment(values[name], f"announcement.{name}") for name in TIMES if values.get(name)}
    return {**values, **times}


def _one(view: AnnouncementView) -> Response:
    return Response({"announcement": plain(asdict(view))})
