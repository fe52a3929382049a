"""Announcements of the cloud: operators write them for all users."""

from __future__ import annotations

from rest_framework.response import Response

from conductor.services.operations import announcements
from conductor.services.operations.announcements import LONGEST_TEXT, LONGEST_TITLE, SEVERITIES, AnnouncementView
from portal.api.base import ApiRequest
from portal.api.idempotency import idempotent
from portal.api.novella.bodies import BodySerializer
from portal.api.novella.data import DataSerializer, envelope, page
from portal.api.novella.fields import ChoiceField, TextField
from portal.api.novella.filters import FlagFilter, PageFilter
from portal.api.novella.operations import describes
from portal.api.novella.viewset import NovellaViewSet


class AnnouncementSerializer(DataSerializer):
    """A message of the operators to all users."""

    class Meta:
        dataclass = AnnouncementView


class AnnouncementFilter(PageFilter):
    all = FlagFilter()


def _time() -> TextField:
    text = "It must be a time such as 2026-01-31T12:00:00Z, or null."
    return TextField(allow_null=True, required=False, min_length=1, max_length=40, message=text)


class AnnouncementUpdate(BodySerializer):
    title = TextField(required=False, min_length=1, max_length=LONGEST_TITLE, pattern=r"\S")
    text = TextField(required=False, max_length=LONGEST_TEXT)
    severity = ChoiceField(SEVERITIES, required=False)
    begins_at = _time()
    ends_at = _time()


class AnnouncementCreate(AnnouncementUpdate):
    title = TextField(min_length=1, max_length=LONGEST_TITLE, pattern=r"\S")


class AnnouncementCreateBody(BodySerializer):
    announcement = AnnouncementCreate()


class AnnouncementUpdateBody(BodySerializer):
    announcement = AnnouncementUpdate()


ONE = envelope(announcement=AnnouncementSerializer)


class AnnouncementViewSet(NovellaViewSet):
    lookup_url_kwarg = "announcement_uuid"

    @describes(page("announcements", AnnouncementSerializer), query=AnnouncementFilter)
    def list(self, request: ApiRequest) -> Response:
        """List current announcements, the most severe first; for operators `all=true` adds planned and past ones."""
        self.authorize("novella:announcements:list")
        query = AnnouncementFilter.parse(request)
        of_all_times = query.pop("all")
        found = announcements.list_of(request.context, of_all_times=of_all_times, **query)
        return self.page("announcements", AnnouncementSerializer, found)

    @describes(ONE, 201, body=AnnouncementCreateBody)
    @idempotent
    def create(self, request: ApiRequest) -> Response:
        """Announce something; without `begins_at` from now on, without `ends_at` until it is withdrawn."""
        self.authorize("novella:announcements:change")
        values = AnnouncementCreateBody.parse(request.data)["announcement"]
        made = announcements.announce(request.context, values)
        location = request.build_absolute_uri(f"/api/announcements/{made.uuid}")
        body = {"announcement": self.shown(AnnouncementSerializer, made)}
        return Response(body, status=201, headers={"Location": location})

    @describes(ONE)
    def retrieve(self, request: ApiRequest, announcement_uuid: str) -> Response:
        """Show one announcement."""
        self.authorize("novella:announcements:list")
        found = announcements.get(request.context, announcement_uuid)
        return Response({"announcement": self.shown(AnnouncementSerializer, found)})

    @describes(ONE, body=AnnouncementUpdateBody)
    def partial_update(self, request: ApiRequest, announcement_uuid: str) -> Response:
        """Change an announcement; fields that are left out stay."""
        self.authorize("novella:announcements:change")
        values = AnnouncementUpdateBody.parse(request.data)["announcement"]
        changed = announcements.change(request.context, announcement_uuid, values)
        return Response({"announcement": self.shown(AnnouncementSerializer, changed)})

    @describes(None, 204)
    def destroy(self, request: ApiRequest, announcement_uuid: str) -> Response:
        """Withdraw an announcement; the audit log keeps it."""
        self.authorize("novella:announcements:change")
        announcements.withdraw(request.context, announcement_uuid)
        return Response(status=204)
