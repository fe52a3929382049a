"""Servers: list, create, show, update, delete."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from django.conf import settings
from rest_framework.response import Response

from conductor.core.errors import CellUnavailable, Invalid
from conductor.core.page import Page
from conductor.services.hosts import hosts
from conductor.services.hosts.hosts import HypervisorQuery
from conductor.services.servers import instances, updates
from conductor.services.servers.types import InstanceCreate, InstanceData
from portal.api.base import ApiRequest
from portal.api.compute.representations import parts, server_queries, servers
from portal.api.compute.representations.server_requests import instance_create, plain_ip_v6, without_nulls
from portal.api.compute.representations.servers import DOWN_CELLS_SINCE, Server
from portal.api.compute.schemas import servers as schemas
from portal.api.compute.view import BARE_SINCE, ComputeView
from portal.api.idempotency import idempotent
from portal.api.links import absolute
from portal.api.pagination import fit, next_links
from portal.api.validation import as_boolean, validate

CHANGES = {
    "name": "name",
    "description": "description",
    "hostname": "hostname",
    "accessIPv4": "access_ip_v4",
    "accessIPv6": "access_ip_v6",
    "OS-DCF:diskConfig": "disk_config",
    "pinned_availability_zone": "pinned_availability_zone",
}
# Columns that store null as an empty string.
EMPTY_FOR_NULL = ("access_ip_v4", "access_ip_v6", "pinned_availability_zone")


def changed_columns(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the columns in CHANGES that a body sets."""
    values = {column: given[name] for name, column in CHANGES.items() if name in given}
    for column in EMPTY_FOR_NULL:
        if column in values:
            values[column] = values[column] or ""
    if values.get("access_ip_v6"):
        values["access_ip_v6"] = plain_ip_v6(values["access_ip_v6"])
    return values


class ServerView(ComputeView):
    """Base view of servers."""

    def shown(self, view: InstanceData) -> Server:
        return next(self.all_shown([view]))

    def all_shown(self, views: Iterable[InstanceData]) -> Iterator[Server]:
        """Yield each server with the caller's rights to it, which are checked once per project."""
        rule, is_operator = "os-extended-server-attributes", dict[str, bool]()
        for view in views:
            if view.project_id not in is_operator:
                is_operator[view.project_id] = self.allows(rule, target_project_id=view.project_id)
            yield Server(view, self.request, is_operator[view.project_id])

    def find(self, server_id: str, *, may_be_partial: bool = False) -> InstanceData:
        """Return the server. Raises NotFound; CellUnavailable if it is partial, unless `may_be_partial`."""
        found = instances.get(self.request.context, server_id)
        if found.is_partial and not may_be_partial:
            raise CellUnavailable(f"The cell of server {server_id} does not answer.")
        return found

    def page(self) -> Page[InstanceData]:
        """Return the page of servers that the query asks for, without those that this version cannot show."""
        if server_queries.is_all_projects(self.request):
            self.allow("servers:index:get_all_tenants")
        query = server_queries.instance_query(self.request, is_operator=self.allows("servers:allow_all_filters"))
        if query is None:
            return Page([])
        shows_partial = self.request.microversion.covers(DOWN_CELLS_SINCE)
        is_strict = not settings.NOVELLA_LISTS_SKIP_UNRESPONSIVE_CELLS
        query = replace(query, with_partial=shows_partial, must_be_whole=is_strict)
        found = instances.list_page(self.request.context, query)
        if shows_partial:
            return found
        return Page([view for view in found.items if not view.is_partial], found.has_more)


class Servers(ServerView):
    def get(self, request: ApiRequest) -> Response:
        self.allow("servers:index")
        found = self.page()
        last_id = found.items[-1].uuid if found.items else None
        body = {"servers": [servers.summary(server) for server in self.all_shown(found.items)]}
        return Response(body | next_links(request, "servers", last_id=last_id, has_more=found.has_more))

    @idempotent
    def post(self, request: ApiRequest) -> Response:
        self.allow("servers:create")
        body = validate(without_nulls(request.data), schemas.create(request.microversion))
        launched = instances.create(request.context, self._requested(instance_create(body), body["server"]))
        server = body["server"]
        if as_boolean(server.get("return_reservation_id", False), "server.return_reservation_id"):
            response = Response({"reservation_id": launched.reservation_id}, status=202)
        else:
            admin_pass = server.get("adminPass") or secrets.token_urlsafe(9)
            response = Response({"server": servers.created(request, launched, server, admin_pass)}, status=202)
            response["Location"] = parts.self_link(request, "servers", launched.instance_uuids[0])["href"]
        response["Link"] = f'<{absolute(request, f"/api/workflows/{launched.run_uuid}")}>; rel="monitor"'
        return response

    def _requested(self, requested: InstanceCreate, server: dict[str, str]) -> InstanceCreate:
        """Complete the request with its run uuid and the requested host, if the caller may choose hosts."""
        requested = replace(requested, run_uuid=self.request.once)
        if requested.forced_host or requested.forced_node:
            self.allow("servers:create:forced_host")
        if not requested.requested_host and not server.get("hypervisor_hostname"):
            return requested
        self.allow("servers:create:requested_destination")
        host = requested.requested_host or self._host_of(server["hypervisor_hostname"])
        return replace(requested, requested_host=host)

    def _host_of(self, node: str) -> str:
        for hypervisor in hosts.list_hypervisors(self.request.context, HypervisorQuery(name_part=node)).items:
            if hypervisor.node == node:
                return hypervisor.service.host
        raise Invalid(f"Compute host {node} could not be found.", field="server.hypervisor_hostname")


class ServersDetail(ServerView):
    def get(self, request: ApiRequest) -> Response:
        self.allow("servers:detail")
        found = self.page()
        details = [servers.detail(server) for server in self.all_shown(found.items)]
        shown, has_more = fit(details, has_more=found.has_more)
        last_id = found.items[len(shown) - 1].uuid if shown else None
        return Response({"servers": shown} | next_links(request, "servers", last_id=last_id, has_more=has_more))


class ServerById(ServerView):
    bare_since = BARE_SINCE

    def get(self, request: ApiRequest, server_id: str) -> Response:
        self.allow("servers:show")
        found = self.find(server_id, may_be_partial=request.microversion.covers(DOWN_CELLS_SINCE))
        return Response({"server": servers.show(self.shown(found))})

    def put(self, request: ApiRequest, server_id: str) -> Response:
        self.allow("servers:update")
        body = validate(request.data, schemas.update(request.microversion))
        values = changed_columns(body["server"])
        changed = updates.update(request.context, server_id, values)
        return Response({"server": servers.updated(self.shown(changed))})

    def delete(self, request: ApiRequest, server_id: str) -> Response:
        self.allow("servers:delete")
        instances.delete(request.context, server_id)
        return Response(status=204)
