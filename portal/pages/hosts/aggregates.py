"""Host aggregates: groups of hosts with metadata for the scheduler; one with a zone is an availability zone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.urls import reverse

from conductor.core.context import RequestContext
from conductor.core.page import Page
from conductor.services.hosts import aggregates, hosts
from conductor.services.hosts.types import AggregateView
from portal.api.compute.schemas import aggregates as schemas
from portal.pages.resources import columns
from portal.pages.resources.fields import NAME, OWN_NAME, REASON, named, own, pairs_fault, pairs_of, pairs_text
from portal.pages.resources.model import (
    Call,
    Cell,
    Column,
    Field,
    FieldOption,
    Item,
    ItemOptions,
    ItemReader,
    Names,
    Query,
    Resource,
    ResourceAction,
    SubmittedForm,
)

PATH = "/compute/v2.1/os-aggregates"
RULE = "os_compute_api:os-aggregates:"
ZONE_KEY = "availability_zone"
_ZONE_HELP = (
    "Users can select the zone when they launch servers. A host is in at most one zone and stays in it while "
    "it has servers."
)
_KEYS = (
    ("availability_zone", "Availability zone that the hosts form."),
    ("filter_tenant_id", "Allow only servers of these projects. Enter project IDs, separated by commas."),
    ("instance_type", "Allow only servers with these flavors. Enter flavor names, separated by commas."),
    ("max_instances_per_host", "Maximum number of servers on each host."),
    ("max_io_ops_per_host", "Maximum number of servers being built, moved or copied on each host."),
    ("ram_weight_multiplier", "Multiplier of a weigher for these hosts. Works for all weighers."),
    ("any other key", "Flavors request it with aggregate_instance_extra_specs:key."),
)


def _hosts(caller: RequestContext, query: Query) -> Page[Item]:
    return Page([{"id": one.host} for one in hosts.list_services(caller, binary="nova-compute").items])


_HOSTS = ItemOptions("compute", "os_compute_api:os-services:list", _hosts, lambda item: str(item["id"]))


def _at(item: Item, end: str = "") -> str:
    return f"{PATH}/{item.get('id', 'ID')}{end}"


def _act(form: SubmittedForm, name: str, **body: Any) -> Call:
    return Call("POST", _at(form.item, "/action"), {name: body})


def _edit(form: SubmittedForm) -> Call:
    """Leave an unchanged zone out, because hosts with servers forbid setting it."""
    body: dict[str, Any] = {"name": form.values["name"]}
    if form.values[ZONE_KEY] != str(form.item.get(ZONE_KEY) or ""):
        body[ZONE_KEY] = form.values[ZONE_KEY] or None
    return Call("PUT", _at(form.item), {"aggregate": body})


def _metadata(form: SubmittedForm) -> Call:
    """Remove the existing keys that the form does not have any more."""
    wanted = pairs_of(form.values["metadata"])
    gone = {key: None for key in form.item.get("metadata") or {} if key not in wanted}
    return _act(form, "set_metadata", metadata={**wanted, **gone})


def _item(aggregate: AggregateView) -> Item:
    same = {name: getattr(aggregate, name) for name in ("name", "hosts", "metadata", "created_at", "uuid")}
    return {**same, "id": aggregate.number, ZONE_KEY: aggregate.metadata.get(ZONE_KEY)}


def _list(caller: RequestContext, query: Query) -> Page[Item]:
    return Page([_item(one) for one in aggregates.list_all(caller)])


def _create(caller: RequestContext, form: SubmittedForm) -> Item:
    values = form.body["aggregate"]
    return _item(aggregates.create(caller, values["name"], values[ZONE_KEY]))


def _update(caller: RequestContext, form: SubmittedForm) -> Item:
    changes = dict(form.body["aggregate"])
    name = changes.pop("name")
    return _item(aggregates.update(caller, str(form.item["id"]), name, changes))


def _set_metadata(caller: RequestContext, form: SubmittedForm) -> Item:
    changes = form.body["set_metadata"]["metadata"]
    return _item(aggregates.set_metadata(caller, str(form.item["id"]), changes))


def _add_host(caller: RequestContext, form: SubmittedForm) -> Item:
    return _item(aggregates.add_host(caller, str(form.item["id"]), form.values["host"]))


def _remove_host(caller: RequestContext, form: SubmittedForm) -> Item:
    return _item(aggregates.remove_host(caller, str(form.item["id"]), form.values["host"]))


def _delete(caller: RequestContext, form: SubmittedForm) -> None:
    aggregates.delete(caller, str(form.item["id"]))


def host_link(name: str) -> Cell:
    return Cell("link", name, url=reverse("host", args=[name]))


def _members(item: Item, names: Names) -> Cell:
    found = tuple(host_link(str(name)) for name in item.get("hosts") or ())
    return Cell("lines", lines=found) if found else columns.NOTHING


def _count(item: Item, names: Names) -> Cell:
    return Cell("number", str(len(item.get("hosts") or ())))


def _choices(item: Item) -> Sequence[FieldOption]:
    return [FieldOption(str(name), str(name)) for name in item.get("hosts") or ()]


AGGREGATES = Resource(
    id="aggregates",
    noun="aggregate",
    title="Host aggregates",
    icon="group",
    service="compute",
    one="aggregate",
    rule=f"{RULE}index",
    is_paged=False,
    reader=ItemReader(_list, lambda caller, ident: _item(aggregates.get(caller, ident)), f"{RULE}show"),
    is_for_operators=True,
    empty="An aggregate groups similar hosts. Give it a zone that users can select, or metadata for the scheduler.",
    columns=(
        Column("Name", columns.text("name")),
        Column("Zone", columns.text(ZONE_KEY)),
        Column("Hosts", _count, is_number=True),
        Column("Metadata", columns.pairs("metadata")),
        Column("Age", columns.age("created_at"), is_number=True),
        Column("Members", _members, is_in_list=False),
        Column("UUID", columns.mono("uuid"), is_in_list=False),
    ),
    actions=(
        ResourceAction(
            id="create",
            title="Create aggregate",
            does="Creates an aggregate without hosts.",
            rule=f"{RULE}create",
            is_creation=True,
            icon="plus",
            fields=(NAME, Field(ZONE_KEY, "Zone", help=_ZONE_HELP)),
            call=lambda form: Call(
                "POST",
                PATH,
                {"aggregate": {"name": form.values["name"], ZONE_KEY: form.values[ZONE_KEY] or None}},
            ),
            schema=schemas.CREATE,
            execute=_create,
            cli=lambda form: [
                "openstack aggregate create",
                *(["--zone", form.values[ZONE_KEY]] if form.values.get(ZONE_KEY) else []),
                form.values.get("name") or "NAME",
            ],
        ),
        ResourceAction(
            id="add-host",
            title="Add host",
            does="The aggregate's settings apply to the host from the next scheduling decision on.",
            rule=f"{RULE}add_host",
            icon="plus",
            fields=(Field("host", "Host", "choice", choices=_HOSTS, is_required=True),),
            call=lambda form: _act(form, "add_host", host=form.values["host"]),
            schema=schemas.ACTIONS["add_host"],
            execute=_add_host,
            cli=lambda form: ["openstack aggregate add host", named(form.item), form.values.get("host") or "HOST"],
        ),
        ResourceAction(
            id="remove-host",
            title="Remove host",
            does="The host stays in service. The aggregate's settings no longer apply to it.",
            rule=f"{RULE}remove_host",
            why_not=lambda item: "" if item.get("hosts") else "The aggregate has no hosts.",
            fields=(Field("host", "Host", "choice", choices=_choices, is_required=True), REASON),
            call=lambda form: _act(form, "remove_host", host=form.values["host"]),
            schema=schemas.ACTIONS["remove_host"],
            execute=_remove_host,
            cli=lambda form: [
                "openstack aggregate remove host",
                named(form.item),
                form.values.get("host") or "HOST",
            ],
        ),
        ResourceAction(
            id="metadata",
            title="Set metadata",
            does="Properties that filters and flavors check. One key with its value per line.",
            rule=f"{RULE}set_metadata",
            fields=(
                Field(
                    "metadata",
                    "Metadata",
                    "area",
                    start=lambda item: pairs_text(item.get("metadata")),
                    fault=pairs_fault,
                    help=(
                        "One “key = value” pair per line, for example ssd = true. Entries that you remove are deleted."
                    ),
                ),
            ),
            guide=_KEYS,
            call=_metadata,
            schema=schemas.ACTIONS["set_metadata"],
            execute=_set_metadata,
            cli=lambda form: [
                "openstack aggregate set",
                *(
                    word
                    for key, value in pairs_of(form.values["metadata"]).items()
                    for word in ("--property", f"{key}={value}")
                ),
                named(form.item),
            ],
        ),
        ResourceAction(
            id="edit",
            title="Edit",
            does="Changes the name or the zone.",
            rule=f"{RULE}update",
            fields=(OWN_NAME, own(ZONE_KEY, "Zone", help=_ZONE_HELP)),
            call=_edit,
            schema=schemas.UPDATE,
            execute=_update,
            cli=lambda form: [
                "openstack aggregate set",
                *(["--name", form.values["name"]] if form.values.get("name") else []),
                *(["--zone", form.values[ZONE_KEY]] if form.values.get(ZONE_KEY) else []),
                str(form.item.get("id", "ID")),
            ],
        ),
        ResourceAction(
            id="delete",
            title="Delete",
            does="The aggregate's settings no longer apply to its hosts.",
            rule=f"{RULE}delete",
            is_danger=True,
            is_bulk=True,
            icon="trash",
            why_not=lambda item: "Remove all hosts first." if item.get("hosts") else "",
            fields=(REASON,),
            call=lambda form: Call("DELETE", _at(form.item)),
            execute=_delete,
            cli=lambda form: ["openstack aggregate delete", named(form.item)],
        ),
    ),
)
