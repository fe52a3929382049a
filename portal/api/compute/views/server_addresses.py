"""Addresses of a server by network."""

from __future__ import annotations

from rest_framework.response import Response

from conductor.core.errors import NotFound
from portal.api.base import ApiRequest
from portal.api.compute.representations.servers import addresses
from portal.api.compute.view import BARE_SINCE
from portal.api.compute.views.servers import ServerView


class ServerAddresses(ServerView):
    bare_since = BARE_SINCE

    def get(self, request: ApiRequest, server_id: str) -> Response:
        self.allow("ips:index")
        return Response({"addresses": addresses(self.find(server_id), is_extended=False)})


class ServerAddressesByNetwork(ServerView):
    bare_since = BARE_SINCE

    def get(self, request: ApiRequest, server_id: str, network: str) -> Response:
        self.allow("ips:show")
        found = addresses(self.find(server_id), is_extended=False)
        if network not in found:
            raise NotFound("Network not found")
        return Response({network: found[network]})
