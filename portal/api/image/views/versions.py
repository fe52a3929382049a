"""Discovery of the image API."""

from __future__ import annotations

from typing import Any

from portal.api.base import ApiRequest
from portal.api.discovery import DiscoveryView, version_entry

# 2.17 adds usage. There is one store, which 2.8 and above name; there are no caches (2.14, 2.16).
VERSIONS = tuple(f"v2.{minor}" for minor in range(17, -1, -1))


class Versions(DiscoveryView):
    """All versions, which behave the same."""

    service = "image"

    def document(self, request: ApiRequest) -> dict[str, Any]:
        return {"versions": [self._entry(request, version) for version in VERSIONS]}

    def _entry(self, request: ApiRequest, version: str) -> dict[str, Any]:
        status = "CURRENT" if version == VERSIONS[0] else "SUPPORTED"
        return version_entry(request, version, path="/image/v2/", status=status)


class Root(Versions):
    """The same document with status 300."""

    status = 300
