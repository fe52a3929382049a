"""Server actions on addresses, up to the version in which they end: the network service replaces them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.response import Response

from conductor.services.servers import addresses
from portal.api.compute.views.offered import ActionRoute, accepted
from portal.api.compute.views.servers import ServerView
from portal.api.errors import Gone
from portal.api.schema_parts import Schema, closed

_ADDRESS: Schema = {"type": "string", "format": "ip"}
ADD_FIXED_IP = closed({"networkId": {"type": "string", "minLength": 1, "maxLength": 255}}, required=("networkId",))
ADD_FLOATING_IP = closed({"address": _ADDRESS, "fixed_address": _ADDRESS}, required=("address",))
REMOVE_FLOATING_IP = closed({"address": _ADDRESS}, required=("address",))
REMOVE_FIXED_IP = closed({"address": _ADDRESS}, required=("address",))

LAST = "2.43"


def add_fixed_ip(view: ServerView, server_id: str, value: Any) -> Response:
    return accepted(view, addresses.add_fixed(view.request.context, server_id, value["networkId"]))


def remove_fixed_ip(view: ServerView, server_id: str, value: Any) -> Response:
    return accepted(view, addresses.remove_fixed(view.request.context, server_id, value["address"]))


def add_floating_ip(view: ServerView, server_id: str, value: Any) -> Response:
    fixed = value.get("fixed_address") or ""
    addresses.lead_to(view.request.context, server_id, value["address"], fixed)
    return Response(status=202)


def remove_floating_ip(view: ServerView, server_id: str, value: Any) -> Response:
    addresses.let_go(view.request.context, server_id, value["address"])
    return Response(status=202)


def inject_network_info(view: ServerView, server_id: str, value: Any) -> Response:
    """Guests request their addresses themselves, so this only checks which addresses the server has."""
    return accepted(view, addresses.refresh(view.request.context, server_id))


def reset_network(view: ServerView, server_id: str, value: Any) -> Response:
    view.find(server_id)
    raise Gone("This action was removed and does not come back.")


OFFERED: Mapping[str, ActionRoute] = {
    "addFixedIp": ActionRoute(policy="os-multinic:add", schema=ADD_FIXED_IP, call=add_fixed_ip, until=LAST),
    "removeFixedIp": ActionRoute(policy="os-multinic:remove", schema=REMOVE_FIXED_IP, call=remove_fixed_ip, until=LAST),
    "addFloatingIp": ActionRoute(
        policy="os-floating-ips:add", schema=ADD_FLOATING_IP, call=add_floating_ip, until=LAST
    ),
    "removeFloatingIp": ActionRoute(
        policy="os-floating-ips:remove", schema=REMOVE_FLOATING_IP, call=remove_floating_ip, until=LAST
    ),
    "injectNetworkInfo": ActionRoute(policy="os-admin-actions:inject_network_info", call=inject_network_info),
    "resetNetwork": ActionRoute(policy="os-admin-actions:reset_network", call=reset_network),
}
