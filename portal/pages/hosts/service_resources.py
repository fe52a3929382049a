"""Forms of services: conductors and compute hosts. Their list is in `services`."""

from __future__ import annotations

from typing import Any

from conductor.core.context import RequestContext
from conductor.core.page import Page
from conductor.services.fleet import enabling
from conductor.services.hosts import hosts
from conductor.services.hosts.types import ServiceView
from portal.api.compute.schemas.services import UPDATE
from portal.pages.hosts.aggregates import host_link
from portal.pages.resources import columns
from portal.pages.resources.fields import REASON
from portal.pages.resources.model import (
    Call,
    Cell,
    Column,
    Item,
    ItemReader,
    Names,
    Query,
    Resource,
    ResourceAction,
    SubmittedForm,
)
from portal.pages.status_badges import StatusBadge

PATH = "/compute/v2.1/os-services"
COMPUTE = "nova-compute"
BINARY_WORDS = {COMPUTE: "compute host", "nova-conductor": "conductor", "nova-scheduler": "scheduler"}
STATES = {"up": StatusBadge("good", "up"), "down": StatusBadge("bad", "down")}
STATUSES = {"enabled": StatusBadge("good", "open"), "disabled": StatusBadge("waiting", "closed")}


def _at(form: SubmittedForm) -> str:
    return f"{PATH}/{form.item.get('id', 'ID')}"


def _put(form: SubmittedForm, **body: Any) -> Call:
    return Call("PUT", _at(form), body)


def _item(service: ServiceView) -> Item:
    if not service.is_known:
        return {"binary": service.binary, "host": service.host, "status": "UNKNOWN"}
    same = {name: getattr(service, name) for name in ("binary", "host", "zone", "disabled_reason")}
    return {
        **same,
        "id": service.uuid,
        "status": "disabled" if service.is_disabled else "enabled",
        "state": "up" if service.is_up else "down",
        "updated_at": service.last_seen_at,
        "forced_down": service.is_forced_down,
    }


def _list(caller: RequestContext, query: Query) -> Page[Item]:
    found = hosts.list_services(caller, binary=query.get("binary", ""))
    return Page([_item(one) for one in found.items], missing_cells=found.missing_cells)


def _get(caller: RequestContext, ident: str) -> Item:
    return _item(hosts.get_service(caller, ident))


def _disable(caller: RequestContext, form: SubmittedForm) -> Item:
    return _set(caller, form, is_disabled=True, disabled_reason=form.body["disabled_reason"])


def _enable(caller: RequestContext, form: SubmittedForm) -> Item:
    return _set(caller, form, is_disabled=False, disabled_reason=None)


def _set(caller: RequestContext, form: SubmittedForm, **values: Any) -> Item:
    return _item(enabling.update(caller, hosts.get_service(caller, str(form.item["id"])), **values))


def _forget(caller: RequestContext, form: SubmittedForm) -> None:
    enabling.delete(caller, hosts.get_service(caller, str(form.item["id"])))


def _name(item: Item) -> str:
    return f"{BINARY_WORDS.get(str(item.get('binary')), item.get('binary'))} {item.get('host')}"


def _only_hosts(item: Item) -> str:
    return "" if item.get("binary") == COMPUTE else "Only compute hosts can be disabled for scheduling."


def _host(item: Item, names: Names) -> Cell:
    return host_link(str(item["host"])) if item.get("binary") == COMPUTE else Cell("text", str(item["host"]))


def _cli(form: SubmittedForm, *flags: str) -> list[str]:
    return [
        "openstack compute service set",
        *flags,
        str(form.item.get("host", "HOST")),
        str(form.item.get("binary", COMPUTE)),
    ]


SERVICES = Resource(
    id="services",
    noun="service",
    title="Services",
    icon="workflow",
    service="compute",
    one="service",
    rule="os_compute_api:os-services:list",
    is_paged=False,
    is_for_operators=True,
    is_only_listed=True,
    reader=ItemReader(_list, _get),
    list_route="service-list",
    empty="Conductors and compute hosts appear after their first report.",
    id_of=lambda item: str(item.get("id") or ""),
    name_of=_name,
    columns=(
        Column("Service", lambda item, names: Cell("text", _name(item))),
        Column("Host", _host),
        Column("State", columns.state(STATES, "state")),
        Column("Scheduling", columns.state(STATUSES)),
        Column("Disabled reason", columns.text("disabled_reason")),
        Column("Zone", columns.text("zone")),
        Column("Last report", columns.age("updated_at")),
        Column("Marked as powered off", columns.yes("forced_down")),
    ),
    actions=(
        ResourceAction(
            id="disable",
            title="Disable",
            does="New servers aren't scheduled to the host. Existing servers stay and keep running.",
            rule="os_compute_api:os-services:update",
            is_bulk=True,
            why_not=lambda item: (
                _only_hosts(item) or ("Scheduling is already disabled." if item["status"] == "disabled" else "")
            ),
            fields=(REASON,),
            call=lambda form: _put(form, status="disabled", disabled_reason=form.values["reason"].strip() or "REASON"),
            schema=UPDATE,
            execute=_disable,
            cli=lambda form: _cli(form, "--disable", "--disable-reason", form.values.get("reason") or "REASON"),
        ),
        ResourceAction(
            id="enable",
            title="Enable",
            does="The scheduler can place servers on the host again.",
            rule="os_compute_api:os-services:update",
            is_bulk=True,
            why_not=lambda item: _only_hosts(item) or ("Scheduling is enabled." if item["status"] == "enabled" else ""),
            call=lambda form: _put(form, status="enabled"),
            execute=_enable,
            cli=lambda form: _cli(form, "--enable"),
        ),
        ResourceAction(
            id="forget",
            title="Remove service",
            does=(
                "Removes a service that is gone for good, and a host from its cell and aggregates. A service "
                "that still runs reappears when it reports."
            ),
            rule="os_compute_api:os-services:delete",
            is_danger=True,
            icon="trash",
            why_not=lambda item: "The service is up. Stop it first." if item["state"] == "up" else "",
            fields=(REASON,),
            call=lambda form: Call("DELETE", _at(form)),
            execute=_forget,
            cli=lambda form: ["openstack compute service delete", str(form.item.get("id", "ID"))],
        ),
    ),
)
