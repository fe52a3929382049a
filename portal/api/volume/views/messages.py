"""Messages: /v3/messages, from 3.3 on."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from conductor.volume import messages
from conductor.volume.messages import MessageQuery
from conductor.volume.models import VolumeMessage
from portal.api.base import ApiRequest
from portal.api.volume import listing
from portal.api.volume.representations import resources as serializers
from portal.api.volume.view import VolumeView


class Messages(VolumeView):
    """/v3/messages; paged, sorted and filtered from 3.5 on."""

    min_microversion = "3.3"

    def get(self, request: ApiRequest) -> Response:
        self.authorize("message:get_all")
        if not request.microversion.covers("3.5"):
            found = messages.list_visible(request.context, MessageQuery())
            return Response({"messages": [self._one(row) for row in found]})
        requested = listing.parse(request)
        query = MessageQuery(filters=listing.parts_of(request, list(messages.FILTERS)), **requested.fields)
        found = messages.list_visible(request.context, query)
        return Response(listing.answer(request, "messages", found, requested, self._one))

    def _one(self, row: VolumeMessage) -> dict[str, Any]:
        return serializers.message(row, self.request)


class MessageById(VolumeView):
    """/v3/messages/{id}."""

    min_microversion = "3.3"

    def get(self, request: ApiRequest, message_id: str) -> Response:
        self.authorize("message:get")
        return Response({"message": serializers.message(messages.get(request.context, message_id), request)})

    def delete(self, request: ApiRequest, message_id: str) -> Response:
        self.authorize("message:delete")
        messages.delete(request.context, message_id)
        return Response(status=204)
