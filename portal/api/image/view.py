"""What all views of the image API share."""

from __future__ import annotations

from portal.api.base import ApiView
from portal.api.image.policies import RULES


class ImageView(ApiView):
    """Base view: faults as images spell them, rules of its table."""

    service = "image"
    policies = RULES
