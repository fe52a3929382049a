"""Metadata of a server: keys with values."""

from __future__ import annotations

from rest_framework.response import Response

from conductor.core.errors import Invalid, NotFound
from conductor.services.servers import updates
from portal.api.base import ApiRequest
from portal.api.compute.schemas import servers as schemas
from portal.api.compute.view import BARE_SINCE
from portal.api.compute.views.servers import ServerView
from portal.api.validation import validate


class ServerMetadata(ServerView):
    bare_since = BARE_SINCE

    def get(self, request: ApiRequest, server_id: str) -> Response:
        self.allow("server-metadata:index")
        return Response({"metadata": dict(self.find(server_id).metadata)})

    def post(self, request: ApiRequest, server_id: str) -> Response:
        self.allow("server-metadata:create")
        items = validate(request.data, schemas.METADATA_BODY)["metadata"]
        return Response({"metadata": updates.merge_metadata(request.context, server_id, items)})

    def put(self, request: ApiRequest, server_id: str) -> Response:
        self.allow("server-metadata:update_all")
        items = validate(request.data, schemas.METADATA_BODY)["metadata"]
        return Response({"metadata": updates.replace_metadata(request.context, server_id, items)})


class ServerMetadataItem(ServerView):
    bare_since = BARE_SINCE

    def get(self, request: ApiRequest, server_id: str, key: str) -> Response:
        self.allow("server-metadata:show")
        metadata = self.find(server_id).metadata
        if key not in metadata:
            raise NotFound("Metadata item was not found")
        return Response({"meta": {key: metadata[key]}})

    def put(self, request: ApiRequest, server_id: str, key: str) -> Response:
        self.allow("server-metadata:update")
        item = validate(request.data, schemas.META_BODY)["meta"]
        if key not in item:
            raise Invalid("Request body and URI mismatch", field="meta")
        updates.merge_metadata(request.context, server_id, item)
        return Response({"meta": item})

    def delete(self, request: ApiRequest, server_id: str, key: str) -> Response:
        self.allow("server-metadata:delete")
        updates.remove_metadata(request.context, server_id, key)
        return Response(status=204)
