"""Host aggregates: groups of hosts with what the scheduler is told of them; one with a zone is a zone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.urls import reverse

from portal.pages.api_calls import Call
from portal.pages.resources import cells
from portal.pages.resources.fields import NAME, OWN_NAME, REASON, named, own, pairs_fault, pairs_of, pairs_text
from portal.pages.resources.model import Asked, Cell, Choice, Column, Deed, Field, Item, Names, Resource, Source

PATH = "/compute/v2.1/os-aggregates"
RULE = "os_compute_api:os-aggregates:"
ZONE_KEY = "availability_zone"
_ZONE_HELP = "Users may choose it when they launch. A host is in one zone at most, and keeps it while it has servers."
_HOSTS = Source(
    "/compute/v2.1/os-services",
    "services",
    lambda item: str(item["host"]),
    lambda item: str(item["host"]),
    query={"binary": "nova-compute"},
)
_KEYS = (
    ("availability_zone", "The zone that the hosts form for users."),
    ("filter_tenant_id", "Only servers of these projects, by id, are placed here. Several with commas."),
    ("instance_type", "Only servers of these flavors, by name, are placed here. Several with commas."),
    ("max_instances_per_host", "At most so many servers on each host."),
    ("max_io_ops_per_host", "At most so many servers being built, moved or copied on each host."),
    ("ram_weight_multiplier", "How much a weigher counts for these hosts; so for every weigher's multiplier."),
    ("any other key", "Flavors ask for it with aggregate_instance_extra_specs:key."),
)


def _at(item: Item, end: str = "") -> str:
    return f"{PATH}/{item.get('id', 'ID')}{end}"


def _act(asked: Asked, name: str, **body: Any) -> Call:
    return Call("POST", _at(asked.item, "/action"), {name: body})


def _edit(asked: Asked) -> Call:
    """A zone stays unsaid where it does not change, as hosts with servers forbid that."""
    body: dict[str, Any] = {"name": asked.values["name"]}
    if asked.values[ZONE_KEY] != str(asked.item.get(ZONE_KEY) or ""):
        body[ZONE_KEY] = asked.values[ZONE_KEY] or None
    return Call("PUT", _at(asked.item), {"aggregate": body})


def _metadata(asked: Asked) -> Call:
    """What is there and was not typed any more is taken away."""
    wanted = pairs_of(asked.values["metadata"])
    gone = {key: None for key in asked.item.get("metadata") or {} if key not in wanted}
    return _act(asked, "set_metadata", metadata={**wanted, **gone})


def host_link(name: str) -> Cell:
    return Cell("link", name, url=reverse("host", args=[name]))


def _members(item: Item, names: Names) -> Cell:
    found = tuple(host_link(str(name)) for name in item.get("hosts") or ())
    return Cell("lines", lines=found) if found else cells.NOTHING


def _count(item: Item, names: Names) -> Cell:
    return Cell("number", str(len(item.get("hosts") or ())))


def _choices(item: Item) -> Sequence[Choice]:
    return [Choice(str(name), str(name)) for name in item.get("hosts") or ()]


AGGREGATES = Resource(
    id="aggregates",
    noun="aggregate",
    title="Host aggregates",
    icon="group",
    service="compute",
    path=PATH,
    key="aggregates",
    one="aggregate",
    rule=f"{RULE}index",
    is_paged=False,
    is_for_operators=True,
    empty="An aggregate groups hosts that are alike: give it a zone for users, or metadata for the scheduler.",
    columns=(
        Column("Name", cells.text("name")),
        Column("Zone", cells.text(ZONE_KEY)),
        Column("Hosts", _count, is_number=True),
        Column("Metadata", cells.pairs("metadata")),
        Column("Age", cells.age("created_at"), is_number=True),
        Column("Members", _members, is_in_list=False),
        Column("UUID", cells.mono("uuid"), is_in_list=False),
    ),
    deeds=(
        Deed(
            id="create",
            title="Create aggregate",
            does="A group without hosts, until some are added.",
            rule=f"{RULE}create",
            is_creation=True,
            icon="plus",
            fields=(NAME, Field(ZONE_KEY, "Zone", help=_ZONE_HELP)),
            call=lambda asked: Call(
                "POST",
                PATH,
                {"aggregate": {"name": asked.values["name"], ZONE_KEY: asked.values[ZONE_KEY] or None}},
            ),
            cli=lambda asked: [
                "openstack aggregate create",
                *(["--zone", asked.values[ZONE_KEY]] if asked.values.get(ZONE_KEY) else []),
                asked.values.get("name") or "NAME",
            ],
        ),
        Deed(
            id="add-host",
            title="Add host",
            does="What the aggregate says holds for the host too, from its next placement on.",
            rule=f"{RULE}add_host",
            icon="plus",
            fields=(Field("host", "Host", "choice", choices=_HOSTS, is_required=True),),
            call=lambda asked: _act(asked, "add_host", host=asked.values["host"]),
            cli=lambda asked: ["openstack aggregate add host", named(asked.item), asked.values.get("host") or "HOST"],
        ),
        Deed(
            id="remove-host",
            title="Remove host",
            does="The host stays, and is held to the aggregate no more.",
            rule=f"{RULE}remove_host",
            why_not=lambda item: "" if item.get("hosts") else "It has no hosts.",
            fields=(Field("host", "Host", "choice", choices=_choices, is_required=True), REASON),
            call=lambda asked: _act(asked, "remove_host", host=asked.values["host"]),
            cli=lambda asked: [
                "openstack aggregate remove host",
                named(asked.item),
                asked.values.get("host") or "HOST",
            ],
        ),
        Deed(
            id="metadata",
            title="Set metadata",
            does="What filters and flavors ask of the aggregate's hosts. Each line is a key with its value.",
            rule=f"{RULE}set_metadata",
            fields=(
                Field(
                    "metadata",
                    "Metadata",
                    "area",
                    start=lambda item: pairs_text(item.get("metadata")),
                    fault=pairs_fault,
                    help="ssd = true, one on a line. A line that is gone takes its key away.",
                ),
            ),
            guide=_KEYS,
            call=_metadata,
            cli=lambda asked: [
                "openstack aggregate set",
                *(
                    word
                    for key, value in pairs_of(asked.values["metadata"]).items()
                    for word in ("--property", f"{key}={value}")
                ),
                named(asked.item),
            ],
        ),
        Deed(
            id="edit",
            title="Edit",
            does="Another name or another zone.",
            rule=f"{RULE}update",
            fields=(OWN_NAME, own(ZONE_KEY, "Zone", help=_ZONE_HELP)),
            call=_edit,
            cli=lambda asked: [
                "openstack aggregate set",
                *(["--name", asked.values["name"]] if asked.values.get("name") else []),
                *(["--zone", asked.values[ZONE_KEY]] if asked.values.get(ZONE_KEY) else []),
                str(asked.item.get("id", "ID")),
            ],
        ),
        Deed(
            id="delete",
            title="Delete",
            does="What it says of its hosts holds no more.",
            rule=f"{RULE}delete",
            is_danger=True,
            is_bulk=True,
            icon="trash",
            why_not=lambda item: "It has hosts: remove them first." if item.get("hosts") else "",
            fields=(REASON,),
            call=lambda asked: Call("DELETE", _at(asked.item)),
            cli=lambda asked: ["openstack aggregate delete", named(asked.item)],
        ),
    ),
)
