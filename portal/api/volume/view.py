"""Base view of the volume API."""

from __future__ import annotations

import re
from typing import Any

from conductor.core.errors import Invalid
from portal.api.base import ApiRequest, ApiView
from portal.api.volume.policies import RULES
from portal.api.volume.versions import VERSIONS

_PROJECT = re.compile(r"\A/volume/v3/([0-9a-f]{32})(?:/|\Z)")


class VolumeView(ApiView):
    """Base view: Cinder's fault format, and policies. A project id may be in the path."""

    service = "volume"
    policies = RULES
    versions = VERSIONS

    def initial(self, request: ApiRequest, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        super().initial(request, *args, **kwargs)
        named = _PROJECT.match(request.path)
        if named and named[1] != request.context.project_id and not request.context.is_admin:
            raise Invalid("Malformed request url: the project in the path is not that of the token.")
