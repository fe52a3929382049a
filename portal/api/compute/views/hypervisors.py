"""Hypervisors: the nodes that run servers, for operators."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework.response import Response

from conductor.core.errors import Invalid, NotFound, NotSupported
from conductor.core.identifiers import uuid_or_none
from conductor.core.page import Page
from conductor.services.hosts import hosts
from conductor.services.hosts.hosts import HypervisorQuery
from conductor.services.hosts.types import HypervisorView
from portal.api.base import ApiRequest
from portal.api.compute.representations import hypervisors as serializers
from portal.api.compute.representations.hypervisors import UUIDS_SINCE, Servers
from portal.api.compute.view import ComputeView
from portal.api.pagination import PaginationQuery, next_links, parse_page
from portal.api.validation import as_boolean

PATTERN = "hypervisor_hostname_pattern"
LONGEST_PATTERN = 255


class HypervisorsView(ComputeView):
    def find(self, ref: str) -> HypervisorView:
        """Return the hypervisor by the id or uuid that this version uses."""
        if self.request.microversion.covers(UUIDS_SINCE) and uuid_or_none(ref) is None:
            raise Invalid(f"Invalid uuid {ref[:60]}", field="id")
        return hosts.get_hypervisor(self.request.context, ref)

    def servers_on(self, nodes: list[HypervisorView]) -> dict[str, Servers]:
        """Return the servers by host if the query asks for them; else nothing."""
        if not self.request.microversion.covers(UUIDS_SINCE):
            return {}
        if not as_boolean(self.request.query_params.get("with_servers", "false"), "with_servers"):
            return {}
        return hosts.instances_on(self.request.context, [node.service.host for node in nodes])


class Hypervisors(HypervisorsView):
    serialize: ClassVar[Any] = staticmethod(serializers.summary)

    def get(self, request: ApiRequest) -> Response:
        self.refuse_unknown_query((PATTERN, "with_servers"), since=UUIDS_SINCE)
        found = self._page()
        servers = self.servers_on(found.items)
        shown = [self.serialize(node, request.microversion, servers.get(node.service.host)) for node in found.items]
        last_id = str(serializers.ref(found.items[-1], request.microversion)) if found.items else None
        return Response(
            {"hypervisors": shown} | next_links(request, "hypervisors", last_id=last_id, has_more=found.has_more)
        )

    def _page(self) -> Page[HypervisorView]:
        request = self.request
        page = parse_page(request) if request.microversion.covers("2.33") else PaginationQuery()
        pattern = request.query_params.get(PATTERN, "") if request.microversion.covers(UUIDS_SINCE) else ""
        if pattern and (page.marker or "limit" in request.query_params):
            raise Invalid(
                f"Paging over hypervisors with the {PATTERN} query parameter is not supported.", field=PATTERN
            )
        query = HypervisorQuery(name_part=pattern[:LONGEST_PATTERN], limit=page.limit, marker=page.marker)
        found = hosts.list_hypervisors(request.context, query)
        if pattern and not found.items:
            raise NotFound(f"No hypervisor matching '{pattern[:60]}' could be found.")
        return found


class HypervisorsDetail(Hypervisors):
    serialize = staticmethod(serializers.show)


class HypervisorStatistics(ComputeView):
    min_microversion = "2.1"
    max_microversion = "2.87"

    def get(self, request: ApiRequest) -> Response:
        return Response({"hypervisor_statistics": serializers.statistics(hosts.totals(request.context))})


class HypervisorById(HypervisorsView):
    def get(self, request: ApiRequest, ref: str) -> Response:
        self.refuse_unknown_query(("with_servers",), since=UUIDS_SINCE)
        node = self.find(ref)
        servers = self.servers_on([node]).get(node.service.host)
        return Response({"hypervisor": serializers.show(node, request.microversion, servers)})


class HypervisorUptime(HypervisorsView):
    min_microversion = "2.1"
    max_microversion = "2.87"

    def get(self, request: ApiRequest, ref: str) -> Response:
        node = self.find(ref)
        if not node.service.is_up:
            raise Invalid(f"The compute service of {node.service.host} is unavailable at this time.", field="id")
        reported = serializers.uptime(node)
        if reported is None:
            raise NotSupported("The hypervisor's agent does not report its uptime.")
        return Response({"hypervisor": serializers.summary(node, request.microversion) | {"uptime": reported}})


class HypervisorSearch(HypervisorsView):
    """Search by part of the name, before ids replaced it."""

    min_microversion = "2.1"
    max_microversion = "2.52"
    with_servers: ClassVar[bool] = False

    def get(self, request: ApiRequest, ref: str) -> Response:
        found = hosts.list_hypervisors(request.context, HypervisorQuery(name_part=ref)).items
        if not found:
            raise NotFound(f"No hypervisor matching '{ref[:60]}' could be found.")
        servers: dict[str, Servers] = {}
        if self.with_servers:
            servers = hosts.instances_on(request.context, [node.service.host for node in found])
        shown = [serializers.summary(node, request.microversion, servers.get(node.service.host)) for node in found]
        return Response({"hypervisors": shown})


class HypervisorServers(HypervisorSearch):
    with_servers = True
