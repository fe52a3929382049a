"""Routers between networks, and the floating IPs that lead in from outside."""

from __future__ import annotations

from typing import Any

from conductor.services import reachability
from portal.pages.api_calls import Call
from portal.pages.resources import cells
from portal.pages.resources.fields import DESCRIPTION, NAME, SUBNETS, filled, named, options
from portal.pages.resources.model import Asked, Cell, Column, Deed, Field, Item, Names, Part, Resource, Source
from portal.pages.resources.networks import FACES, ROOT, delete
from portal.pages.resources.shared_deeds import rename

OUTSIDE = Source(
    f"{ROOT}/networks",
    "networks",
    lambda item: str(item["name"] or item["id"]),
    wanted=lambda item: bool(item.get("router:external")),
)


def _routing_notice() -> str:
    return "" if reachability.carries_routes() else reachability.NO_ROUTING


def _port_words(item: Item) -> str:
    addresses = ", ".join(str(one["ip_address"]) for one in item.get("fixed_ips") or ())
    return f"{addresses or item['mac_address']}{' · ' + item['name'] if item.get('name') else ''}"


SERVER_PORTS = Source(
    f"{ROOT}/ports",
    "ports",
    _port_words,
    wanted=lambda item: bool(item.get("fixed_ips")) and not str(item.get("device_owner", "")).startswith("network:"),
)


def _create_router(asked: Asked) -> Call:
    body: dict[str, Any] = filled(asked.values, "name", "description")
    if asked.values.get("gateway"):
        body["external_gateway_info"] = {"network_id": asked.values["gateway"]}
    return Call("POST", f"{ROOT}/routers", {"router": body})


def _gateway(asked: Asked) -> Call:
    chosen = asked.values.get("gateway")
    info = {"network_id": chosen} if chosen else {}
    return Call("PUT", f"{ROOT}/routers/{asked.item['id']}", {"router": {"external_gateway_info": info}})


def _interface(verb: str) -> Any:
    def call(asked: Asked) -> Call:
        path = f"{ROOT}/routers/{asked.item['id']}/{verb}_router_interface"
        return Call("PUT", path, {"subnet_id": asked.values["subnet_id"]})

    return call


def _outside(item: Item, names: Names) -> Cell:
    info = item.get("external_gateway_info")
    return cells.link_to(str(info["network_id"]), "networks", names) if info else cells.NOTHING


def _outer_addresses(item: Item, names: Names) -> Cell:
    info = item.get("external_gateway_info") or {}
    found = tuple(Cell("mono", str(one["ip_address"])) for one in info.get("external_fixed_ips") or ())
    return Cell("lines", lines=found) if found else cells.NOTHING


_GATEWAY = Field(
    "gateway", "Outside network", "choice", choices=OUTSIDE, nothing="None", also=("external_gateway_info",)
)
_SUBNET = Field("subnet_id", "Subnet", "choice", choices=SUBNETS, is_required=True)

ROUTERS = Resource(
    id="routers",
    noun="router",
    title="Routers",
    icon="router",
    service="network",
    path=f"{ROOT}/routers",
    key="routers",
    one="router",
    rule="get_router",
    sorting="sort_key",
    empty="A router joins subnets, and leads them outside.",
    notice=_routing_notice,
    names=("networks",),
    tool=("topology", "Picture"),
    columns=(
        Column("Name", cells.text("name"), sort="name"),
        Column("State", cells.state(FACES)),
        Column("Outside", _outside),
        Column("Outer address", _outer_addresses),
        Column("Age", cells.age("created_at"), is_number=True, sort="created_at"),
        Column("Description", cells.text("description"), is_in_list=False),
        Column(
            "Routes",
            cells.lines("routes", lambda one, names: Cell("mono", f"{one['destination']} by {one['nexthop']}")),
            is_in_list=False,
        ),
    ),
    parts=(Part("Interfaces", "ports", lambda item: {"device_id": str(item["id"])}),),
    deeds=(
        Deed(
            id="create",
            title="Create router",
            does="A router of this project. Add the subnets that it is to join afterwards.",
            rule="create_router",
            is_creation=True,
            icon="plus",
            fields=(NAME, _GATEWAY, DESCRIPTION),
            call=_create_router,
            cli=lambda asked: [
                "openstack router create",
                *options(asked.values, gateway="external-gateway", description="description"),
                asked.values.get("name") or "NAME",
            ],
        ),
        Deed(
            id="add-subnet",
            title="Add subnet",
            does="The subnet's servers reach all that the router reaches.",
            rule="add_router_interface",
            fields=(_SUBNET,),
            call=_interface("add"),
            cli=lambda asked: [
                "openstack router add subnet",
                named(asked.item),
                asked.values.get("subnet_id") or "SUBNET",
            ],
        ),
        Deed(
            id="remove-subnet",
            title="Remove subnet",
            does="The subnet is cut off from what the router reaches. Floating IPs that lead there must go first.",
            rule="remove_router_interface",
            fields=(_SUBNET,),
            call=_interface("remove"),
            cli=lambda asked: [
                "openstack router remove subnet",
                named(asked.item),
                asked.values.get("subnet_id") or "SUBNET",
            ],
        ),
        Deed(
            id="gateway",
            title="Outside network",
            does="Choose where the router leads outside, or nothing to close it.",
            rule="update_router",
            fields=(_GATEWAY,),
            call=_gateway,
            cli=lambda asked: [
                "openstack router set",
                *options(asked.values, gateway="external-gateway"),
                named(asked.item),
            ],
        ),
        rename("router", "update_router", f"{ROOT}/routers", "router"),
        delete("delete_router", "routers", "router", "Its interfaces must be removed first."),
    ),
)

FLOATING_IPS = Resource(
    id="floating-ips",
    noun="floating IP",
    title="Floating IPs",
    icon="globe",
    service="network",
    path=f"{ROOT}/floatingips",
    key="floatingips",
    one="floatingip",
    rule="get_floatingip",
    sorting="sort_key",
    empty="A floating IP is an address outside that leads to one of your servers.",
    notice=_routing_notice,
    names=("networks", "routers"),
    name_of=lambda item: str(item["floating_ip_address"]),
    columns=(
        Column("Address", cells.mono("floating_ip_address"), sort="floating_ip_address"),
        Column("State", cells.state(FACES)),
        Column("Leads to", cells.mono("fixed_ip_address")),
        Column("Outside", cells.link("floating_network_id", "networks")),
        Column("Router", cells.link("router_id", "routers")),
        Column("Age", cells.age("created_at"), is_number=True, sort="created_at"),
        Column("Port", cells.link("port_id", "ports"), is_in_list=False),
        Column("Description", cells.text("description"), is_in_list=False),
    ),
    deeds=(
        Deed(
            id="create",
            title="Take an address",
            does="One of the free addresses outside, for this project, until you give it back.",
            rule="create_floatingip",
            is_creation=True,
            icon="plus",
            fields=(
                Field("floating_network_id", "Outside network", "choice", choices=OUTSIDE, is_required=True),
                Field("port_id", "Leads to", "choice", choices=SERVER_PORTS, nothing="Nothing yet"),
                DESCRIPTION,
            ),
            call=lambda asked: Call(
                "POST",
                f"{ROOT}/floatingips",
                {"floatingip": filled(asked.values, "floating_network_id", "port_id", "description")},
            ),
            cli=lambda asked: [
                "openstack floating ip create",
                *options(asked.values, port_id="port", description="description"),
                asked.values.get("floating_network_id") or "NETWORK",
            ],
        ),
        Deed(
            id="lead",
            title="Lead to",
            does="Choose the server's address that it leads to, or nothing.",
            rule="update_floatingip",
            fields=(
                Field(
                    "port_id",
                    "Leads to",
                    "choice",
                    choices=SERVER_PORTS,
                    nothing="Nothing",
                    start=lambda item: str(item.get("port_id") or ""),
                ),
            ),
            call=lambda asked: Call(
                "PUT",
                f"{ROOT}/floatingips/{asked.item['id']}",
                {"floatingip": {"port_id": asked.values.get("port_id") or None}},
            ),
            cli=lambda asked: [
                f"openstack floating ip {'set' if asked.values.get('port_id') else 'unset --port'}",
                *options(asked.values, port_id="port"),
                str(asked.item["floating_ip_address"]),
            ],
        ),
        delete(
            "delete_floatingip", "floatingips", "floating ip", "The address is given back; somebody else may get it."
        ),
    ),
)
