"""Proxies for networks, security groups and floating IPs until 2.35."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from conductor.services.networks import proxies
from conductor.services.networks.proxies import NetworkName, OldRule, OuterAddress
from portal.api.base import ApiRequest
from portal.api.compute.representations.server_facts import security_group
from portal.api.compute.schemas import proxies as schemas
from portal.api.compute.view import ComputeView
from portal.api.errors import Gone
from portal.api.pagination import parse_page
from portal.api.validation import as_boolean, validate

# Clients expect these members of a network. The network service keeps them with subnets; here they are always empty.
OF_ALL_USERS = ("cidr", "netmask", "gateway", "broadcast", "dns1", "dns2", "cidr_v6", "gateway_v6", "netmask_v6")
OF_OPERATORS = (
    "created_at",
    "updated_at",
    "deleted_at",
    "deleted",
    "injected",
    "bridge",
    "vlan",
    "vpn_public_address",
    "vpn_public_port",
    "vpn_private_address",
    "dhcp_start",
    "project_id",
    "host",
    "bridge_interface",
    "multi_host",
    "priority",
    "rxtx_base",
    "mtu",
    "dhcp_server",
    "enable_dhcp",
    "share_address",
)


class Networks(ComputeView):
    def one(self, network: NetworkName) -> dict[str, Any]:
        names = (*OF_ALL_USERS, *(OF_OPERATORS if self.request.context.is_admin else ()))
        return {**dict.fromkeys(names), "id": network.network_id, "label": network.name}

    def get(self, request: ApiRequest) -> Response:
        return Response({"networks": [self.one(network) for network in proxies.networks(request.context)]})

    def post(self, request: ApiRequest) -> Response:
        raise Gone("Networks are made by the network service.")


class NetworkById(Networks):
    def get(self, request: ApiRequest, network_id: str) -> Response:  # type: ignore[override]
        return Response({"network": self.one(proxies.network(request.context, network_id))})

    def delete(self, request: ApiRequest, network_id: str) -> Response:
        raise Gone("Networks are deleted by the network service.")


class TenantNetworks(Networks):
    """The shorter format of networks."""

    def one(self, network: NetworkName) -> dict[str, Any]:
        return {"id": network.network_id, "label": network.name, "cidr": "None"}


class TenantNetworkById(TenantNetworks, NetworkById):
    """One network in the shorter format."""


class SecurityGroups(ComputeView):
    def get(self, request: ApiRequest) -> Response:
        is_all = as_boolean(request.query_params.get("all_tenants", "false") or "true", "all_tenants")
        found = proxies.groups(request.context, all_projects=is_all)
        offset = request.query_params.get("offset", "0")
        start = int(offset) if offset.isascii() and offset.isdigit() and len(offset) <= 9 else 0
        return Response(
            {"security_groups": [security_group(one) for one in found[start:][: parse_page(request).limit]]}
        )

    def post(self, request: ApiRequest) -> Response:
        wanted = validate(request.data, schemas.GROUP)["security_group"]
        made = proxies.create_group(request.context, wanted["name"], wanted["description"])
        return Response({"security_group": security_group(made)})


class SecurityGroupById(ComputeView):
    def get(self, request: ApiRequest, group_id: str) -> Response:
        return Response({"security_group": security_group(proxies.group(request.context, group_id))})

    def put(self, request: ApiRequest, group_id: str) -> Response:
        wanted = validate(request.data, schemas.GROUP)["security_group"]
        changed = proxies.update_group(request.context, group_id, wanted["name"], wanted["description"])
        return Response({"security_group": security_group(changed)})

    def delete(self, request: ApiRequest, group_id: str) -> Response:
        proxies.delete_group(request.context, group_id)
        return Response(status=202)


class SecurityGroupRules(ComputeView):
    def post(self, request: ApiRequest) -> Response:
        given = validate(request.data, schemas.RULE)["security_group_rule"]
        requested = OldRule(
            parent_group_id=given["parent_group_id"],
            protocol=given.get("ip_protocol"),
            first=_number(given.get("from_port")),
            last=_number(given.get("to_port")),
            cidr=given.get("cidr"),
            group_id=given.get("group_id"),
        )
        group, rule_id = proxies.create_rule(request.context, requested)
        shown = next(rule for rule in security_group(group)["rules"] if rule["id"] == rule_id)
        return Response({"security_group_rule": shown})


class SecurityGroupRuleById(ComputeView):
    def delete(self, request: ApiRequest, rule_id: str) -> Response:
        proxies.delete_rule(request.context, rule_id)
        return Response(status=202)


class FloatingIpPools(ComputeView):
    def get(self, request: ApiRequest) -> Response:
        return Response({"floating_ip_pools": [{"name": name} for name in proxies.pools(request.context)]})


class FloatingIps(ComputeView):
    def get(self, request: ApiRequest) -> Response:
        return Response({"floating_ips": [_address(one) for one in proxies.addresses(request.context)]})

    def post(self, request: ApiRequest) -> Response:
        wanted = validate(request.data or None, schemas.FLOATING_IP) or {}
        return Response({"floating_ip": _address(proxies.create_address(request.context, wanted.get("pool")))})


class FloatingIpById(ComputeView):
    def get(self, request: ApiRequest, address_id: str) -> Response:
        return Response({"floating_ip": _address(proxies.address(request.context, address_id))})

    def delete(self, request: ApiRequest, address_id: str) -> Response:
        proxies.delete_address(request.context, address_id)
        return Response(status=202)


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def _address(found: OuterAddress) -> dict[str, Any]:
    return {
        "id": found.address_id,
        "ip": found.address,
        "pool": found.pool,
        "fixed_ip": found.fixed_address,
        "instance_id": found.instance_uuid,
    }
