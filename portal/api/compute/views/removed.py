"""What there was in older clouds and is no more."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from portal.api.base import ApiRequest
from portal.api.compute.view import ComputeView
from portal.api.errors import Gone


class Removed(ComputeView):
    """410, whatever is asked."""

    def get(self, request: ApiRequest, **names: Any) -> Response:
        raise Gone("This part of the API was removed and does not come back.")

    post = put = delete = get
