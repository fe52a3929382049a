"""Networks, subnets, ports and security groups as options of forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from django.utils.translation import ngettext

from conductor.core.context import RequestContext
from conductor.core.page import Page
from conductor.services.networks.balancers import MONITOR_OWNER, VIP_OWNER
from portal.api.network import resources as api
from portal.pages import policies
from portal.pages.networking.collections import reader
from portal.pages.resources.fields import with_id
from portal.pages.resources.model import Item, ItemOptions, Query
from portal.pages.server_items import SERVERS


def _of(collection: api.NetworkResource, words: Callable[[Item], str]) -> ItemOptions:
    return ItemOptions("network", f"get_{collection.rule}", reader(collection).list_, words)


def _port_words(item: Item) -> str:
    addresses = ", ".join(str(one["ip_address"]) for one in item.get("fixed_ips") or ())
    if item["device_owner"] == VIP_OWNER:
        return f"{addresses} · {ngettext('load balancer', 'load balancers', 1)}"
    return f"{addresses or item['mac_address']}{' · ' + item['name'] if item.get('name') else ''}"


NETWORKS = _of(api.NETWORKS, with_id)
# Networks that servers can be attached to. Servers reach external networks through routers.
OWN_NETWORKS = replace(NETWORKS, wanted=lambda item: not item["router:external"])
EXTERNAL_NETWORKS = replace(
    NETWORKS, words=lambda item: str(item["name"] or item["id"]), wanted=lambda item: bool(item["router:external"])
)
SUBNETS = _of(api.SUBNETS, lambda item: f"{with_id(item)} ({item['cidr']})")


def _own_subnets(caller: RequestContext, query: Query) -> Page[Item]:
    external = NETWORKS.list_(caller, {"limit": query["limit"], "router:external": "true"})
    networks = {item["id"] for item in external.items}
    page = SUBNETS.list_(caller, query)
    return Page([item for item in page.items if item["network_id"] not in networks], page.has_more)


OWN_SUBNETS = replace(SUBNETS, list_=_own_subnets)
# Ports that a floating IP can be attached to: those of servers and load balancers.
SERVER_PORTS = replace(
    _of(api.PORTS, _port_words),
    wanted=lambda item: (
        bool(item["fixed_ips"])
        and not item["device_owner"].startswith("network:")
        and item["device_owner"] != MONITOR_OWNER
    ),
)
GROUPS = _of(api.SECURITY_GROUPS, lambda item: str(item["name"]))


def _server_addresses(caller: RequestContext, query: Query) -> Page[Item]:
    """Return the addresses of servers, each with its server's name."""
    if not policies.may(caller, SERVERS.service, SERVERS.rule):
        return Page([])
    servers = {item["id"]: with_id(item) for item in SERVERS.list_(caller, query).items}
    ports = SERVER_PORTS.list_(caller, query).items
    return Page(
        [
            {**address, "server": servers[port["device_id"]]}
            for port in ports
            for address in port["fixed_ips"]
            if port["device_id"] in servers
        ]
    )


SERVER_ADDRESSES = ItemOptions(
    "network",
    "get_port",
    _server_addresses,
    words=lambda item: f"{item['server']} · {item['ip_address']}",
    value=lambda item: f"{item['ip_address']} {item['subnet_id']}",
)
