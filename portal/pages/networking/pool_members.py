"""Members of pools, and the health monitors that check them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from conductor.core.context import RequestContext
from conductor.core.page import Page
from conductor.services.networks import balancers
from conductor.services.networks.balancers import MONITOR_TYPES
from portal.pages.networking import collections
from portal.pages.networking.balancing import (
    HEALTH_MONITORS,
    MEMBERS,
    POOL,
    PORT,
    ROOT,
    SERVICE,
    create_part,
    creation,
    delete,
    edit,
    fields_of,
    flags_of,
    path_of,
    state,
)
from portal.pages.networking.choices import OWN_SUBNETS, SERVER_ADDRESSES
from portal.pages.networking.collections import create
from portal.pages.resources import columns
from portal.pages.resources.fields import (
    NAME_OR_NOT,
    OWN_NAME,
)
from portal.pages.resources.model import (
    Call,
    Column,
    Field,
    FieldOption,
    Item,
    ItemReader,
    Query,
    Resource,
    SubmittedForm,
)


def _reader_of_members() -> ItemReader:
    """Return the reader of members, each with the server that has its address."""
    read = collections.reader(MEMBERS)

    def with_servers(caller: RequestContext, items: Sequence[Item]) -> list[Item]:
        servers = balancers.servers_at(caller, {(item["subnet_id"], item["address"]) for item in items})
        return [{**item, "server_id": servers.get((item["subnet_id"], item["address"]), "")} for item in items]

    def list_(caller: RequestContext, query: Query) -> Page[Item]:
        page = read.list_(caller, query)
        return Page(with_servers(caller, page.items), page.has_more)

    return ItemReader(list_, lambda caller, ident: with_servers(caller, [read.get(caller, ident)])[0])


def _members_path(pool_id: str) -> str:
    return f"{ROOT}/pools/{pool_id or 'POOL'}/members"


def _create_member(form: SubmittedForm) -> Call:
    values = form.values
    body = fields_of(values, "name", "address", "protocol_port", "subnet_id")
    address, _, subnet_id = values.get("server_address", "").partition(" ")
    if address:
        body |= {"address": address, "subnet_id": subnet_id}
    return Call("POST", _members_path(values.get("pool_id", "")), {"member": body})


def _execute_member(caller: RequestContext, form: SubmittedForm) -> Item | None:
    given = {**form.body["member"], "pool_id": form.values["pool_id"]}
    return create(MEMBERS)(caller, replace(form, body={"member": given}))


def _member_command(form: SubmittedForm) -> list[str]:
    sent = {name: str(value) for name, value in _create_member(form).body["member"].items()}
    flags = flags_of(sent, "name", "address", "protocol_port", "subnet_id")
    return ["openstack loadbalancer member create", *flags, form.values.get("pool_id") or "POOL"]


def _seconds(name: str, label: str, start: str, explained: str) -> Field:
    return Field(name, label, "number", least=1, most=3600, start=_start(name, start), help=explained, is_required=True)


def _times(name: str, label: str, explained: str) -> Field:
    return Field(name, label, "number", least=1, most=10, start=_start(name, "3"), help=explained, is_required=True)


def _start(name: str, start: str) -> Callable[[Item], str]:
    """Return the value of the resource, for a creation the usual one."""
    return lambda item: str(item.get(name) or start)


_CHECKS = (
    _seconds("delay", "Interval", "5", "Seconds between checks; at least the timeout."),
    _seconds("timeout", "Timeout", "3", "Seconds until a check without a reply counts as failed."),
    _times("max_retries", "Successes", "Checks in a row that must succeed before the member gets connections."),
    _times("max_retries_down", "Failures", "Checks in a row that must fail before the member gets none."),
)


def _name_of_member(item: Item) -> str:
    host = f"[{item['address']}]" if ":" in item["address"] else item["address"]
    return str(item["name"]) or f"{host}:{item['protocol_port']}"


MEMBERS_KIND = Resource(
    id="pool-members",
    noun="pool member",
    title="Pool members",
    icon="balancer",
    service=SERVICE,
    one="member",
    rule="get_member",
    reader=_reader_of_members(),
    sorting="sort_key",
    empty="A member is a server's address and port that gets connections.",
    names=("pools", "subnets", "servers"),
    name_of=_name_of_member,
    whole=("pools", "pool_id"),
    columns=(
        Column("Name", columns.text("name"), sort="name"),
        Column("State", state),
        Column("Address", columns.mono("address")),
        Column("Port", columns.number("protocol_port"), is_number=True),
        Column("Server", columns.link("server_id", "servers")),
        Column("Pool", columns.link("pool_id", "pools")),
        Column("Subnet", columns.link("subnet_id", "subnets"), is_in_list=False),
    ),
    actions=(
        creation(
            MEMBERS,
            title="Add member",
            does="Allow the port from clients in the server's security groups. Health checks need no rule.",
            fields=(
                POOL,
                Field(
                    "server_address",
                    "Server",
                    "choice",
                    choices=SERVER_ADDRESSES,
                    nothing="Another address",
                ),
                Field("address", "Address", help="Without a server, for example 10.0.0.11."),
                Field(
                    "subnet_id",
                    "Subnet",
                    "choice",
                    choices=OWN_SUBNETS,
                    nothing="Subnet of the load balancer",
                ),
                PORT,
                NAME_OR_NOT,
            ),
            call=_create_member,
            execute=_execute_member,
            cli=_member_command,
        ),
        edit(MEMBERS, "loadbalancer member", lambda item: f"{_members_path(item['pool_id'])}/{item['id']}", OWN_NAME),
        delete(
            MEMBERS,
            "loadbalancer member",
            lambda item: f"{_members_path(item['pool_id'])}/{item['id']}",
            "The member gets no more connections. The server stays.",
        ),
    ),
)


MONITORS_KIND = Resource(
    id="health-monitors",
    noun="health monitor",
    title="Health monitors",
    icon="balancer",
    service=SERVICE,
    one="healthmonitor",
    rule="get_healthmonitor",
    reader=collections.reader(HEALTH_MONITORS),
    sorting="sort_key",
    empty="A health monitor checks the members of a pool, so that only those that answer get connections.",
    names=("pools",),
    whole=("pools", "pool_id"),
    columns=(
        Column("Name", columns.text("name"), sort="name"),
        Column("State", state),
        Column("Type", columns.text("type")),
        Column("Interval", columns.number("delay", "s"), is_number=True),
        Column("Timeout", columns.number("timeout", "s"), is_number=True),
        Column("Pool", columns.link("pool_id", "pools")),
        Column("Successes", columns.number("max_retries"), is_number=True, is_in_list=False),
        Column("Failures", columns.number("max_retries_down"), is_number=True, is_in_list=False),
    ),
    actions=(
        creation(
            HEALTH_MONITORS,
            title="Add health monitor",
            does="Takes an address on each subnet of the members, from which OVN checks them.",
            fields=(
                POOL,
                Field(
                    "type",
                    "Type",
                    "choice",
                    choices=tuple(FieldOption(name, protocol) for name, protocol in MONITOR_TYPES.items()),
                    help="The protocol of the pool.",
                    is_required=True,
                ),
                *_CHECKS,
                NAME_OR_NOT,
            ),
            call=create_part(HEALTH_MONITORS, "pool_id", "type", *(one.name for one in _CHECKS), "name"),
            cli=lambda form: [
                "openstack loadbalancer healthmonitor create",
                *flags_of(form.values, "name", "type", *(one.name for one in _CHECKS)),
                form.values.get("pool_id") or "POOL",
            ],
        ),
        edit(HEALTH_MONITORS, "loadbalancer healthmonitor", path_of("healthmonitors"), OWN_NAME, *_CHECKS),
        delete(
            HEALTH_MONITORS,
            "loadbalancer healthmonitor",
            path_of("healthmonitors"),
            "All members of the pool get connections then, whether they answer or not.",
        ),
    ),
)
