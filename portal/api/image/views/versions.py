"""Discovery of the image API."""

from __future__ import annotations

from typing import Any

from portal.api.base import ApiRequest
from portal.api.discovery import DiscoveryView, version_entry

# 2.7: hidden images and sha512 digests. Higher ones promise several stores and more, which are not here.
VERSIONS = ("v2.7", "v2.6", "v2.5", "v2.4", "v2.3", "v2.2", "v2.1", "v2.0")


class Versions(DiscoveryView):
    """All versions; they are one and the same."""

    service = "image"

    def document(self, request: ApiRequest) -> dict[str, Any]:
        return {"versions": [self._entry(request, version) for version in VERSIONS]}

    def _entry(self, request: ApiRequest, version: str) -> dict[str, Any]:
        status = "CURRENT" if version == VERSIONS[0] else "SUPPORTED"
        return version_entry(request, version, path="/image/v2/", status=status)


class Root(Versions):
    """The same with the code for "choose one"."""

    status = 300
