"""Actions on routers: add and remove interfaces and extra routes."""

from __future__ import annotations

from rest_framework.response import Response

from conductor.network import routers
from portal.api.base import ApiRequest
from portal.api.network import resources
from portal.api.network.representations import routers as router_json
from portal.api.network.schemas import routing
from portal.api.network.view import NetworkView
from portal.api.validation import validate


class AddInterface(NetworkView):
    """PUT /v2.0/routers/{id}/add_router_interface."""

    is_added = True

    def put(self, request: ApiRequest, router_id: str) -> Response:
        self.authorize("add_router_interface" if self.is_added else "remove_router_interface")
        routers.get_router(request.context, router_id)  # an unknown id is reported before an invalid body
        given = validate(request.data, routing.INTERFACE)
        return Response(resources.change_interface(request.context, router_id, given, is_added=self.is_added))


class RemoveInterface(AddInterface):
    """PUT /v2.0/routers/{id}/remove_router_interface."""

    is_added = False


class AddRoutes(NetworkView):
    """PUT /v2.0/routers/{id}/add_extraroutes."""

    is_added = True

    def put(self, request: ApiRequest, router_id: str) -> Response:
        self.authorize("add_extraroutes" if self.is_added else "remove_extraroutes")
        routers.get_router(request.context, router_id)
        wanted = validate(request.data, routing.EXTRA_ROUTES)["router"]["routes"]
        changed = routers.change_routes(request.context, router_id, wanted, is_added=self.is_added)
        return Response({"router": router_json.router(changed, request.context)})


class RemoveRoutes(AddRoutes):
    """PUT /v2.0/routers/{id}/remove_extraroutes."""

    is_added = False
