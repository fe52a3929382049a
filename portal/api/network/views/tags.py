"""Tags: the same views for every collection."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from conductor.network import tags
from portal.api.base import ApiRequest
from portal.api.network.schemas.bodies import TAG, TAGS
from portal.api.network.views.collections import ResourceView
from portal.api.schema_parts import closed
from portal.api.validation import validate

_BODY = closed(TAGS, required=("tags",))
_TAG = closed({"tag": TAG})


class TagView(ResourceView):
    """Base of tag views. A resource that the caller may not see is not found."""

    def row(self, request: ApiRequest, item_id: str, rule: str) -> Any:
        self.authorize(rule)
        return self.resource.get(request.context, item_id)


class Tags(TagView):
    """/v2.0/{collection}/{id}/tags."""

    def get(self, request: ApiRequest, item_id: str) -> Response:
        return Response({"tags": tags.unpacked(self.row(request, item_id, "get_tags").tag_text)})

    def put(self, request: ApiRequest, item_id: str) -> Response:
        row = self.row(request, item_id, "change_tags")
        wanted = validate(request.data, _BODY)["tags"]
        return Response({"tags": tags.replace(request.context, row, wanted)})

    def post(self, request: ApiRequest, item_id: str) -> Response:
        """Add tags to the existing ones."""
        row = self.row(request, item_id, "change_tags")
        wanted = validate(request.data, _BODY)["tags"]
        return Response({"tags": tags.add(request.context, row, *wanted)}, status=201)

    def delete(self, request: ApiRequest, item_id: str) -> Response:
        tags.replace(request.context, self.row(request, item_id, "change_tags"), ())
        return Response(status=204)


class Tag(TagView):
    """/v2.0/{collection}/{id}/tags/{tag}."""

    def get(self, request: ApiRequest, item_id: str, tag: str) -> Response:
        tags.require(self.row(request, item_id, "get_tags"), tag)
        return Response(status=204)

    def put(self, request: ApiRequest, item_id: str, tag: str) -> Response:
        row = self.row(request, item_id, "change_tags")
        tags.add(request.context, row, validate({"tag": tag}, _TAG)["tag"])
        return Response(status=201)

    def delete(self, request: ApiRequest, item_id: str, tag: str) -> Response:
        tags.remove(request.context, self.row(request, item_id, "change_tags"), tag)
        return Response(status=204)
