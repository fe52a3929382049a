"""Services of all cells: conductors and compute hosts. Their list has a page of its own; these are the forms."""

from __future__ import annotations

from typing import Any

from portal.pages.api_calls import Call
from portal.pages.faces import Face
from portal.pages.resources import cells
from portal.pages.resources.aggregates import host_link
from portal.pages.resources.fields import REASON
from portal.pages.resources.model import Asked, Cell, Column, Deed, Item, Names, Resource

PATH = "/compute/v2.1/os-services"
COMPUTE = "nova-compute"
KINDS = {COMPUTE: "compute host", "nova-conductor": "conductor", "nova-scheduler": "scheduler"}
STATES = {"up": Face("good", "up"), "down": Face("bad", "down")}
STATUSES = {"enabled": Face("good", "open"), "disabled": Face("waiting", "closed")}


def _at(asked: Asked) -> str:
    return f"{PATH}/{asked.item.get('id', 'ID')}"


def _put(asked: Asked, **body: Any) -> Call:
    return Call("PUT", _at(asked), body)


def _name(item: Item) -> str:
    return f"{KINDS.get(str(item.get('binary')), item.get('binary'))} {item.get('host')}"


def _only_hosts(item: Item) -> str:
    return "" if item.get("binary") == COMPUTE else "Only compute hosts take servers, and can be closed to them."


def _host(item: Item, names: Names) -> Cell:
    return host_link(str(item["host"])) if item.get("binary") == COMPUTE else Cell("text", str(item["host"]))


def _cli(asked: Asked, *flags: str) -> list[str]:
    return [
        "openstack compute service set",
        *flags,
        str(asked.item.get("host", "HOST")),
        str(asked.item.get("binary", COMPUTE)),
    ]


SERVICES = Resource(
    id="services",
    noun="service",
    title="Services",
    icon="workflow",
    service="compute",
    path=PATH,
    key="services",
    one="service",
    rule="os_compute_api:os-services:list",
    is_paged=False,
    is_for_operators=True,
    is_only_listed=True,
    list_route="service-list",
    empty="Conductors and compute hosts are listed as soon as they report.",
    id_of=lambda item: str(item.get("id") or ""),
    name_of=_name,
    columns=(
        Column("Service", lambda item, names: Cell("text", _name(item))),
        Column("Host", _host),
        Column("State", cells.state(STATES, "state")),
        Column("New servers", cells.state(STATUSES)),
        Column("Why closed", cells.text("disabled_reason")),
        Column("Zone", cells.text("zone")),
        Column("Last heard", cells.age("updated_at")),
        Column("Said to be off", cells.yes("forced_down")),
    ),
    deeds=(
        Deed(
            id="disable",
            title="Close",
            does="No new server is placed there. Those that are there stay and run on.",
            rule="os_compute_api:os-services:update",
            is_bulk=True,
            why_not=lambda item: _only_hosts(item) or ("It is closed already." if item["status"] == "disabled" else ""),
            fields=(REASON,),
            call=lambda asked: _put(
                asked, status="disabled", disabled_reason=asked.values["reason"].strip() or "REASON"
            ),
            cli=lambda asked: _cli(asked, "--disable", "--disable-reason", asked.values.get("reason") or "REASON"),
        ),
        Deed(
            id="enable",
            title="Open",
            does="The scheduler may place servers there again.",
            rule="os_compute_api:os-services:update",
            is_bulk=True,
            why_not=lambda item: _only_hosts(item) or ("It is open." if item["status"] == "enabled" else ""),
            call=lambda asked: _put(asked, status="enabled"),
            cli=lambda asked: _cli(asked, "--enable"),
        ),
        Deed(
            id="forget",
            title="Forget",
            does="For one that never comes back: it is listed no more, and a host leaves its cell and its aggregates. "
            "One that is still there is listed again as soon as it reports.",
            rule="os_compute_api:os-services:delete",
            is_danger=True,
            icon="trash",
            why_not=lambda item: "It is up: stop it first." if item["state"] == "up" else "",
            fields=(REASON,),
            call=lambda asked: Call("DELETE", _at(asked)),
            cli=lambda asked: ["openstack compute service delete", str(asked.item.get("id", "ID"))],
        ),
    ),
)
