"""/placement: the version document, without a token."""

from __future__ import annotations

from rest_framework.response import Response

from portal.api.base import READS, ApiRequest
from portal.api.placement.microversions import VERSIONS
from portal.api.placement.view import PlacementView


class Root(PlacementView):
    """The document that clients read first."""

    public_methods = READS

    def get(self, request: ApiRequest) -> Response:
        version = {
            "id": f"v{VERSIONS.minimum}",
            "status": "CURRENT",
            "min_version": str(VERSIONS.minimum),
            "max_version": str(VERSIONS.maximum),
            "links": [{"rel": "self", "href": ""}],
        }
        return self.answer({"versions": [version]})
