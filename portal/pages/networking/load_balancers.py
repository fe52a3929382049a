"""Load balancers, and their listeners and pools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from conductor.core.context import RequestContext
from conductor.services.networks import balancers
from conductor.services.networks.balancers import ALGORITHM, PROTOCOLS
from portal.api.network.resources import NetworkResource as Collection
from portal.pages.networking import collections
from portal.pages.networking.balancing import (
    BALANCERS,
    LISTENERS,
    POOL_OPTIONS,
    POOLS,
    PORT,
    ROOT,
    SERVICE,
    create_part,
    creation,
    delete,
    edit,
    flags_of,
    name_of_listener,
    next_monitor,
    options_of,
    path_of,
    state,
)
from portal.pages.networking.choices import OWN_SUBNETS
from portal.pages.networking.collections import create
from portal.pages.networking.pool_members import MEMBERS_KIND, MONITORS_KIND
from portal.pages.resources import columns
from portal.pages.resources.fields import (
    DESCRIPTION,
    NAME,
    NAME_OR_NOT,
    OWN_DESCRIPTION,
    OWN_NAME,
    filled,
    named,
    own,
    whole,
    with_id,
)
from portal.pages.resources.model import (
    Call,
    Cell,
    Column,
    Field,
    FieldOption,
    FollowUp,
    Item,
    Names,
    RelatedTable,
    Resource,
    ResourceAction,
    SubmittedForm,
)


def _notice() -> str:
    return "" if balancers.is_available() else "Load balancers need OVN, and this cloud has none."


def _create_balancer(form: SubmittedForm) -> Call:
    body = filled(form.values, "name", "vip_subnet_id", "vip_address", "description")
    return Call("POST", f"{ROOT}/loadbalancers", {"loadbalancer": body})


def _first_listener(form: SubmittedForm, made: Item) -> Iterator[FollowUp]:
    """Create the listener of the form with a pool, if the form has a port."""
    if not form.values.get("protocol_port"):
        return
    parts: dict[str, Item] = {}
    protocol = {"protocol": form.values["protocol"]}
    listener = {**protocol, "loadbalancer_id": made["id"], "protocol_port": whole(form.values["protocol_port"])}
    yield _creation_after(LISTENERS, listener, parts)
    if LISTENERS.rule in parts:
        pool = {**protocol, "name": made["name"], "lb_algorithm": ALGORITHM, "listener_id": parts[LISTENERS.rule]["id"]}
        yield _creation_after(POOLS, pool, parts)


def _creation_after(collection: Collection, fields: Mapping[str, Any], made: dict[str, Item]) -> FollowUp:
    """Return the creation of one of the collection, which adds the result to `made`."""
    body = {collection.rule: dict(fields)}

    def execute(caller: RequestContext) -> Item:
        made[collection.rule] = create(collection)(caller, SubmittedForm({}, {}, body=body)) or {}
        return made[collection.rule]

    return FollowUp(Call("POST", f"{ROOT}/{collection.plural}", body), f"create_{collection.rule}", execute)


def _pool_command(form: SubmittedForm) -> list[str]:
    owner = "listener_id" if form.values.get("listener_id") else "loadbalancer_id"
    flags = flags_of(form.values, "name", "description", "protocol", owner)
    return ["openstack loadbalancer pool create", f"--lb-algorithm {ALGORITHM}", *flags]


def _delete_balancer(caller: RequestContext, form: SubmittedForm) -> None:
    balancers.delete_with_parts(caller, form.item["id"])


def _first_pool(item: Item) -> dict[str, str]:
    return {"pool_id": str(item["pools"][0]["id"])} if item["pools"] else {}


def _of_balancer(item: Item) -> dict[str, str]:
    return {"loadbalancer_id": str(item["id"])}


def _of_pool(item: Item) -> dict[str, str]:
    return {"pool_id": str(item["id"])}


_PROTOCOLS = tuple(FieldOption(name, name) for name in PROTOCOLS)
_PROTOCOL = Field("protocol", "Protocol", "choice", choices=_PROTOCOLS, is_required=True)
_BALANCER = Field(
    "loadbalancer_id", "Load balancer", "choice", choices=options_of(BALANCERS, with_id), is_required=True
)
_LISTENERS = options_of(
    LISTENERS,
    lambda item: f"{item['name'] or with_id(item)} ({item['protocol']} {item['protocol_port']})",
    wanted=lambda item: not item["default_pool_id"],
)


def _listeners(item: Item, names: Names) -> Cell:
    return columns.links("listener_names", "listeners")(item, {"listeners": item["listener_names"]})


LOAD_BALANCERS = Resource(
    id="load-balancers",
    noun="load balancer",
    title="Load balancers",
    icon="balancer",
    service=SERVICE,
    one="loadbalancer",
    rule="get_loadbalancer",
    reader=collections.reader(BALANCERS),
    sorting="sort_key",
    empty="A load balancer spreads the connections to one address over several servers.",
    notice=_notice,
    names=("subnets", "networks", "ports"),
    columns=(
        Column("Name", columns.text("name"), sort="name"),
        Column("State", state),
        Column("Address", columns.mono("vip_address")),
        Column("Subnet", columns.link("vip_subnet_id", "subnets")),
        Column("Age", columns.age("created_at"), is_number=True, sort="created_at"),
        Column("Network", columns.link("vip_network_id", "networks"), is_in_list=False),
        Column("Port of the address", columns.link("vip_port_id", "ports"), is_in_list=False),
        Column("Description", columns.text("description"), is_in_list=False),
    ),
    parts=(
        RelatedTable("Listeners", "listeners", _of_balancer, "create", "loadbalancer_id"),
        RelatedTable("Pools", "pools", _of_balancer, "create", "loadbalancer_id"),
        RelatedTable("Pool members", "pool-members", _of_balancer, "create", create_values=_first_pool),
        RelatedTable("Health monitors", "health-monitors", _of_balancer, "create", create_values=next_monitor),
        RelatedTable(
            "Floating IPs",
            "floating-ips",
            lambda item: {"port_id": str(item["vip_port_id"])},
            "create",
            create_values=lambda item: {"port_id": str(item["vip_port_id"])},
        ),
    ),
    actions=(
        creation(
            BALANCERS,
            title="Create load balancer",
            does="Takes an address on the subnet. With a port, the load balancer starts with a listener and a pool.",
            fields=(
                NAME,
                Field(
                    "vip_subnet_id",
                    "Subnet",
                    "choice",
                    choices=OWN_SUBNETS,
                    is_required=True,
                    also=("vip_network_id",),
                ),
                Field("vip_address", "Address", help="Leave empty for a free address of the subnet."),
                replace(PORT, is_required=False),
                _PROTOCOL,
                DESCRIPTION,
            ),
            call=_create_balancer,
            follow_ups=_first_listener,
            cli=lambda form: [
                "openstack loadbalancer create",
                *flags_of(form.values, "name", "vip_subnet_id", "vip_address", "description"),
            ],
        ),
        edit(BALANCERS, "loadbalancer", path_of("loadbalancers"), OWN_NAME, OWN_DESCRIPTION),
        ResourceAction(
            id="delete",
            title="Delete",
            does="Deletes the load balancer with its listeners, pools, members and health monitors.",
            rule="delete_loadbalancer",
            is_danger=True,
            is_bulk=True,
            icon="trash",
            call=lambda form: Call("DELETE", f"{ROOT}/loadbalancers/{form.item['id']}?cascade=true"),
            execute=_delete_balancer,
            cli=lambda form: ["openstack loadbalancer delete --cascade", named(form.item)],
        ),
    ),
)


LISTENERS_KIND = Resource(
    id="listeners",
    noun="listener",
    title="Listeners",
    icon="balancer",
    service=SERVICE,
    one="listener",
    rule="get_listener",
    reader=collections.reader(LISTENERS),
    sorting="sort_key",
    empty="A listener is a port of a load balancer's address. It passes connections to a pool.",
    names=("load-balancers", "pools"),
    name_of=name_of_listener,
    whole=("load-balancers", "loadbalancer_id"),
    columns=(
        Column("Name", columns.text("name"), sort="name"),
        Column("State", state),
        Column("Protocol", columns.text("protocol")),
        Column("Port", columns.number("protocol_port"), is_number=True),
        Column("Pool", columns.link("default_pool_id", "pools")),
        Column("Load balancer", columns.link("loadbalancer_id", "load-balancers"), is_in_list=False),
        Column("Description", columns.text("description"), is_in_list=False),
    ),
    actions=(
        creation(
            LISTENERS,
            title="Add listener",
            does="Accepts connections to a port of the load balancer's address.",
            fields=(
                _BALANCER,
                _PROTOCOL,
                PORT,
                Field("default_pool_id", "Pool", "choice", choices=POOL_OPTIONS, nothing="No pool"),
                NAME_OR_NOT,
                DESCRIPTION,
            ),
            call=create_part(
                LISTENERS, "loadbalancer_id", "protocol", "protocol_port", "default_pool_id", "name", "description"
            ),
            cli=lambda form: [
                "openstack loadbalancer listener create",
                *flags_of(form.values, "name", "description", "protocol", "protocol_port", "default_pool_id"),
                form.values.get("loadbalancer_id") or "LOADBALANCER",
            ],
        ),
        edit(
            LISTENERS,
            "loadbalancer listener",
            path_of("listeners"),
            OWN_NAME,
            own("default_pool_id", "Pool", kind="choice", choices=POOL_OPTIONS, nothing="No pool"),
            OWN_DESCRIPTION,
        ),
        delete(
            LISTENERS,
            "loadbalancer listener",
            path_of("listeners"),
            "The load balancer accepts no more connections to this port. The pool stays.",
        ),
    ),
)


POOLS_KIND = Resource(
    id="pools",
    noun="pool",
    title="Pools",
    icon="balancer",
    service=SERVICE,
    one="pool",
    rule="get_pool",
    reader=collections.reader(POOLS),
    sorting="sort_key",
    empty="A pool has the members that get a listener's connections.",
    names=("load-balancers",),
    whole=("load-balancers", "loadbalancer_id"),
    columns=(
        Column("Name", columns.text("name"), sort="name"),
        Column("State", state),
        Column("Protocol", columns.text("protocol")),
        Column("Members", lambda item, names: Cell("number", str(len(item["members"]))), is_number=True),
        Column("Load balancer", columns.link("loadbalancer_id", "load-balancers"), is_in_list=False),
        Column("Listeners", _listeners, is_in_list=False),
        Column("Description", columns.text("description"), is_in_list=False),
    ),
    parts=(
        RelatedTable("Pool members", "pool-members", _of_pool, "create", "pool_id"),
        RelatedTable("Health monitors", "health-monitors", _of_pool, "create", create_values=next_monitor),
    ),
    actions=(
        creation(
            POOLS,
            title="Add pool",
            does="A connection goes to one member, chosen by the addresses and ports at both ends.",
            fields=(
                _BALANCER,
                _PROTOCOL,
                Field("listener_id", "Listener", "choice", choices=_LISTENERS, nothing="No listener"),
                NAME_OR_NOT,
                DESCRIPTION,
            ),
            call=create_part(
                POOLS, "loadbalancer_id", "protocol", "listener_id", "name", "description", lb_algorithm=ALGORITHM
            ),
            cli=_pool_command,
        ),
        edit(POOLS, "loadbalancer pool", path_of("pools"), OWN_NAME, OWN_DESCRIPTION),
        delete(
            POOLS,
            "loadbalancer pool",
            path_of("pools"),
            "Deletes the pool with its members and health monitor. Its listeners have no pool then.",
        ),
    ),
)
KINDS = (LOAD_BALANCERS, LISTENERS_KIND, POOLS_KIND, MEMBERS_KIND, MONITORS_KIND)
