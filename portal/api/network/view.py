"""What all views of the network API share."""

from __future__ import annotations

from portal.api.base import ApiView
from portal.api.network.policies import RULES


class NetworkView(ApiView):
    """Base view: faults as networks spell them, rules of its table."""

    service = "network"
    policies = RULES
