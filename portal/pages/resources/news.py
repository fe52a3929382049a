"""News of the cloud: what operators tell everybody on their home page."""

from __future__ import annotations

from portal.pages.api_calls import Call
from portal.pages.faces import Face
from portal.pages.resources import cells
from portal.pages.resources.fields import REASON, own
from portal.pages.resources.model import Asked, Choice, Column, Deed, Field, Item, Resource

PATH = "/api/announcements"
FACES = {"told": Face("good", "told now"), "planned": Face("waiting", "planned"), "over": Face("none", "over")}
SEVERITIES = (Choice("info", "Good to know"), Choice("warning", "Warning"), Choice("critical", "Critical"))
SEVERITY_FACES = {
    "info": Face("none", "good to know"),
    "warning": Face("waiting", "warning"),
    "critical": Face("bad", "critical"),
}


def _time(name: str, item: Item) -> str:
    """As a form has it: in UTC, to the minute."""
    moment = cells.moment_of(item.get(name))
    return moment.strftime("%Y-%m-%dT%H:%M") if moment else ""


FIELDS = (
    own("title", "Title", is_required=True),
    own("text", "What there is to know", kind="area"),
    Field("severity", "Severity", "choice", choices=SEVERITIES, start=lambda item: str(item.get("severity") or "info")),
    Field(
        "begins_at",
        "From (UTC)",
        "time",
        start=lambda item: _time("begins_at", item),
        help="Left empty, from now on.",
    ),
    Field(
        "ends_at",
        "Until (UTC)",
        "time",
        start=lambda item: _time("ends_at", item),
        help="Left empty, until it is withdrawn.",
    ),
)


def _body(asked: Asked) -> dict[str, object]:
    values = asked.values
    times = {name: values.get(name) or None for name in ("begins_at", "ends_at")}
    return {"announcement": {**{name: values[name] for name in ("title", "text", "severity")}, **times}}


def _command(method: str, path: str) -> list[str]:
    return ["curl", "-X", method, "-H", "X-Auth-Token: TOKEN", "-H", "Content-Type: application/json", path]


def _path(asked: Asked) -> str:
    return f"{PATH}/{asked.item.get('uuid', 'ID')}"


ANNOUNCEMENTS = Resource(
    id="news",
    noun="announcement",
    title="News",
    icon="bell",
    service="own",
    path=PATH,
    key="announcements",
    one="announcement",
    rule="novella:announcements:list",
    query={"all": "true"},
    is_for_operators=True,
    empty="What you announce stands on everybody's home page: maintenance, trouble, or what is new.",
    id_of=lambda item: str(item["uuid"]),
    name_of=lambda item: str(item.get("title") or ""),
    columns=(
        Column("Title", cells.text("title")),
        Column("State", cells.state(FACES, "state")),
        Column("Severity", cells.text("severity", words={one.value: one.words for one in SEVERITIES})),
        Column("From", cells.time("begins_at")),
        Column("Until", cells.time("ends_at")),
        Column("By", cells.text("author")),
        Column("What there is to know", cells.text("text"), is_in_list=False),
    ),
    deeds=(
        Deed(
            id="create",
            title="Announce",
            does="Everybody who is signed in reads it on their home page.",
            rule="novella:announcements:change",
            is_creation=True,
            icon="plus",
            fields=FIELDS,
            call=lambda asked: Call("POST", PATH, _body(asked)),
            cli=lambda asked: [*_command("POST", PATH), "-d", Call("POST", PATH, _body(asked)).body_text],
        ),
        Deed(
            id="edit",
            title="Change",
            does="Say it otherwise, or for another time.",
            rule="novella:announcements:change",
            fields=FIELDS,
            call=lambda asked: Call("PATCH", _path(asked), _body(asked)),
            cli=lambda asked: [*_command("PATCH", _path(asked)), "-d", Call("PATCH", PATH, _body(asked)).body_text],
        ),
        Deed(
            id="delete",
            title="Withdraw",
            does="It is told no longer.",
            rule="novella:announcements:change",
            is_danger=True,
            is_bulk=True,
            icon="trash",
            fields=(REASON,),
            call=lambda asked: Call("DELETE", _path(asked)),
            cli=lambda asked: _command("DELETE", _path(asked)),
        ),
    ),
)
