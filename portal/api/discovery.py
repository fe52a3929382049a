"""Version documents, which clients read first, without a token.

    class Root(DiscoveryView):
        service = "image"
        status = 300

        def document(self, request: ApiRequest) -> dict[str, Any]:
            return {"versions": [version_entry(request, "v2.17", path="/image/v2/", status="CURRENT")]}

Route it with and without a trailing slash.
"""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework.response import Response

from portal.api.base import READS, ApiRequest, ApiView
from portal.api.links import absolute


def version_entry(request: ApiRequest, version_id: str, *, path: str, status: str, **fields: Any) -> dict[str, Any]:
    """Return the entry of one version: its id, status and a link to itself; `fields` are added as they are."""
    return {"id": version_id, "status": status, "links": [{"rel": "self", "href": absolute(request, path)}], **fields}


def media_type(vendor: str, parameters: str = "") -> dict[str, str]:
    """Return a media type as version documents list it, e.g. of `compute` with `;version=2.1`."""
    return {"base": "application/json", "type": f"application/vnd.openstack.{vendor}+json{parameters}"}


class DiscoveryView(ApiView):
    """Answers `document()` with `status`, without authentication."""

    public_methods = READS
    status: ClassVar[int] = 200

    def document(self, request: ApiRequest) -> dict[str, Any]:
        raise NotImplementedError

    def get(self, request: ApiRequest) -> Response:
        return Response(self.document(request), status=self.status)
