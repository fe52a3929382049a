"""Networks, subnets, ports and security groups as options of forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from portal.api.network import resources as api
from portal.pages.networking.collections import reader
from portal.pages.resources.fields import with_id
from portal.pages.resources.model import Item, ItemOptions


def _of(collection: api.NetworkResource, words: Callable[[Item], str]) -> ItemOptions:
    return ItemOptions("network", f"get_{collection.rule}", reader(collection).list_, words)


def _port_words(item: Item) -> str:
    addresses = ", ".join(str(one["ip_address"]) for one in item.get("fixed_ips") or ())
    return f"{addresses or item['mac_address']}{' · ' + item['name'] if item.get('name') else ''}"


NETWORKS = _of(api.NETWORKS, with_id)
# Networks that servers can be attached to: external ones are reached through routers.
OWN_NETWORKS = replace(NETWORKS, wanted=lambda item: not item["router:external"])
EXTERNAL_NETWORKS = replace(
    NETWORKS, words=lambda item: str(item["name"] or item["id"]), wanted=lambda item: bool(item["router:external"])
)
SUBNETS = _of(api.SUBNETS, lambda item: f"{with_id(item)} ({item['cidr']})")
SERVER_PORTS = replace(
    _of(api.PORTS, _port_words),
    wanted=lambda item: bool(item["fixed_ips"]) and not item["device_owner"].startswith("network:"),
)
GROUPS = _of(api.SECURITY_GROUPS, lambda item: str(item["name"]))
