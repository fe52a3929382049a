"""Networks, their subnets, and the ports on them."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext

from portal.pages.api_calls import Call
from portal.pages.faces import Face
from portal.pages.resources import cells
from portal.pages.resources.fields import (
    DESCRIPTION,
    NAME,
    NAME_OR_NOT,
    NETWORKS,
    filled,
    named,
    options,
    whole,
)
from portal.pages.resources.model import Asked, Cell, Choice, Column, Deed, Field, Item, Names, Part, Resource
from portal.pages.resources.shared_deeds import rename

ROOT = "/network/v2.0"
FACES = {
    "ACTIVE": Face("good", "active"),
    "DOWN": Face("none", "not in use"),
    "BUILD": Face("working", "being made"),
    "ERROR": Face("bad", "error"),
}
IP_VERSIONS = (Choice("4", "IPv4"), Choice("6", "IPv6"))


def delete(rule: str, collection: str, cli: str, does: str) -> Deed:
    """Delete something of the network API."""
    return Deed(
        id="delete",
        title="Delete",
        does=does,
        rule=rule,
        is_danger=True,
        is_bulk=True,
        icon="trash",
        call=lambda asked: Call("DELETE", f"{ROOT}/{collection}/{asked.item['id']}"),
        cli=lambda asked: [f"openstack {cli} delete", named(asked.item)],
    )


def _create_network(asked: Asked) -> Call:
    mtu = {"mtu": whole(asked.values["mtu"])} if asked.values.get("mtu") else {}
    return Call("POST", f"{ROOT}/networks", {"network": {**filled(asked.values, "name", "description"), **mtu}})


def _create_subnet(asked: Asked) -> Call:
    values = asked.values
    body: dict[str, Any] = filled(values, "network_id", "name", "cidr")
    body["ip_version"] = whole(values.get("ip_version") or "4")
    body["enable_dhcp"] = bool(values.get("enable_dhcp"))
    if values.get("gateway_ip"):
        body["gateway_ip"] = None if values["gateway_ip"].lower() == "none" else values["gateway_ip"]
    if values.get("dns_nameservers"):
        body["dns_nameservers"] = values["dns_nameservers"].replace(",", " ").split()
    return Call("POST", f"{ROOT}/subnets", {"subnet": body})


def _kind(item: Item, names: Names) -> Cell:
    words = [gettext("external")] if item.get("router:external") else []
    words += [gettext("shared")] if item.get("shared") else []
    return Cell("text", ", ".join(words)) if words else cells.word("of this project")


def _addresses(item: Item, names: Names) -> Cell:
    found = tuple(Cell("mono", str(one["ip_address"])) for one in item.get("fixed_ips") or ())
    return Cell("lines", lines=found) if found else cells.NOTHING


def _device(item: Item, names: Names) -> Cell:
    owner, ident = str(item.get("device_owner") or ""), str(item.get("device_id") or "")
    if owner.startswith("compute:"):
        return cells.link_to(ident, "servers", names)
    if owner in ("network:router_interface", "network:router_gateway"):
        return cells.link_to(ident, "routers", names)
    return Cell("text", owner.removeprefix("network:") or "nothing")


_NETWORK = Field("network_id", "Network", "choice", choices=NETWORKS, is_required=True)

KINDS = (
    Resource(
        id="networks",
        noun="network",
        title="Networks",
        icon="network",
        service="network",
        path=f"{ROOT}/networks",
        key="networks",
        one="network",
        rule="get_network",
        sorting="sort_key",
        empty="A network joins servers. Make one, give it a subnet, and lead it outside by a router.",
        names=("subnets",),
        tool=("topology", "Picture"),
        columns=(
            Column("Name", cells.text("name"), sort="name"),
            Column("State", cells.state(FACES)),
            Column("Subnets", cells.links("subnets", "subnets")),
            Column("Kind", _kind),
            Column("MTU", cells.number("mtu"), is_number=True),
            Column("Age", cells.age("created_at"), is_number=True, sort="created_at"),
            Column("Description", cells.text("description"), is_in_list=False),
            Column("Ports filtered", cells.yes("port_security_enabled"), is_in_list=False),
        ),
        parts=(
            Part("Subnets", "subnets", lambda item: {"network_id": str(item["id"])}, "create", "network_id"),
            Part("Ports", "ports", lambda item: {"network_id": str(item["id"])}),
        ),
        deeds=(
            Deed(
                id="create",
                title="Create network",
                does="A network of this project alone. It carries traffic once it has a subnet.",
                rule="create_network",
                is_creation=True,
                icon="plus",
                fields=(NAME, Field("mtu", "MTU", "number", least=68, most=9216), DESCRIPTION),
                call=_create_network,
                cli=lambda asked: [
                    "openstack network create",
                    *options(asked.values, mtu="mtu", description="description"),
                    asked.values.get("name") or "NAME",
                ],
            ),
            rename("network", "update_network", f"{ROOT}/networks", "network"),
            delete("delete_network", "networks", "network", "Its subnets go with it. Servers must have left it first."),
        ),
    ),
    Resource(
        id="subnets",
        noun="subnet",
        title="Subnets",
        icon="network",
        service="network",
        path=f"{ROOT}/subnets",
        key="subnets",
        one="subnet",
        rule="get_subnet",
        sorting="sort_key",
        empty="A subnet is a range of addresses of a network.",
        names=("networks",),
        columns=(
            Column("Name", cells.text("name"), sort="name"),
            Column("Range", cells.mono("cidr"), sort="cidr"),
            Column("Network", cells.link("network_id", "networks")),
            Column("Gateway", cells.mono("gateway_ip")),
            Column("DHCP", cells.yes("enable_dhcp")),
            Column(
                "Given out",
                cells.lines("allocation_pools", lambda one, names: Cell("mono", f"{one['start']} – {one['end']}")),
                is_in_list=False,
            ),
            Column(
                "Name servers",
                cells.lines("dns_nameservers", lambda one, names: Cell("mono", str(one))),
                is_in_list=False,
            ),
            Column("Description", cells.text("description"), is_in_list=False),
        ),
        deeds=(
            Deed(
                id="create",
                title="Create subnet",
                does="A range of addresses that servers on the network get theirs from.",
                rule="create_subnet",
                is_creation=True,
                icon="plus",
                fields=(
                    _NETWORK,
                    NAME_OR_NOT,
                    Field("cidr", "Range", is_required=True, help="Such as 10.20.0.0/24."),
                    Field("ip_version", "IP version", "choice", choices=IP_VERSIONS),
                    Field("gateway_ip", "Gateway", help="Left empty, the first address; “none” for no gateway."),
                    Field("dns_nameservers", "Name servers", help="Addresses with spaces between them."),
                    Field("enable_dhcp", "Addresses by DHCP", "check", start="yes"),
                ),
                call=_create_subnet,
                cli=lambda asked: [
                    "openstack subnet create",
                    *options(
                        asked.values,
                        network_id="network",
                        cidr="subnet-range",
                        ip_version="ip-version",
                        gateway_ip="gateway",
                    ),
                    "--dhcp" if asked.values.get("enable_dhcp") else "--no-dhcp",
                    asked.values.get("name") or "NAME",
                ],
            ),
            rename("subnet", "update_subnet", f"{ROOT}/subnets", "subnet"),
            delete("delete_subnet", "subnets", "subnet", "Its addresses must be free: no server may hold one of them."),
        ),
    ),
    Resource(
        id="ports",
        noun="port",
        title="Ports",
        icon="network",
        service="network",
        path=f"{ROOT}/ports",
        key="ports",
        one="port",
        rule="get_port",
        sorting="sort_key",
        empty="A port is a place on a network: each server has one per network.",
        names=("networks", "servers", "routers", "security-groups"),
        name_of=lambda item: str(item.get("name") or item["mac_address"]),
        columns=(
            Column("Name", cells.text("name"), sort="name"),
            Column("State", cells.state(FACES)),
            Column("Addresses", _addresses),
            Column("Used by", _device),
            Column("Network", cells.link("network_id", "networks")),
            Column("MAC address", cells.mono("mac_address"), is_in_list=False),
            Column("Security groups", cells.links("security_groups", "security-groups"), is_in_list=False),
            Column("Description", cells.text("description"), is_in_list=False),
        ),
        deeds=(
            rename("port", "update_port", f"{ROOT}/ports", "port"),
            delete("delete_port", "ports", "port", "Its addresses are free again."),
        ),
    ),
)
