"""Routers between networks, and floating IPs."""

from __future__ import annotations

from typing import Any

from conductor.core.context import RequestContext
from conductor.services.networks import reachability
from portal.api.network import resources as api
from portal.api.network.schemas import routing
from portal.pages.networking.choices import EXTERNAL_NETWORKS, SERVER_PORTS, SUBNETS
from portal.pages.networking.collections import ROOT, create, delete, reader, rename, update
from portal.pages.networking.networks import BADGES
from portal.pages.resources import columns
from portal.pages.resources.fields import DESCRIPTION, NAME, filled, named, options
from portal.pages.resources.model import (
    Call,
    Cell,
    Column,
    Execute,
    Field,
    Item,
    Names,
    RelatedTable,
    Resource,
    ResourceAction,
    SubmittedForm,
)


def _routing_notice() -> str:
    return "" if reachability.carries_routes() else reachability.NO_ROUTING


def _create_router(form: SubmittedForm) -> Call:
    body: dict[str, Any] = filled(form.values, "name", "description")
    if form.values.get("gateway"):
        body["external_gateway_info"] = {"network_id": form.values["gateway"]}
    return Call("POST", f"{ROOT}/routers", {"router": body})


def _gateway(form: SubmittedForm) -> Call:
    chosen = form.values.get("gateway")
    info = {"network_id": chosen} if chosen else {}
    return Call("PUT", f"{ROOT}/routers/{form.item['id']}", {"router": {"external_gateway_info": info}})


def _interface(verb: str) -> Any:
    def call(form: SubmittedForm) -> Call:
        path = f"{ROOT}/routers/{form.item['id']}/{verb}_router_interface"
        return Call("PUT", path, {"subnet_id": form.values["subnet_id"]})

    return call


def _change_interface(*, is_added: bool) -> Execute:
    def execute(caller: RequestContext, form: SubmittedForm) -> None:
        api.change_interface(caller, form.item["id"], form.body, is_added=is_added)

    return execute


def _outside(item: Item, names: Names) -> Cell:
    info = item.get("external_gateway_info")
    return columns.link_to(str(info["network_id"]), "networks", names) if info else columns.NOTHING


def _outer_addresses(item: Item, names: Names) -> Cell:
    info = item.get("external_gateway_info") or {}
    found = tuple(Cell("mono", str(one["ip_address"])) for one in info.get("external_fixed_ips") or ())
    return Cell("lines", lines=found) if found else columns.NOTHING


_GATEWAY = Field(
    "gateway", "External network", "choice", choices=EXTERNAL_NETWORKS, nothing="None", also=("external_gateway_info",)
)
_SUBNET = Field("subnet_id", "Subnet", "choice", choices=SUBNETS, is_required=True)

ROUTERS = Resource(
    id="routers",
    noun="router",
    title="Routers",
    icon="router",
    service="network",
    one="router",
    rule="get_router",
    reader=reader(api.ROUTERS),
    sorting="sort_key",
    empty="A router connects subnets with each other and with the external network.",
    notice=_routing_notice,
    names=("networks",),
    tool=("topology", "Topology"),
    columns=(
        Column("Name", columns.text("name"), sort="name"),
        Column("State", columns.state(BADGES)),
        Column("External network", _outside),
        Column("External address", _outer_addresses),
        Column("Age", columns.age("created_at"), is_number=True, sort="created_at"),
        Column("Description", columns.text("description"), is_in_list=False),
        Column(
            "Routes",
            columns.lines("routes", lambda one, names: Cell("mono", f"{one['destination']} by {one['nexthop']}")),
            is_in_list=False,
        ),
    ),
    parts=(RelatedTable("Interfaces", "ports", lambda item: {"device_id": str(item["id"])}),),
    actions=(
        ResourceAction(
            id="create",
            title="Create router",
            does="Creates a router for this project. Add subnets to it afterwards.",
            rule="create_router",
            is_creation=True,
            icon="plus",
            fields=(NAME, _GATEWAY, DESCRIPTION),
            call=_create_router,
            schema=api.ROUTERS.creation_body,
            execute=create(api.ROUTERS),
            cli=lambda form: [
                "openstack router create",
                *options(form.values, gateway="external-gateway", description="description"),
                form.values.get("name") or "NAME",
            ],
        ),
        ResourceAction(
            id="add-subnet",
            title="Add subnet",
            does="Servers on the subnet can reach all networks of the router.",
            rule="add_router_interface",
            fields=(_SUBNET,),
            call=_interface("add"),
            schema=routing.INTERFACE,
            execute=_change_interface(is_added=True),
            cli=lambda form: [
                "openstack router add subnet",
                named(form.item),
                form.values.get("subnet_id") or "SUBNET",
            ],
        ),
        ResourceAction(
            id="remove-subnet",
            title="Remove subnet",
            does="Disconnects the subnet from the router. Remove floating IPs that use it first.",
            rule="remove_router_interface",
            fields=(_SUBNET,),
            call=_interface("remove"),
            schema=routing.INTERFACE,
            execute=_change_interface(is_added=False),
            cli=lambda form: [
                "openstack router remove subnet",
                named(form.item),
                form.values.get("subnet_id") or "SUBNET",
            ],
        ),
        ResourceAction(
            id="gateway",
            title="External network",
            does="Select an external network, or nothing to disconnect the router from it.",
            rule="update_router",
            fields=(_GATEWAY,),
            call=_gateway,
            schema=api.ROUTERS.update_body,
            execute=update(api.ROUTERS),
            cli=lambda form: [
                "openstack router set",
                *options(form.values, gateway="external-gateway"),
                named(form.item),
            ],
        ),
        rename(api.ROUTERS, "routers", "router"),
        delete(api.ROUTERS, "routers", "router", "Remove its interfaces first."),
    ),
)

FLOATING_IPS = Resource(
    id="floating-ips",
    noun="floating IP",
    title="Floating IPs",
    icon="globe",
    service="network",
    one="floatingip",
    rule="get_floatingip",
    reader=reader(api.FLOATING_IPS),
    sorting="sort_key",
    empty="A floating IP is an external address that you can attach to a server.",
    notice=_routing_notice,
    names=("networks", "routers"),
    name_of=lambda item: str(item["floating_ip_address"]),
    columns=(
        Column("Address", columns.mono("floating_ip_address"), sort="floating_ip_address"),
        Column("State", columns.state(BADGES)),
        Column("Attached to", columns.mono("fixed_ip_address")),
        Column("External network", columns.link("floating_network_id", "networks")),
        Column("Router", columns.link("router_id", "routers")),
        Column("Age", columns.age("created_at"), is_number=True, sort="created_at"),
        Column("Port", columns.link("port_id", "ports"), is_in_list=False),
        Column("Description", columns.text("description"), is_in_list=False),
    ),
    actions=(
        ResourceAction(
            id="create",
            title="Allocate floating IP",
            does="Allocates an external address for this project until you release it.",
            rule="create_floatingip",
            is_creation=True,
            icon="plus",
            fields=(
                Field("floating_network_id", "External network", "choice", choices=EXTERNAL_NETWORKS, is_required=True),
                Field("port_id", "Attached to", "choice", choices=SERVER_PORTS, nothing="Not attached"),
                DESCRIPTION,
            ),
            call=lambda form: Call(
                "POST",
                f"{ROOT}/floatingips",
                {"floatingip": filled(form.values, "floating_network_id", "port_id", "description")},
            ),
            schema=api.FLOATING_IPS.creation_body,
            execute=create(api.FLOATING_IPS),
            cli=lambda form: [
                "openstack floating ip create",
                *options(form.values, port_id="port", description="description"),
                form.values.get("floating_network_id") or "NETWORK",
            ],
        ),
        ResourceAction(
            id="lead",
            title="Attach",
            does="Select a server address, or nothing to detach the floating IP.",
            rule="update_floatingip",
            fields=(
                Field(
                    "port_id",
                    "Attached to",
                    "choice",
                    choices=SERVER_PORTS,
                    nothing="Nothing",
                    start=lambda item: str(item.get("port_id") or ""),
                ),
            ),
            call=lambda form: Call(
                "PUT",
                f"{ROOT}/floatingips/{form.item['id']}",
                {"floatingip": {"port_id": form.values.get("port_id") or None}},
            ),
            schema=api.FLOATING_IPS.update_body,
            execute=update(api.FLOATING_IPS),
            cli=lambda form: [
                f"openstack floating ip {'set' if form.values.get('port_id') else 'unset --port'}",
                *options(form.values, port_id="port"),
                str(form.item["floating_ip_address"]),
            ],
        ),
        delete(
            api.FLOATING_IPS,
            "floatingips",
            "floating ip",
            ("Releases the address. Other projects can then allocate it."),
        ),
    ),
)
