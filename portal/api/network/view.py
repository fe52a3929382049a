"""Base view of the network API."""

from __future__ import annotations

from portal.api.base import ApiView
from portal.api.network.policies import RULES


class NetworkView(ApiView):
    """Base view: Neutron's fault format, and policies."""

    service = "network"
    policies = RULES
