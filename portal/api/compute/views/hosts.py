"""The hosts API (/os-hosts) before microversion 2.43, and the API of bare-metal nodes."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework.response import Response

from conductor.core.errors import NotFound, NotSupported
from conductor.services.fleet import enabling
from conductor.services.hosts import hosts
from conductor.services.hosts.hosts import HostShare
from conductor.services.hosts.types import ServiceView
from portal.api.base import ApiRequest
from portal.api.compute.view import ComputeView
from portal.api.schema_parts import Schema, closed
from portal.api.validation import validate

_SWITCH: Schema = {"enum": ["enable", "Enable", "ENABLE", "disable", "Disable", "DISABLE"]}
UPDATE: Schema = {**closed({"status": _SWITCH, "maintenance_mode": _SWITCH}), "minProperties": 1}


class HostView(ComputeView):
    def find(self, name: str) -> ServiceView:
        for service in hosts.list_services(self.request.context, host=name, binary=hosts.COMPUTE).items:
            if service.is_known:
                return service
        raise NotFound(f"Compute host {name[:60]} could not be found.")


class Hosts(ComputeView):
    def get(self, request: ApiRequest) -> Response:
        zone = request.query_params.get("zone")
        shown = [
            {"host_name": service.host, "service": service.binary.removeprefix("nova-"), "zone": service.zone}
            for service in hosts.list_services(request.context).items
            if service.is_known and not service.is_disabled and zone in (None, "", service.zone)
        ]
        return Response({"hosts": shown})


class HostByName(HostView):
    def get(self, request: ApiRequest, name: str) -> Response:
        self.find(name)
        return Response({"host": [_resource(name, share) for share in hosts.shares(request.context, name)]})

    def put(self, request: ApiRequest, name: str) -> Response:
        wanted = validate(request.data, UPDATE)
        service = self.find(name)
        if "maintenance_mode" in wanted:
            raise NotSupported("Hosts have no maintenance mode: close them, and drain them by a workflow.")
        is_disabled = wanted["status"].lower() == "disable"
        enabling.update(request.context, service, is_disabled=is_disabled, disabled_reason=None)
        return Response({"host": name, "status": "disabled" if is_disabled else "enabled"})


class HostPower(HostView):
    """Power actions on hosts, which this cloud does not offer."""

    verb: ClassVar[str] = ""

    def get(self, request: ApiRequest, name: str) -> Response:
        self.find(name)
        raise NotSupported(f"No hypervisor driver can {self.verb} its own host.")


class BareMetalNodes(ComputeView):
    """/os-baremetal-nodes and /os-baremetal-nodes/{id}: not supported, because bare-metal nodes are hypervisors."""

    def get(self, request: ApiRequest, node_id: str = "") -> Response:
        self.allow(f"os-baremetal-nodes:{'show' if node_id else 'list'}")
        raise NotSupported("No service of bare metal is behind this part of the API; whole machines are hypervisors.")


def _resource(name: str, share: HostShare) -> dict[str, Any]:
    amounts = {"cpu": share.vcpus, "memory_mb": share.memory_mb, "disk_gb": share.disk_gb}
    return {"resource": {"host": name, "project": share.name, **amounts}}
