"""The network API itself: versions, extensions, zones, IP availability, and collections that are not offered."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework.response import Response

from conductor.core.errors import NotFound
from conductor.network import auto_topology, ip_availability, zones
from conductor.network.ip_availability import NetworkUse
from portal.api.base import ApiRequest
from portal.api.discovery import DiscoveryView, version_entry
from portal.api.links import absolute
from portal.api.network.extensions import EXTENSIONS
from portal.api.network.resources import RESOURCES
from portal.api.network.view import NetworkView
from portal.api.network.views.collections import checked_project, parse_query


class Root(DiscoveryView):
    """/network: the only version."""

    service = "network"

    def document(self, request: ApiRequest) -> dict[str, Any]:
        return {"versions": [version_entry(request, "v2.0", path="/network/v2.0/", status="CURRENT")]}


class V2(DiscoveryView):
    """/network/v2.0: its collections."""

    service = "network"

    def document(self, request: ApiRequest) -> dict[str, Any]:
        return {"resources": [self._entry(request, segment) for segment in RESOURCES]}

    def _entry(self, request: ApiRequest, segment: str) -> dict[str, Any]:
        link = {"rel": "self", "href": absolute(request, f"/network/v2.0/{segment}")}
        resource = RESOURCES[segment]
        return {"name": resource.rule, "collection": resource.plural, "links": [link]}


class Extensions(NetworkView):
    """/v2.0/extensions."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("get_extension")
        return Response({"extensions": [extension.to_json() for extension in EXTENSIONS]})


class Extension(NetworkView):
    """/v2.0/extensions/{alias}."""

    def get(self, request: ApiRequest, alias: str) -> Response:
        self.authorize("get_extension")
        for extension in EXTENSIONS:
            if extension.alias == alias:
                return Response({"extension": extension.to_json()})
        raise NotFound(f"Extension with alias {alias} does not exist", type="ExtensionNotFound")


class Empty(NetworkView):
    """A collection that is not offered: its list is empty, and creation is refused."""

    name: ClassVar[str] = ""
    rule: ClassVar[str] = ""

    def get(self, request: ApiRequest) -> Response:
        self.authorize(self.rule)
        return Response({self.name: []})


class AvailabilityZones(NetworkView):
    """/v2.0/availability_zones: one, for networks and for routers."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("get_availability_zone")
        found = [{"name": zones.NAME, "resource": resource, "state": "available"} for resource in zones.RESOURCES]
        given = request.query_params
        kept = [zone for zone in found if all(zone[name] in given.getlist(name) for name in zone if name in given)]
        return Response({"availability_zones": kept})


class AutoTopology(NetworkView):
    """/v2.0/auto-allocated-topology/{project}: created on the first request."""

    def get(self, request: ApiRequest, project_id: str) -> Response:
        self.authorize("get_auto_allocated_topology")
        wanted = request.context.project_id if project_id in ("None", "null") else checked_project(project_id)
        if "dry-run" in request.query_params.getlist("fields"):
            auto_topology.require_possible()
            found = "dry-run=pass"
        else:
            found = str(auto_topology.get_or_make(request.context, wanted).uuid)
        return Response({"auto_allocated_topology": {"id": found, "project_id": wanted, "tenant_id": wanted}})

    def delete(self, request: ApiRequest, project_id: str) -> Response:
        self.authorize("delete_auto_allocated_topology")
        wanted = request.context.project_id if project_id in ("None", "null") else checked_project(project_id)
        auto_topology.delete(request.context, wanted)
        return Response(status=204)


class IpAvailabilities(NetworkView):
    """/v2.0/network-ip-availabilities."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("get_network_ip_availability")
        found = ip_availability.list_uses(request.context, parse_query(request))
        return Response({"network_ip_availabilities": [_use(one) for one in found]})


class IpAvailability(NetworkView):
    """/v2.0/network-ip-availabilities/{network}."""

    def get(self, request: ApiRequest, network_id: str) -> Response:
        self.authorize("get_network_ip_availability")
        return Response({"network_ip_availability": _use(ip_availability.get_use(request.context, network_id))})


def _use(use: NetworkUse) -> dict[str, Any]:
    return {
        "network_id": str(use.network.uuid),
        "network_name": use.network.name,
        "project_id": use.network.project_id,
        "tenant_id": use.network.project_id,
        "total_ips": use.total,
        "used_ips": use.used,
        "subnet_ip_availability": [
            {
                "subnet_id": str(one.subnet.uuid),
                "subnet_name": one.subnet.name,
                "cidr": one.subnet.cidr,
                "ip_version": one.subnet.ip_version,
                "total_ips": one.total,
                "used_ips": one.used,
            }
            for one in use.subnets
        ],
    }
