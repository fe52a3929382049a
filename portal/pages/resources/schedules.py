"""Snapshots that come round: backups of servers and snapshots of volumes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.utils.translation import gettext

from conductor.core.recurrence import DAY, HOURS, STEPS, WEEK
from portal.pages.api_calls import Call
from portal.pages.faces import Face
from portal.pages.resources import cells
from portal.pages.resources.fields import SERVERS, VOLUMES, whole
from portal.pages.resources.model import Asked, Cell, Choice, Column, Deed, Field, Item, Names, Resource

PATH = "/api/snapshot-schedules"
FACES = {
    "planned": Face("none", "planned"),
    "waiting": Face("waiting", "waiting"),
    "running": Face("working", "being taken"),
    "done": Face("good", "taken"),
    "failed": Face("bad", "failed"),
    "skipped": Face("bad", "left out"),
    "ended": Face("bad", "ended"),
}
WEEKDAY_CHOICES = (
    Choice("monday", "Monday"),
    Choice("tuesday", "Tuesday"),
    Choice("wednesday", "Wednesday"),
    Choice("thursday", "Thursday"),
    Choice("friday", "Friday"),
    Choice("saturday", "Saturday"),
    Choice("sunday", "Sunday"),
)
DAY_WORDS = {one.value: one.words for one in WEEKDAY_CHOICES}


KEEP = Field(
    "keep",
    "How many to keep",
    "number",
    is_required=True,
    start="7",
    least=1,
    most=100,
    help="The oldest go once a new one is whole.",
)


def _times(item: Item) -> list[Choice]:
    several = [(step, gettext("Every %(hours)s hours") % {"hours": step}) for step in STEPS[:0:-1]]
    hours = [Choice(f"{HOURS}-{step}", words) for step, words in (*several, (1, gettext("Every hour")))]
    return [Choice(DAY, gettext("Every day")), Choice(WEEK, gettext("Every week")), *hours]


def when(item: Item) -> str:
    """ "Every day at 02:00 (Europe/Berlin)", in the language of the page."""
    values = {"at": item["at"], "hours": item["hours"], "zone": item["time_zone"]}
    if item["every"] == WEEK:
        day = DAY_WORDS[item["weekday"]]
        values["day"] = gettext(day)
        return gettext("%(day)s at %(at)s (%(zone)s)") % values
    if item["every"] == HOURS:
        text = gettext("Every %(hours)s hours from %(at)s (%(zone)s)")
        return (gettext("Every hour from %(at)s (%(zone)s)") if item["hours"] == 1 else text) % values
    return gettext("Every day at %(at)s (%(zone)s)") % values


def _subject(item: Item, names: Names) -> Cell:
    url = f"/servers/{item['subject_uuid']}/snapshots"
    if item["kind"] == "volume":
        url = f"/volumes/of/{item['subject_uuid']}"
    return Cell("link", item["subject_name"] or item["subject_uuid"][:8], url=url)


def _run(item: Item, names: Names) -> Cell:
    uuid = item["run_uuid"]
    return Cell("link", uuid[:8], url=f"/workflows/{uuid}") if uuid else cells.NOTHING


def _fields(kind: str, label: str, source: Any) -> tuple[Field, ...]:
    return (
        Field(kind, label, "choice", choices=source, is_required=True),
        Field("every", "How often", "choice", choices=_times, is_required=True, also=("hours",)),
        Field("weekday", "Weekday", "choice", choices=WEEKDAY_CHOICES, help="Of those that come every week."),
        Field("at", "At", start="02:00", is_required=True, help="By the clock of your time zone, such as 02:30."),
        KEEP,
    )


def _body(kind: str) -> Callable[[Asked], Call]:
    def call(asked: Asked) -> Call:
        values = asked.values
        every, _, hours = values.get("every", DAY).partition("-")
        more: dict[str, Any] = {"hours": whole(hours)} if hours else {}
        if every == WEEK:
            more["weekday"] = values.get("weekday", WEEKDAY_CHOICES[0].value)
        said = {"every": every, **more, "at": values.get("at", ""), "keep": whole(values.get("keep", ""))}
        return Call("POST", PATH, {"snapshot_schedule": {kind: values.get(kind, ""), **said}})

    return call


def _command(call: Call) -> list[str]:
    words = ["curl", "-X", call.method, "-H", "X-Auth-Token: TOKEN", "-H", "Content-Type: application/json", call.path]
    return [*words, "-d", call.body_text] if call.body else words


def _creation(kind: str, title: str, does: str, fields: tuple[Field, ...]) -> Deed:
    return Deed(
        id=f"of-{kind}",
        title=title,
        does=does,
        rule="novella:snapshot_schedules:change",
        is_creation=True,
        icon="plus",
        fields=fields,
        call=_body(kind),
        cli=lambda asked: _command(_body(kind)(asked)),
    )


def _delete(asked: Asked) -> Call:
    return Call("DELETE", f"{PATH}/{asked.item.get('uuid', 'ID')}")


SCHEDULES = Resource(
    id="snapshot-schedules",
    noun="schedule",
    title="Snapshot schedules",
    icon="clock",
    service="own",
    path=PATH,
    key="snapshot_schedules",
    one="snapshot_schedule",
    rule="novella:snapshot_schedules:list",
    empty="A schedule keeps a server's disk or a volume's data again and again, and lets the oldest go.",
    id_of=lambda item: str(item["uuid"]),
    name_of=lambda item: f"{item['subject_name'] or item['subject_uuid'][:8]}: {when(item)}",
    columns=(
        Column("Schedule", lambda item, names: Cell("text", when(item))),
        Column("Of", _subject, is_in_list=False),
        Column("State", cells.state(FACES, "state")),
        Column("Why", cells.text("reason")),
        Column("Next", cells.time("next_at")),
        Column("Last", cells.age("last_at"), is_number=True),
        Column("Kept", cells.number("keep"), is_number=True),
        Column("Workflow", _run, is_in_list=False),
        Column("By", cells.text("user_name"), is_in_list=False),
    ),
    deeds=(
        _creation(
            "server",
            "Schedule backups of a server",
            "Images of its disk, made in your name as long as you may work in the project.",
            _fields("server", "Server", SERVERS),
        ),
        _creation(
            "volume",
            "Schedule snapshots of a volume",
            "Snapshots of its data, taken in your name as long as you may work in the project.",
            _fields("volume", "Volume", VOLUMES),
        ),
        Deed(
            id="delete",
            title="Delete",
            does="It comes round no more; what it has kept stays.",
            rule="novella:snapshot_schedules:change",
            is_danger=True,
            is_bulk=True,
            icon="trash",
            call=_delete,
            cli=lambda asked: _command(_delete(asked)),
        ),
    ),
)
