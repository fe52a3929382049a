"""Tags of a server."""

from __future__ import annotations

from rest_framework.response import Response

from conductor.core.errors import NotFound
from conductor.services.servers import updates
from portal.api.base import ApiRequest
from portal.api.compute.representations import parts
from portal.api.compute.schemas import servers as schemas
from portal.api.compute.views.servers import ServerView
from portal.api.validation import validate


class ServerTags(ServerView):
    min_microversion = "2.26"

    def get(self, request: ApiRequest, server_id: str) -> Response:
        self.allow("os-server-tags:index")
        return Response({"tags": list(self.find(server_id).tags)})

    def put(self, request: ApiRequest, server_id: str) -> Response:
        self.allow("os-server-tags:update_all")
        tags = validate(request.data, schemas.TAGS_BODY)["tags"]
        return Response({"tags": list(updates.replace_tags(request.context, server_id, tags))})

    def delete(self, request: ApiRequest, server_id: str) -> Response:
        self.allow("os-server-tags:delete_all")
        updates.replace_tags(request.context, server_id, ())
        return Response(status=204)


class ServerTag(ServerView):
    min_microversion = "2.26"

    def get(self, request: ApiRequest, server_id: str, tag: str) -> Response:
        self.allow("os-server-tags:show")
        if tag not in self.find(server_id).tags:
            raise NotFound(f"Server {server_id} has no tag '{tag}'")
        return Response(status=204)

    def put(self, request: ApiRequest, server_id: str, tag: str) -> Response:
        self.allow("os-server-tags:update")
        validate({"tags": [tag]}, schemas.TAGS_BODY)
        if not updates.add_tag(request.context, server_id, tag):
            return Response(status=204)
        response = Response(status=201)
        response["Location"] = parts.self_link(request, "servers", server_id, "tags", tag)["href"]
        return response

    def delete(self, request: ApiRequest, server_id: str, tag: str) -> Response:
        self.allow("os-server-tags:delete")
        updates.remove_tag(request.context, server_id, tag)
        return Response(status=204)
