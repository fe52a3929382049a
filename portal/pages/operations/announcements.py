"""Announcements, which operators show on all users' home pages."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from conductor.core.context import RequestContext
from conductor.core.page import Page
from conductor.services.operations import announcements
from portal.pages.resources import columns
from portal.pages.resources.fields import REASON, own
from portal.pages.resources.model import (
    Call,
    Column,
    Field,
    FieldOption,
    Item,
    ItemReader,
    Query,
    Resource,
    ResourceAction,
    SubmittedForm,
)
from portal.pages.status_badges import StatusBadge

PATH = "/api/announcements"
BADGES = {
    "active": StatusBadge("good", "active"),
    "planned": StatusBadge("waiting", "planned"),
    "ended": StatusBadge("none", "ended"),
}
SEVERITIES = (FieldOption("info", "Info"), FieldOption("warning", "Warning"), FieldOption("critical", "Critical"))
SEVERITY_BADGES = {
    "info": StatusBadge("none", "info"),
    "warning": StatusBadge("waiting", "warning"),
    "critical": StatusBadge("bad", "critical"),
}


def _time(name: str, item: Item) -> str:
    """Return the value of a time field: in UTC, to the minute."""
    moment = columns.moment_of(item.get(name))
    return moment.strftime("%Y-%m-%dT%H:%M") if moment else ""


FIELDS = (
    own("title", "Title", is_required=True),
    own("text", "Details", kind="area"),
    Field("severity", "Severity", "choice", choices=SEVERITIES, start=lambda item: str(item.get("severity") or "info")),
    Field(
        "begins_at",
        "Starts (UTC)",
        "time",
        start=lambda item: _time("begins_at", item),
        help="Leave empty to publish now.",
    ),
    Field(
        "ends_at",
        "Ends (UTC)",
        "time",
        start=lambda item: _time("ends_at", item),
        help="Leave empty to show it until you withdraw it.",
    ),
)


def _values(form: SubmittedForm) -> dict[str, Any]:
    times = {name: form.values.get(name) or None for name in ("begins_at", "ends_at")}
    return {**{name: form.values[name] for name in ("title", "text", "severity")}, **times}


def _body(form: SubmittedForm) -> dict[str, object]:
    return {"announcement": _values(form)}


def _list(caller: RequestContext, query: Query) -> Page[Item]:
    found = announcements.list_of(
        caller, of_all_times=True, limit=query.get("limit", announcements.DEFAULT_LIMIT), marker=query.get("marker", "")
    )
    return Page([asdict(one) for one in found.items], found.has_more)


def _withdraw(caller: RequestContext, form: SubmittedForm) -> None:
    announcements.withdraw(caller, form.item["uuid"])


def _command(method: str, path: str) -> list[str]:
    return ["curl", "-X", method, "-H", "X-Auth-Token: TOKEN", "-H", "Content-Type: application/json", path]


def _path(form: SubmittedForm) -> str:
    return f"{PATH}/{form.item.get('uuid', 'ID')}"


ANNOUNCEMENTS = Resource(
    id="news",
    noun="announcement",
    title="News",
    icon="bell",
    service="novella",
    one="announcement",
    rule="novella:announcements:list",
    reader=ItemReader(_list, lambda caller, ident: asdict(announcements.get(caller, ident))),
    is_for_operators=True,
    empty="Announcements appear on the home page of all users, for example for maintenance or outages.",
    id_of=lambda item: str(item["uuid"]),
    name_of=lambda item: str(item.get("title") or ""),
    columns=(
        Column("Title", columns.text("title")),
        Column("State", columns.state(BADGES, "state")),
        Column("Severity", columns.text("severity", words={one.value: one.words for one in SEVERITIES})),
        Column("From", columns.time("begins_at")),
        Column("Until", columns.time("ends_at")),
        Column("By", columns.text("author")),
        Column("Details", columns.text("text"), is_in_list=False),
    ),
    actions=(
        ResourceAction(
            id="create",
            title="Publish announcement",
            does="Visible on the home page of all signed-in users.",
            rule="novella:announcements:change",
            is_creation=True,
            icon="plus",
            fields=FIELDS,
            call=lambda form: Call("POST", PATH, _body(form)),
            execute=lambda caller, form: asdict(announcements.announce(caller, _values(form))),
            cli=lambda form: [*_command("POST", PATH), "-d", Call("POST", PATH, _body(form)).body_text],
        ),
        ResourceAction(
            id="edit",
            title="Change",
            does="Changes the text or the time.",
            rule="novella:announcements:change",
            fields=FIELDS,
            call=lambda form: Call("PATCH", _path(form), _body(form)),
            execute=lambda caller, form: asdict(announcements.change(caller, form.item["uuid"], _values(form))),
            cli=lambda form: [*_command("PATCH", _path(form)), "-d", Call("PATCH", PATH, _body(form)).body_text],
        ),
        ResourceAction(
            id="delete",
            title="Withdraw",
            does="The announcement is no longer shown.",
            rule="novella:announcements:change",
            is_danger=True,
            is_bulk=True,
            icon="trash",
            fields=(REASON,),
            call=lambda form: Call("DELETE", _path(form)),
            execute=_withdraw,
            cli=lambda form: _command("DELETE", _path(form)),
        ),
    ),
)
