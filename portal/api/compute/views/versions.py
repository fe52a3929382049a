"""API versions, shown without a token."""

from __future__ import annotations

from typing import Any

from portal.api.base import ApiRequest
from portal.api.compute.microversions import VERSIONS
from portal.api.discovery import DiscoveryView, media_type, version_entry
from portal.api.links import absolute

DESCRIBED_BY = "/api"


def _v20(request: ApiRequest) -> dict[str, Any]:
    return version_entry(
        request,
        "v2.0",
        path="/compute/v2/",
        status="SUPPORTED",
        version="",
        min_version="",
        updated="2011-01-21T11:33:21Z",
    )


def _v21(request: ApiRequest) -> dict[str, Any]:
    return version_entry(
        request,
        "v2.1",
        path="/compute/v2.1/",
        status="CURRENT",
        version=str(VERSIONS.maximum),
        min_version=str(VERSIONS.minimum),
        updated="2013-07-23T11:33:21Z",
    )


def _by_itself(request: ApiRequest, entry: dict[str, Any], version: str) -> dict[str, Any]:
    described = {"rel": "describedby", "type": "text/html", "href": absolute(request, DESCRIBED_BY)}
    kinds = [media_type("compute", f";version={version}")]
    return {"version": {**entry, "links": [*entry["links"], described], "media-types": kinds}}


class ComputeDiscovery(DiscoveryView):
    service = "compute"
    versions = VERSIONS


class Root(ComputeDiscovery):
    def document(self, request: ApiRequest) -> dict[str, Any]:
        return {"versions": [_v20(request), _v21(request)]}


class V20(ComputeDiscovery):
    def document(self, request: ApiRequest) -> dict[str, Any]:
        return _by_itself(request, _v20(request), "2")


class V21(ComputeDiscovery):
    def document(self, request: ApiRequest) -> dict[str, Any]:
        return _by_itself(request, _v21(request), "2.1")
