"""The actions on a server, and their outcome."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.services.servers import action_history
from conductor.services.servers.types import ActionView
from portal.api.base import ApiRequest
from portal.api.compute.representations import instance_actions as serializers
from portal.api.compute.representations.instance_actions import Reader
from portal.api.compute.representations.server_queries import change_names, changes_of
from portal.api.compute.view import BARE_SINCE
from portal.api.compute.views.servers import ServerView
from portal.api.links import absolute
from portal.api.pagination import next_path, parse_page

DELETED_SERVERS_SINCE = "2.21"
PAGED_SINCE = "2.58"


class ActionsView(ServerView):
    def reader(self) -> Reader:
        return Reader(
            self.request.microversion,
            sees_events=self.allows("os-instance-actions:events"),
            sees_details=self.allows("os-instance-actions:events:details"),
        )

    def require_shown(self, server_id: str) -> None:
        """Before 2.21, raises NotFound for the actions of a deleted server."""
        if not self.request.microversion.covers(DELETED_SERVERS_SINCE):
            self.find(server_id)


class InstanceActions(ActionsView):
    def get(self, request: ApiRequest, server_id: str) -> Response:
        self.allow("os-instance-actions:list")
        self.require_shown(server_id)
        found = action_history.list_actions(request.context, server_id)
        reader = self.reader()
        if not request.microversion.covers(PAGED_SINCE):
            return Response({"instanceActions": [serializers.summary(action, reader) for action in found]})
        shown, body = self._paged(found)
        return Response({"instanceActions": [serializers.summary(action, reader) for action in shown], **body})

    def _paged(self, found: list[ActionView]) -> tuple[list[ActionView], dict[str, Any]]:
        request = self.request
        self.refuse_unknown_query(change_names(request.microversion), since=PAGED_SINCE)
        page = parse_page(request)
        since, before = changes_of(request)
        if since:
            found = [action for action in found if action.updated_at >= since]
        if before:
            found = [action for action in found if action.updated_at <= before]
        if page.marker:
            found = found[_place_of(found, page.marker) + 1 :]
        shown = found[: page.limit]
        if len(found) <= page.limit or not shown:
            return shown, {}
        following = absolute(request, next_path(request, shown[-1].request_id))
        return shown, {"links": [{"rel": "next", "href": following}]}


class InstanceAction(ActionsView):
    bare_since = BARE_SINCE

    def get(self, request: ApiRequest, server_id: str, request_id: str) -> Response:
        self.allow("os-instance-actions:show")
        self.require_shown(server_id)
        found = action_history.get(request.context, server_id, request_id)
        return Response({"instanceAction": serializers.show(found, self.reader())})


def _place_of(found: list[ActionView], marker: str) -> int:
    for place, action in enumerate(found):
        if action.request_id == marker:
            return place
    raise Invalid(f"marker [{marker}] not found", field="marker")
