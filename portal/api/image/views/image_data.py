"""The data of images, in and out as streams."""

from __future__ import annotations

from typing import BinaryIO

from django.http import FileResponse
from django.http.response import HttpResponseBase
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.response import Response

from conductor.image import operations
from conductor.image.models import Image
from conductor.services import images
from portal.api.base import ApiRequest
from portal.api.image.view import ImageView
from portal.request_bodies import chunks_of

OCTETS = "application/octet-stream"


class ImageData(ImageView):
    """/v2/images/{id}/file."""

    def put(self, request: ApiRequest, image_id: str) -> Response:
        self.authorize("upload_image")
        if (request.content_type or "").split(";")[0].strip().lower() != OCTETS:
            raise UnsupportedMediaType(request.content_type or "")
        images.upload(request.context, image_id, chunks_of(request._request))
        return Response(status=204)

    def get(self, request: ApiRequest, image_id: str) -> HttpResponseBase:
        self.authorize("download_image")
        row, data = operations.open_data(request.context, image_id)
        return Response(status=204) if data is None else _file(row, data)


def _file(row: Image, data: BinaryIO) -> FileResponse:
    answer = FileResponse(data, content_type=OCTETS)
    if row.checksum:
        answer["Content-MD5"] = row.checksum
    return answer
