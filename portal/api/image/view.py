"""Base view of the image API."""

from __future__ import annotations

from portal.api.base import ApiView
from portal.api.image.policies import RULES


class ImageView(ApiView):
    """Base view: Glance's fault format, and policies."""

    service = "image"
    policies = RULES
