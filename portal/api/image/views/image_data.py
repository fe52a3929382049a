"""Upload and download of image data as streams."""

from __future__ import annotations

import re
import weakref
from typing import BinaryIO

from django.http import FileResponse
from django.http.response import HttpResponseBase
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.response import Response

from conductor.core.errors import Unavailable
from conductor.image import operations
from conductor.services.images import images
from portal.api.base import ApiRequest
from portal.api.image.view import ImageView
from portal.request_bodies import chunks_of
from portal.transfers import shares

_RANGE = re.compile(r"\Abytes=(\d{0,18})-(\d{0,18})\Z")
OCTETS = "application/octet-stream"


class ImageData(ImageView):
    """/v2/images/{id}/file."""

    def put(self, request: ApiRequest, image_id: str) -> Response:
        self.authorize("upload_image")
        if (request.content_type or "").split(";")[0].strip().lower() != OCTETS:
            raise UnsupportedMediaType(request.content_type or "")
        with shares.share(request.context.project_id):
            images.upload(request.context, image_id, chunks_of(request._request))
        return Response(status=204)

    def get(self, request: ApiRequest, image_id: str) -> HttpResponseBase:
        """Stream the whole image or one range. A range has no digest, because the digest is that of the whole."""
        self.authorize("download_image")
        row, data = operations.open_data(request.context, image_id)
        if data is None:
            return Response(status=204)
        project_id, wanted = request.context.project_id, request.headers.get("Range")
        start, end = (0, (row.size or 0) - 1) if wanted is None else _bounds(row.size or 0, wanted)
        if wanted is not None and start > end:
            data.close()
            return Response(status=416, headers={"Content-Range": f"bytes */{row.size or 0}"})
        try:
            shares.take(project_id)
        except Unavailable:
            data.close()
            raise
        data.seek(start)
        answer = FileResponse(_FileSlice(data, end - start + 1, project_id), content_type=OCTETS)
        answer["Content-Length"] = str(end - start + 1)
        if wanted is not None:
            answer.status_code = 206
            answer["Content-Range"] = f"bytes {start}-{end}/{row.size}"
        elif row.checksum:
            answer["Content-MD5"] = row.checksum
        return answer


class StagedData(ImageView):
    """/v2/images/{id}/stage: data to be imported later."""

    def put(self, request: ApiRequest, image_id: str) -> Response:
        self.authorize("stage_image")
        if (request.content_type or "").split(";")[0].strip().lower() != OCTETS:
            raise UnsupportedMediaType(request.content_type or "")
        with shares.share(request.context.project_id):
            images.stage(request.context, image_id, chunks_of(request._request))
        return Response(status=204)


def _bounds(size: int, wanted: str) -> tuple[int, int]:
    """Return first and last byte of `bytes=0-99`, `bytes=100-` or `bytes=-100`; for any other range, last < first."""
    match = _RANGE.match(wanted)
    first, last = match.groups() if match else ("", "")
    if first:
        return int(first), min(int(last) if last else size - 1, size - 1)
    return (max(0, size - int(last)), size - 1) if last else (size, 0)


class _FileSlice:
    """Part of a file, read in blocks; closing it releases the project's transfer slot."""

    def __init__(self, file: BinaryIO, left: int, project_id: str) -> None:
        self.file, self.left = file, left
        self._release = weakref.finalize(self, shares.release, project_id)

    def read(self, size: int = -1) -> bytes:
        block = self.file.read(self.left if size < 0 else min(size, self.left))
        self.left -= len(block)
        return block

    def close(self) -> None:
        self.file.close()
        self._release()
