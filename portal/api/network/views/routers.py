"""Actions on routers: add and remove interfaces and extra routes."""

from __future__ import annotations

from rest_framework.response import Response

from conductor.network import router_interfaces, routers
from portal.api.base import ApiRequest
from portal.api.network.representations import routers as router_json
from portal.api.network.schemas import routing
from portal.api.network.view import NetworkView
from portal.api.validation import validate


class AddInterface(NetworkView):
    """PUT /v2.0/routers/{id}/add_router_interface."""

    def put(self, request: ApiRequest, router_id: str) -> Response:
        self.authorize("add_router_interface")
        routers.get_router(request.context, router_id)  # an unknown id is reported before an invalid body
        given = validate(request.data, routing.INTERFACE)
        found = router_interfaces.add(
            request.context, router_id, subnet_id=given.get("subnet_id") or "", port_id=given.get("port_id") or ""
        )
        return Response(router_json.interface(found))


class RemoveInterface(NetworkView):
    """PUT /v2.0/routers/{id}/remove_router_interface."""

    def put(self, request: ApiRequest, router_id: str) -> Response:
        self.authorize("remove_router_interface")
        routers.get_router(request.context, router_id)
        given = validate(request.data, routing.INTERFACE)
        found = router_interfaces.remove(
            request.context, router_id, subnet_id=given.get("subnet_id") or "", port_id=given.get("port_id") or ""
        )
        return Response(router_json.interface(found))


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
