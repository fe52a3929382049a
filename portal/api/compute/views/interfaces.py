"""Ports of a server."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Conflict, Forbidden, NotSupported
from conductor.services.audit import audit
from conductor.services.servers import interfaces
from conductor.services.servers.interfaces import Interface, InterfaceCreate
from portal.api.base import ApiRequest
from portal.api.compute.schemas import storage_actions as schemas
from portal.api.compute.view import BARE_SINCE
from portal.api.compute.views.offered import accepted
from portal.api.compute.views.servers import ServerView
from portal.api.validation import validate

REFUSALS = (Conflict, Forbidden, NotSupported)


class InterfaceView(ServerView):
    def one(self, interface: Interface) -> dict[str, Any]:
        """Return a port with the fields that the version knows."""
        shown: dict[str, Any] = {
            "port_id": interface.port_id,
            "net_id": interface.network_id,
            "mac_addr": interface.mac_address,
            "port_state": interface.status,
            "fixed_ips": [{"subnet_id": subnet, "ip_address": address} for subnet, address in interface.addresses],
        }
        return shown | ({"tag": interface.tag} if self.request.microversion.covers("2.70") else {})


class Interfaces(InterfaceView):
    """/servers/{id}/os-interface."""

    bare_since = BARE_SINCE

    def get(self, request: ApiRequest, server_id: str) -> Response:
        self.allow("os-attach-interfaces:list")
        found = interfaces.list_interfaces(request.context, server_id)
        return Response({"interfaceAttachments": [self.one(interface) for interface in found]})

    def post(self, request: ApiRequest, server_id: str) -> Response:
        self.allow("os-attach-interfaces:create")
        body = validate(request.data or {}, schemas.attach_interface(request.microversion))
        given = body.get("interfaceAttachment") or {}
        requested = InterfaceCreate(
            network_id=given.get("net_id") or "",
            port_id=given.get("port_id") or "",
            fixed_ip=next((fixed["ip_address"] for fixed in given.get("fixed_ips", ())), ""),
            tag=given.get("tag"),
        )
        try:
            interface = interfaces.attach_and_wait(request.context, server_id, requested)
        except REFUSALS as error:
            audit.record_refusal(request.context, "attach_interface", server_id, error)
            raise
        response = accepted(self, interface.run_uuid, {"interfaceAttachment": self.one(interface)})
        response.status_code = 200
        return response


class InterfaceById(InterfaceView):
    """/servers/{id}/os-interface/{port}."""

    bare_since = BARE_SINCE

    def get(self, request: ApiRequest, server_id: str, port_id: str) -> Response:
        self.allow("os-attach-interfaces:show")
        return Response({"interfaceAttachment": self.one(interfaces.get(request.context, server_id, port_id))})

    def delete(self, request: ApiRequest, server_id: str, port_id: str) -> Response:
        self.allow("os-attach-interfaces:delete")
        try:
            return accepted(self, interfaces.detach(request.context, server_id, port_id))
        except REFUSALS as error:
            audit.record_refusal(request.context, "detach_interface", server_id, error)
            raise
