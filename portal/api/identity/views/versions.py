"""Discovery of the identity API."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from portal.api.base import ApiRequest
from portal.api.discovery import DiscoveryView, media_type, version_entry
from portal.api.links import absolute

V3_PATH = "/identity/v3/"


def v3(request: ApiRequest) -> dict[str, Any]:
    return version_entry(
        request,
        "v3.14",
        path=V3_PATH,
        status="stable",
        updated="2020-04-07T00:00:00Z",
        **{"media-types": [media_type("identity-v3")]},
    )


class Root(DiscoveryView):
    """All versions; there is only one."""

    service = "identity"
    status = 300

    def document(self, request: ApiRequest) -> dict[str, Any]:
        return {"versions": {"values": [v3(request)]}}

    def get(self, request: ApiRequest) -> Response:
        response = super().get(request)
        response["Location"] = absolute(request, V3_PATH)
        return response


class V3(DiscoveryView):
    """The only version."""

    service = "identity"

    def document(self, request: ApiRequest) -> dict[str, Any]:
        return {"version": v3(request)}
