"""Resources of older clouds that were removed."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from portal.api.base import ApiRequest
from portal.api.compute.view import ComputeView
from portal.api.errors import Gone


class Removed(ComputeView):
    """410 for every request."""

    def get(self, request: ApiRequest, **names: Any) -> Response:
        raise Gone("This part of the API was removed and does not come back.")

    post = put = delete = get
