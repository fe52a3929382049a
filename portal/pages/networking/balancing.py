"""Items, states and forms that pages of load balancers and of their parts share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from conductor.services.networks import balancers
from portal.api.network.load_balancing import resources as api
from portal.api.network.resources import NetworkResource as Collection
from portal.pages.networking import collections
from portal.pages.networking.collections import create, delete_at, update
from portal.pages.resources.fields import (
    filled,
    named,
    options,
    whole,
    with_id,
)
from portal.pages.resources.model import (
    Call,
    Cell,
    Execute,
    Field,
    Item,
    ItemOptions,
    Names,
    ResourceAction,
    SubmittedForm,
    Values,
)
from portal.pages.status_badges import StatusBadge

SERVICE = "load-balancer"
ROOT = "/load-balancer/v2.0/lbaas"
STATES = {
    "ONLINE": StatusBadge("good", "online"),
    "DEGRADED": StatusBadge("waiting", "degraded"),
    "OFFLINE": StatusBadge("bad", "offline"),
    "ERROR": StatusBadge("bad", "error"),
    "NO_MONITOR": StatusBadge("none", "not checked"),
}
PROVISIONING = {
    "ACTIVE": StatusBadge("good", "active"),
    "PENDING_CREATE": StatusBadge("working", "creating"),
    "PENDING_UPDATE": StatusBadge("working", "updating"),
    "ERROR": StatusBadge("bad", "error"),
}
NOT_ENABLED = StatusBadge("none", "not enabled")
# What a part still needs before it has a state of its own.
LACKS = {
    "listeners": StatusBadge("none", "no listeners"),
    "pool": StatusBadge("none", "no pool"),
    "members": StatusBadge("none", "no members"),
}
NUMBERS = ("protocol_port", "delay", "timeout", "max_retries", "max_retries_down")
FLAGS = {"default_pool_id": "default-pool", "listener_id": "listener", "loadbalancer_id": "loadbalancer"}
ENABLED = Field("admin_state_up", "Enabled", "check", start=lambda item: "yes" if item["admin_state_up"] else "")


def name_of_listener(item: Item) -> str:
    return str(item["name"]) or f"{item['protocol']} {item['protocol_port']}"


def _more_of_pool(row: Any) -> dict[str, Any]:
    return {
        "lacks": balancers.missing_of_pool(row),
        "loadbalancer_id": str(row.balancer.uuid),
        "balancer": row.balancer.name,
        "next_monitor": balancers.next_monitor([row]),
        "listener_names": {str(one.uuid): name_of_listener(vars(one)) for one in row.listeners.all()},
    }


def _in_pool(row: Any) -> dict[str, Any]:
    return {"pool_id": str(row.pool.uuid)}


def _with_more(collection: Collection, more: Callable[[Any], Mapping[str, Any]]) -> Collection:
    """Return a collection with more in each item than the API shows."""
    return replace(collection, show=lambda row, caller: {**collection.show(row, caller), **more(row)})


BALANCERS = _with_more(
    api.BALANCERS,
    lambda row: {"lacks": balancers.missing_of(row), "next_monitor": balancers.next_monitor(row.pools.all())},
)
LISTENERS = _with_more(
    api.LISTENERS, lambda row: {"lacks": balancers.missing_of_listener(row), "loadbalancer_id": str(row.balancer.uuid)}
)
POOLS = _with_more(api.POOLS, _more_of_pool)
MEMBERS = _with_more(api.MEMBERS, _in_pool)
HEALTH_MONITORS = _with_more(api.HEALTH_MONITORS, _in_pool)


def state(item: Item, names: Names) -> Cell:
    """Return what OVN still has to carry out, else how the resource answers."""
    if item["provisioning_status"] != "ACTIVE":
        return Cell("state", badge=PROVISIONING[item["provisioning_status"]])
    if not item["admin_state_up"]:
        return Cell("state", badge=NOT_ENABLED)
    return Cell("state", badge=LACKS.get(item.get("lacks", "")) or STATES[item["operating_status"]])


def next_monitor(item: Item) -> Mapping[str, str]:
    """Return the values with which the form of a health monitor begins."""
    values: Mapping[str, str] = item["next_monitor"]
    return values


def options_of(collection: Collection, words: Callable[[Item], str], **more: Any) -> ItemOptions:
    """Return the collection as options of a form."""
    return ItemOptions(SERVICE, f"get_{collection.rule}", collections.reader(collection).list_, words, **more)


def fields_of(values: Values, *names: str) -> dict[str, Any]:
    """Return the values that are not empty, numbers as numbers."""
    return {name: whole(text) if name in NUMBERS else text for name, text in filled(values, *names).items()}


def flags_of(values: Values, *names: str) -> list[str]:
    """Return the flags of the command for these values."""
    return options(values, **{name: FLAGS.get(name, name.replace("_", "-")) for name in names})


def _ids(item: Item) -> list[str]:
    """Return the arguments that name a resource; a member is named with its pool."""
    return [str(item["pool_id"]), named(item)] if "address" in item else [named(item)]


def path_of(segment: str) -> Callable[[Item], str]:
    """Return the path of one of a collection."""
    return lambda item: f"{ROOT}/{segment}/{item['id']}"


def create_part(collection: Collection, *names: str, **fixed: str) -> Callable[[SubmittedForm], Call]:
    """Return the request that creates one of the collection from these fields."""

    def call(form: SubmittedForm) -> Call:
        body = {**fields_of(form.values, *names), **fixed}
        return Call("POST", f"{ROOT}/{collection.plural}", {collection.rule: body})

    return call


def creation(
    collection: Collection,
    title: str,
    does: str,
    fields: tuple[Field, ...],
    call: Callable[[SubmittedForm], Call],
    cli: Callable[[SubmittedForm], list[str]],
    **more: Any,
) -> ResourceAction:
    """Return the action that creates one of the collection."""
    execute: Execute = more.pop("execute", None) or create(collection)
    return ResourceAction(
        id="create",
        title=title,
        does=does,
        rule=f"create_{collection.rule}",
        is_creation=True,
        icon="plus",
        fields=fields,
        call=call,
        schema=collection.creation_body,
        execute=execute,
        cli=cli,
        **more,
    )


def edit(collection: Collection, command: str, path: Callable[[Item], str], *fields: Field) -> ResourceAction:
    """Return the action that changes these fields, and whether the resource is enabled."""
    names = [field.name for field in fields]

    def body(values: Values) -> dict[str, Any]:
        changed: dict[str, Any] = {name: whole(values[name]) if name in NUMBERS else values[name] for name in names}
        if "default_pool_id" in changed:
            changed["default_pool_id"] = changed["default_pool_id"] or None
        return {collection.rule: {**changed, "admin_state_up": bool(values.get("admin_state_up"))}}

    return ResourceAction(
        id="edit",
        title="Edit",
        does="What isn't enabled takes no connections.",
        rule=f"update_{collection.rule}",
        fields=(*fields, ENABLED),
        call=lambda form: Call("PUT", path(form.item), body(form.values)),
        schema=collection.update_body,
        execute=update(collection),
        cli=lambda form: [
            f"openstack {command} set",
            *flags_of(form.values, *names),
            "--enable" if form.values.get("admin_state_up") else "--disable",
            *_ids(form.item),
        ],
    )


def delete(collection: Collection, command: str, path: Callable[[Item], str], does: str) -> ResourceAction:
    """Return the action that deletes one of the collection."""
    return delete_at(collection, path, does, lambda item: [f"openstack {command} delete", *_ids(item)])


PORT = Field("protocol_port", "Port", "number", least=1, most=65535, is_required=True, help="For example 80 for HTTP.")
POOL_OPTIONS = options_of(POOLS, lambda item: f"{with_id(item)} ({item['protocol']}) · {item['balancer'] or '–'}")
POOL = Field("pool_id", "Pool", "choice", choices=POOL_OPTIONS, is_required=True)
