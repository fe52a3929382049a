"""Images: their metadata."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.image import operations, tasks
from conductor.services.images import images
from portal.api.base import ApiRequest
from portal.api.image.representations import images as serializers
from portal.api.image.schemas.images import IMPORT
from portal.api.image.view import ImageView
from portal.api.image.views.queries import parse_query, paths
from portal.api.links import absolute
from portal.api.pagination import fit, parse_page
from portal.api.parsing import JsonParser
from portal.api.validation import validate

METHOD = "glance-direct"


class PatchParser(JsonParser):
    """Parses a JSON patch, which has a media type of its own."""

    media_type = "application/openstack-images-v2.1-json-patch"


class OldPatchParser(PatchParser):
    """Parses the older format of patches."""

    media_type = "application/openstack-images-v2.0-json-patch"


class Images(ImageView):
    """/v2/images."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("get_images")
        query = parse_query(request)
        found = operations.list_visible(request.context, replace(query, limit=query.limit + 1))
        details = [serializers.image(row) for row in found[: query.limit]]
        shown, has_more = fit(details, has_more=len(found) > query.limit)
        last_id = shown[-1]["id"] if shown and has_more else None
        body = {"images": shown, "schema": "/v2/schemas/images"}
        return Response(body | paths(request, last_id))

    def post(self, request: ApiRequest) -> Response:
        self.authorize("add_image")
        if request.data == {} and not request.META.get("CONTENT_LENGTH", "").strip("0"):
            raise Invalid("Body expected in request.")  # {} is a body: an image needs no name
        wanted = serializers.wanted_image(request.data)
        image_id = wanted.pop("id", None)
        created = images.create(request.context, wanted, image_uuid=UUID(image_id) if image_id else None)
        body = serializers.image(created)
        offers = {"OpenStack-image-import-methods": METHOD, "OpenStack-image-store-ids": serializers.STORE}
        headers = {"Location": absolute(request, f"/image{body['self']}"), **offers}
        return Response(body, status=201, headers=headers)


class Image(ImageView):
    """/v2/images/{id}."""

    parser_classes = (PatchParser, OldPatchParser)

    def get(self, request: ApiRequest, image_id: str) -> Response:
        self.authorize("get_image")
        return Response(serializers.image(operations.get_visible(request.context, image_id)))

    def patch(self, request: ApiRequest, image_id: str) -> Response:
        self.authorize("modify_image")
        operations.get_visible(request.context, image_id)  # an unknown image is reported before an invalid patch
        is_old = (request.content_type or "").split(";")[0].strip().lower() == OldPatchParser.media_type
        read = serializers.old_changes if is_old else serializers.changes
        changed = images.update(request.context, image_id, read(request.data))
        return Response(serializers.image(changed))

    def delete(self, request: ApiRequest, image_id: str) -> Response:
        self.authorize("delete_image")
        images.delete(request.context, image_id)
        return Response(status=204)


class Tag(ImageView):
    """/v2/images/{id}/tags/{tag}."""

    def put(self, request: ApiRequest, image_id: str, tag: str) -> Response:
        self.authorize("modify_tags")
        operations.add_tag(request.context, image_id, tag)
        return Response(status=204)

    def delete(self, request: ApiRequest, image_id: str, tag: str) -> Response:
        self.authorize("modify_tags")
        operations.remove_tag(request.context, image_id, tag)
        return Response(status=204)


class Action(ImageView):
    """/v2/images/{id}/actions/{deactivate, reactivate}."""

    verb = "deactivate"

    def post(self, request: ApiRequest, image_id: str) -> Response:
        self.authorize(self.verb)
        images.set_active(request.context, image_id, is_active=self.verb == "reactivate")
        return Response(status=204)


class Import(ImageView):
    """/v2/images/{id}/import: turns staged data into the image's data."""

    def post(self, request: ApiRequest, image_id: str) -> Response:
        self.authorize("import_image")
        operations.get_visible(request.context, image_id)
        method = validate(request.data, IMPORT)["method"]["name"]
        if method != METHOD:
            raise Invalid(f"Import method {method[:60]} is not offered: use {METHOD}.", field="method.name")
        images.take_staged(request.context, image_id, method)
        return Response(status=202, headers={"x-openstack-image-import": METHOD})


class AllTasks(ImageView):
    """/v2/tasks: imports of the last days, newest first."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("get_tasks")
        page = parse_page(request)
        found = tasks.list_visible(request.context, page.limit + 1, page.marker)
        shown = [serializers.task(row) for row in found[: page.limit]]
        body: dict[str, Any] = {"tasks": shown, "first": "/v2/tasks", "schema": "/v2/schemas/tasks"}
        if len(found) > page.limit and shown:
            body["next"] = f"/v2/tasks?{urlencode({'limit': page.limit, 'marker': shown[-1]['id']})}"
        return Response(body)


class Task(ImageView):
    """/v2/tasks/{id}."""

    def get(self, request: ApiRequest, task_id: str) -> Response:
        self.authorize("get_task")
        return Response(serializers.task(tasks.get_visible(request.context, task_id), is_whole=True))


class Tasks(ImageView):
    """/v2/images/{id}/tasks: its imports."""

    def get(self, request: ApiRequest, image_id: str) -> Response:
        self.authorize("get_image")
        found = tasks.of_image(request.context, operations.get_visible(request.context, image_id))
        return Response({"tasks": [serializers.task(row, is_whole=True) for row in found]})
