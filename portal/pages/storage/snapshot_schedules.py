"""Snapshot schedules: recurring backups of servers and snapshots of volumes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from django.utils.translation import gettext

from conductor.core.context import RequestContext
from conductor.core.page import Page
from conductor.core.recurrence import DAY, HOURS, STEPS, WEEK
from conductor.services.servers import snapshot_schedules
from conductor.services.servers.snapshot_schedules import SnapshotScheduleRequest
from portal.pages.resources import columns
from portal.pages.resources.fields import whole
from portal.pages.resources.model import (
    Call,
    Cell,
    Column,
    Field,
    FieldOption,
    Item,
    ItemReader,
    Names,
    Query,
    Resource,
    ResourceAction,
    SubmittedForm,
)
from portal.pages.server_items import SERVERS
from portal.pages.status_badges import StatusBadge
from portal.pages.storage.volumes import VOLUMES

PATH = "/api/snapshot-schedules"
BADGES = {
    "planned": StatusBadge("none", "planned"),
    "waiting": StatusBadge("waiting", "waiting"),
    "running": StatusBadge("working", "in progress"),
    "done": StatusBadge("good", "taken"),
    "failed": StatusBadge("bad", "failed"),
    "skipped": StatusBadge("bad", "left out"),
    "ended": StatusBadge("bad", "ended"),
}
WEEKDAY_CHOICES = (
    FieldOption("monday", "Monday"),
    FieldOption("tuesday", "Tuesday"),
    FieldOption("wednesday", "Wednesday"),
    FieldOption("thursday", "Thursday"),
    FieldOption("friday", "Friday"),
    FieldOption("saturday", "Saturday"),
    FieldOption("sunday", "Sunday"),
)
DAY_WORDS = {one.value: one.words for one in WEEKDAY_CHOICES}


KEEP = Field(
    "keep",
    "Copies to keep",
    "number",
    is_required=True,
    start="7",
    least=1,
    most=100,
    help="Older copies are deleted after a new one is complete.",
)


def _times(item: Item) -> list[FieldOption]:
    several = [(step, gettext("Every %(hours)s hours") % {"hours": step}) for step in STEPS[:0:-1]]
    hours = [FieldOption(f"{HOURS}-{step}", words) for step, words in (*several, (1, gettext("Every hour")))]
    return [FieldOption(DAY, gettext("Every day")), FieldOption(WEEK, gettext("Every week")), *hours]


def when(item: Item) -> str:
    """Return "Every day at 02:00 (Europe/Berlin)", in the language of the page."""
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
    return Cell("link", uuid[:8], url=f"/workflows/{uuid}") if uuid else columns.NOTHING


def _fields(kind: str, label: str, source: Any) -> tuple[Field, ...]:
    return (
        Field(kind, label, "choice", choices=source, is_required=True),
        Field("every", "Frequency", "choice", choices=_times, is_required=True, also=("hours",)),
        Field("weekday", "Weekday", "choice", choices=WEEKDAY_CHOICES, help="For weekly schedules."),
        Field("at", "Time of day", start="02:00", is_required=True, help="In your time zone, for example 02:30."),
        KEEP,
    )


def _values(kind: str, form: SubmittedForm) -> dict[str, Any]:
    values = form.values
    every, _, hours = values.get("every", DAY).partition("-")
    more: dict[str, Any] = {"hours": whole(hours)} if hours else {}
    if every == WEEK:
        more["weekday"] = values.get("weekday", WEEKDAY_CHOICES[0].value)
    details = {"every": every, **more, "at": values.get("at", ""), "keep": whole(values.get("keep", ""))}
    return {kind: values.get(kind, ""), **details}


def _body(kind: str) -> Callable[[SubmittedForm], Call]:
    return lambda form: Call("POST", PATH, {"snapshot_schedule": _values(kind, form)})


def _schedule(kind: str) -> Callable[[RequestContext, SubmittedForm], Item]:
    def execute(caller: RequestContext, form: SubmittedForm) -> Item:
        requested = SnapshotScheduleRequest.parse(_values(kind, form))
        return asdict(snapshot_schedules.schedule(caller, requested))

    return execute


def _list(caller: RequestContext, query: Query) -> Page[Item]:
    kind = next((kind for kind in snapshot_schedules.SUBJECTS if query.get(kind)), "")
    found = snapshot_schedules.list_of(
        caller, kind=kind, subject_uuid=query.get(kind, ""), limit=query["limit"], marker=query.get("marker", "")
    )
    return Page([asdict(one) for one in found.items], found.has_more)


def _remove(caller: RequestContext, form: SubmittedForm) -> None:
    snapshot_schedules.delete(caller, form.item["uuid"])


def _command(call: Call) -> list[str]:
    words = ["curl", "-X", call.method, "-H", "X-Auth-Token: TOKEN", "-H", "Content-Type: application/json", call.path]
    return [*words, "-d", call.body_text] if call.body else words


def _creation(kind: str, title: str, does: str, fields: tuple[Field, ...]) -> ResourceAction:
    return ResourceAction(
        id=f"of-{kind}",
        title=title,
        does=does,
        rule="novella:snapshot_schedules:change",
        is_creation=True,
        icon="plus",
        fields=fields,
        call=_body(kind),
        execute=_schedule(kind),
        cli=lambda form: _command(_body(kind)(form)),
    )


def _delete(form: SubmittedForm) -> Call:
    return Call("DELETE", f"{PATH}/{form.item.get('uuid', 'ID')}")


SCHEDULES = Resource(
    id="snapshot-schedules",
    noun="schedule",
    title="Snapshot schedules",
    icon="clock",
    service="novella",
    one="snapshot_schedule",
    rule="novella:snapshot_schedules:list",
    reader=ItemReader(_list, lambda caller, ident: asdict(snapshot_schedules.get(caller, ident))),
    empty="A schedule regularly backs up a server's disk or a volume's data and deletes the oldest copies.",
    id_of=lambda item: str(item["uuid"]),
    name_of=lambda item: f"{item['subject_name'] or item['subject_uuid'][:8]}: {when(item)}",
    columns=(
        Column("Schedule", lambda item, names: Cell("text", when(item))),
        Column("Source", _subject, is_in_list=False),
        Column("State", columns.state(BADGES, "state")),
        Column("Reason", columns.text("reason")),
        Column("Next", columns.time("next_at")),
        Column("Last", columns.age("last_at"), is_number=True),
        Column("Kept", columns.number("keep"), is_number=True),
        Column("Workflow", _run, is_in_list=False),
        Column("By", columns.text("user_name"), is_in_list=False),
    ),
    actions=(
        _creation(
            "server",
            "Schedule backups of a server",
            "Creates images of its disk in your name, while you are a member of the project.",
            _fields("server", "Server", SERVERS),
        ),
        _creation(
            "volume",
            "Schedule snapshots of a volume",
            "Creates snapshots of its data in your name, while you are a member of the project.",
            _fields("volume", "Volume", VOLUMES),
        ),
        ResourceAction(
            id="delete",
            title="Delete",
            does="The schedule stops. Snapshots and backups it has created stay.",
            rule="novella:snapshot_schedules:change",
            is_danger=True,
            is_bulk=True,
            icon="trash",
            call=_delete,
            execute=_remove,
            cli=lambda form: _command(_delete(form)),
        ),
    ),
)
