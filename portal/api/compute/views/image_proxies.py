"""Image proxy until 2.35; image metadata until 2.38."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.services.images import proxies
from conductor.services.images.proxies import ImageFilter, OldImage
from portal.api.base import ApiRequest
from portal.api.compute.representations import parts
from portal.api.compute.representations.server_queries import time_of
from portal.api.compute.schemas import proxies as schemas
from portal.api.compute.view import ComputeView
from portal.api.links import absolute
from portal.api.pagination import fit, next_links, parse_page
from portal.api.validation import validate


class ImageView(ComputeView):
    def summary(self, image: OldImage) -> dict[str, Any]:
        path = f"/image/v2/images/{image.image_id}"
        other = {
            "rel": "alternate",
            "type": "application/vnd.openstack.image",
            "href": absolute(self.request, path),
        }
        links = [*parts.links(self.request, "images", image.image_id), other]
        return {"id": image.image_id, "name": image.name, "links": links}

    def whole(self, image: OldImage) -> dict[str, Any]:
        shown = self.summary(image) | {
            "metadata": dict(image.metadata),
            "minDisk": image.min_disk_gb,
            "minRam": image.min_ram_mb,
            "OS-EXT-IMG-SIZE:size": image.size,
            "status": image.status,
            "progress": image.progress,
            "created": parts.to_the_second(image.created_at),
            "updated": parts.to_the_second(image.updated_at),
        }
        if image.server:
            links = parts.links(self.request, "servers", image.server)
            shown["server"] = {"id": image.server, "links": links}
        return shown


class Images(ImageView):
    """/images; with `is_detailed`, /images/detail."""

    is_detailed: ClassVar[bool] = False

    def get(self, request: ApiRequest) -> Response:
        found = proxies.list_images(request.context, self._filter())
        show = self.whole if self.is_detailed else self.summary
        shown, has_more = fit([show(image) for image in found.items], has_more=found.has_more)
        last_id = found.items[len(shown) - 1].image_id if shown else None
        return Response({"images": shown, **next_links(request, "images", last_id=last_id, has_more=has_more)})

    def _filter(self) -> ImageFilter:
        given, page = self.request.query_params, parse_page(self.request)
        since = given.get("changes-since")
        return ImageFilter(
            name=given.get("name", ""),
            status=given.get("status", ""),
            kind=given.get("type", "").lower(),
            server=given.get("server", "").rstrip("/").rpartition("/")[2],
            min_ram_mb=self._number("minRam"),
            min_disk_gb=self._number("minDisk"),
            changed_since=time_of(since, "changes-since") if since else None,
            limit=page.limit,
            marker=page.marker,
        )

    def _number(self, name: str) -> int | None:
        text = self.request.query_params.get(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) <= 10):
            raise Invalid(f"Invalid input for query parameter {name}. It must be a number.", field=name)
        return int(text)


class ImageById(ImageView):
    def get(self, request: ApiRequest, image_id: str) -> Response:
        return Response({"image": self.whole(proxies.image(request.context, image_id))})

    def delete(self, request: ApiRequest, image_id: str) -> Response:
        proxies.delete_image(request.context, image_id)
        return Response(status=204)


class ImageMetadata(ComputeView):
    def get(self, request: ApiRequest, image_id: str) -> Response:
        return Response({"metadata": dict(proxies.image(request.context, image_id).metadata)})

    def post(self, request: ApiRequest, image_id: str) -> Response:
        return self._set(image_id, replaces_all=False)

    def put(self, request: ApiRequest, image_id: str) -> Response:
        return self._set(image_id, replaces_all=True)

    def _set(self, image_id: str, *, replaces_all: bool) -> Response:
        given = validate(self.request.data, schemas.IMAGE_METADATA)["metadata"]
        changed = proxies.set_image_metadata(self.request.context, image_id, given, replaces_all=replaces_all)
        return Response({"metadata": dict(changed)})


class ImageMetadataItem(ComputeView):
    def get(self, request: ApiRequest, image_id: str, key: str) -> Response:
        return Response({"meta": {key: proxies.image_metadata_item(request.context, image_id, key)}})

    def put(self, request: ApiRequest, image_id: str, key: str) -> Response:
        given = validate(request.data, schemas.IMAGE_METADATA_ITEM)["meta"]
        if key not in given:
            raise Invalid("Request body and URI mismatch", field="meta")
        proxies.set_image_metadata(request.context, image_id, given)
        return Response({"meta": given})

    def delete(self, request: ApiRequest, image_id: str, key: str) -> Response:
        proxies.remove_image_metadata(request.context, image_id, key)
        return Response(status=204)
