"""The data of images, in and out as streams."""

from __future__ import annotations

import re
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

_RANGE = re.compile(r"\Abytes=(\d{0,18})-(\d{0,18})\Z")
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
        """All of it, or the one range that is asked for: then without a digest, which is that of the whole."""
        self.authorize("download_image")
        row, data = operations.open_data(request.context, image_id)
        if data is None:
            return Response(status=204)
        wanted = request.headers.get("Range")
        return _file(row, data) if wanted is None else _part(row, data, wanted)


class StagedData(ImageView):
    """/v2/images/{id}/stage: data that wait to be imported."""

    def put(self, request: ApiRequest, image_id: str) -> Response:
        self.authorize("stage_image")
        if (request.content_type or "").split(";")[0].strip().lower() != OCTETS:
            raise UnsupportedMediaType(request.content_type or "")
        images.stage(request.context, image_id, chunks_of(request._request))
        return Response(status=204)


def _part(row: Image, data: BinaryIO, wanted: str) -> HttpResponseBase:
    """`bytes=0-99`, `bytes=100-` or `bytes=-100`. 416 for what is no such range of the data."""
    size = row.size or 0
    match = _RANGE.match(wanted)
    first, last = match.groups() if match else ("", "")
    if first:
        start, end = int(first), min(int(last) if last else size - 1, size - 1)
    elif last:
        start, end = max(0, size - int(last)), size - 1
    else:
        start, end = size, 0
    if start > end:
        data.close()
        answer: HttpResponseBase = Response(status=416)
        answer["Content-Range"] = f"bytes */{size}"
        return answer
    data.seek(start)
    answer = FileResponse(_Part(data, end - start + 1), status=206, content_type=OCTETS)
    answer["Content-Range"] = f"bytes {start}-{end}/{size}"
    answer["Content-Length"] = str(end - start + 1)
    return answer


class _Part:
    """So many bytes of a file, read in blocks."""

    def __init__(self, file: BinaryIO, left: int) -> None:
        self.file, self.left = file, left

    def read(self, size: int = -1) -> bytes:
        block = self.file.read(self.left if size < 0 else min(size, self.left))
        self.left -= len(block)
        return block

    def close(self) -> None:
        self.file.close()


def _file(row: Image, data: BinaryIO) -> FileResponse:
    answer = FileResponse(data, content_type=OCTETS)
    if row.checksum:
        answer["Content-MD5"] = row.checksum
    return answer
