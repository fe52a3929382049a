"""Networks, their subnets, and the ports on them."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext

from conductor.services.networks.balancers import MONITOR_OWNER, VIP_OWNER
from portal.api.network import resources as api
from portal.pages.networking.choices import NETWORKS
from portal.pages.networking.collections import ROOT, create, delete, reader, rename
from portal.pages.resources import columns
from portal.pages.resources.fields import (
    DESCRIPTION,
    NAME,
    NAME_OR_NOT,
    filled,
    options,
    whole,
)
from portal.pages.resources.model import (
    Call,
    Cell,
    Column,
    Field,
    FieldOption,
    Item,
    Names,
    RelatedTable,
    Resource,
    ResourceAction,
    SubmittedForm,
)
from portal.pages.status_badges import StatusBadge

BADGES = {
    "ACTIVE": StatusBadge("good", "active"),
    "DOWN": StatusBadge("none", "unused"),
    "BUILD": StatusBadge("working", "creating"),
    "ERROR": StatusBadge("bad", "error"),
}
IP_VERSIONS = (FieldOption("4", "IPv4"), FieldOption("6", "IPv6"))


def _create_network(form: SubmittedForm) -> Call:
    mtu = {"mtu": whole(form.values["mtu"])} if form.values.get("mtu") else {}
    return Call("POST", f"{ROOT}/networks", {"network": {**filled(form.values, "name", "description"), **mtu}})


def _create_subnet(form: SubmittedForm) -> Call:
    values = form.values
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
    return Cell("text", ", ".join(words)) if words else columns.word("this project")


def _addresses(item: Item, names: Names) -> Cell:
    found = tuple(Cell("mono", str(one["ip_address"])) for one in item.get("fixed_ips") or ())
    return Cell("lines", lines=found) if found else columns.NOTHING


def _device(item: Item, names: Names) -> Cell:
    owner, ident = str(item.get("device_owner") or ""), str(item.get("device_id") or "")
    if owner.startswith("compute:"):
        return columns.link_to(ident, "servers", names)
    if owner in ("network:router_interface", "network:router_gateway"):
        return columns.link_to(ident, "routers", names)
    if owner in (VIP_OWNER, MONITOR_OWNER):
        return columns.link_to(ident.removeprefix("lb-"), "load-balancers", names)
    return Cell("text", owner.removeprefix("network:") or "nothing")


_NETWORK = Field("network_id", "Network", "choice", choices=NETWORKS, is_required=True)

NETWORKS_KIND = Resource(
    id="networks",
    noun="network",
    title="Networks",
    icon="network",
    service="network",
    one="network",
    rule="get_network",
    reader=reader(api.NETWORKS),
    sorting="sort_key",
    empty=(
        "A network connects servers. Create a network, add a subnet, and connect it to the external "
        "network with a router."
    ),
    names=("subnets",),
    tool=("topology", "Topology"),
    columns=(
        Column("Name", columns.text("name"), sort="name"),
        Column("State", columns.state(BADGES)),
        Column("Subnets", columns.links("subnets", "subnets")),
        Column("Kind", _kind),
        Column("MTU", columns.number("mtu"), is_number=True),
        Column("Age", columns.age("created_at"), is_number=True, sort="created_at"),
        Column("Description", columns.text("description"), is_in_list=False),
        Column("Port security", columns.yes("port_security_enabled"), is_in_list=False),
    ),
    parts=(
        RelatedTable("Subnets", "subnets", lambda item: {"network_id": str(item["id"])}, "create", "network_id"),
        RelatedTable("Ports", "ports", lambda item: {"network_id": str(item["id"])}),
        RelatedTable("Load balancers", "load-balancers", lambda item: {"vip_network_id": str(item["id"])}),
    ),
    actions=(
        ResourceAction(
            id="create",
            title="Create network",
            does="Creates a network for this project. Add a subnet so that servers can use it.",
            rule="create_network",
            is_creation=True,
            icon="plus",
            fields=(NAME, Field("mtu", "MTU", "number", least=68, most=9216), DESCRIPTION),
            call=_create_network,
            schema=api.NETWORKS.creation_body,
            execute=create(api.NETWORKS),
            cli=lambda form: [
                "openstack network create",
                *options(form.values, mtu="mtu", description="description"),
                form.values.get("name") or "NAME",
            ],
        ),
        rename(api.NETWORKS, "networks", "network"),
        delete(
            api.NETWORKS,
            "networks",
            "network",
            ("Deletes the network and its subnets. Detach all servers first."),
        ),
    ),
)
SUBNETS_KIND = Resource(
    id="subnets",
    noun="subnet",
    title="Subnets",
    icon="network",
    service="network",
    one="subnet",
    rule="get_subnet",
    reader=reader(api.SUBNETS),
    sorting="sort_key",
    empty="A subnet is a range of addresses of a network.",
    names=("networks",),
    columns=(
        Column("Name", columns.text("name"), sort="name"),
        Column("Range", columns.mono("cidr"), sort="cidr"),
        Column("Network", columns.link("network_id", "networks")),
        Column("Gateway", columns.mono("gateway_ip")),
        Column("DHCP", columns.yes("enable_dhcp")),
        Column(
            "Allocated",
            columns.lines("allocation_pools", lambda one, names: Cell("mono", f"{one['start']} – {one['end']}")),
            is_in_list=False,
        ),
        Column(
            "DNS servers",
            columns.lines("dns_nameservers", lambda one, names: Cell("mono", str(one))),
            is_in_list=False,
        ),
        Column("Description", columns.text("description"), is_in_list=False),
    ),
    actions=(
        ResourceAction(
            id="create",
            title="Create subnet",
            does="Adds a range of addresses for servers on the network.",
            rule="create_subnet",
            is_creation=True,
            icon="plus",
            fields=(
                _NETWORK,
                NAME_OR_NOT,
                Field("cidr", "Range", is_required=True, help="For example 10.20.0.0/24."),
                Field("ip_version", "IP version", "choice", choices=IP_VERSIONS),
                Field(
                    "gateway_ip",
                    "Gateway",
                    help=("Leave empty for the first address. Enter “none” for no gateway."),
                ),
                Field("dns_nameservers", "DNS servers", help="Separate addresses with spaces."),
                Field("enable_dhcp", "Assign addresses by DHCP", "check", start="yes"),
            ),
            call=_create_subnet,
            schema=api.SUBNETS.creation_body,
            execute=create(api.SUBNETS),
            cli=lambda form: [
                "openstack subnet create",
                *options(
                    form.values,
                    network_id="network",
                    cidr="subnet-range",
                    ip_version="ip-version",
                    gateway_ip="gateway",
                ),
                "--dhcp" if form.values.get("enable_dhcp") else "--no-dhcp",
                form.values.get("name") or "NAME",
            ],
        ),
        rename(api.SUBNETS, "subnets", "subnet"),
        delete(api.SUBNETS, "subnets", "subnet", "Servers still use its addresses. Release them first."),
    ),
)
PORTS_KIND = Resource(
    id="ports",
    noun="port",
    title="Ports",
    icon="network",
    service="network",
    one="port",
    rule="get_port",
    reader=reader(api.PORTS),
    sorting="sort_key",
    empty="A port connects a server to a network.",
    names=("networks", "servers", "routers", "security-groups", "load-balancers"),
    name_of=lambda item: str(item.get("name") or item["mac_address"]),
    columns=(
        Column("Name", columns.text("name"), sort="name"),
        Column("State", columns.state(BADGES)),
        Column("Addresses", _addresses),
        Column("Used by", _device),
        Column("Network", columns.link("network_id", "networks")),
        Column("MAC address", columns.mono("mac_address"), is_in_list=False),
        Column("Security groups", columns.links("security_groups", "security-groups"), is_in_list=False),
        Column("Description", columns.text("description"), is_in_list=False),
    ),
    actions=(
        rename(api.PORTS, "ports", "port"),
        delete(api.PORTS, "ports", "port", "Releases its addresses."),
    ),
)
KINDS = (NETWORKS_KIND, SUBNETS_KIND, PORTS_KIND)
