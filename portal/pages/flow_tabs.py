"""The tabs of a workflow's page: the template of each, and what it shows beside the workflow itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import get_language, gettext

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.services import audit, event_windows, lock_views, run_data, step_logs
from conductor.services.audit import AuditQuery
from conductor.services.event_windows import EventWindow
from conductor.services.step_logs import LEVELS, LogQuery
from conductor.services.values import EventView
from portal.pages import faces, graph, migrations, moments, placement, waits
from portal.pages.stories import Story
from portal.pages.told import told

MOST_AUDITED = 21  # a request and its first children
MOST_SHOWN_INPUTS = 21
MOST_EVENTS = 200  # in a window of them
BEFORE_A_MOMENT = 5  # so that what led to it can be read


@dataclass(frozen=True)
class Asked:
    """What a tab is asked for: who asks, the story as of the moment that the address names, and the address."""

    asker: RequestContext
    story: Story
    query: Mapping[str, str]
    is_tail: bool = False  # only what may be new of what grows at its end


def no_extra(asked: Asked) -> dict[str, Any]:
    return {}


def moved(asked: Asked) -> dict[str, Any]:
    """Of a workflow that moves a guest while it runs, how that goes on."""
    return migrations.context_of(asked.asker, asked.story)


def placed(asked: Asked) -> dict[str, Any]:
    return placement.context_of(asked.asker, asked.story, asked.query)


def drawn(asked: Asked) -> dict[str, Any]:
    return {"graph": graph.draw(asked.story.view, is_open=asked.query.get("open") == "1")}


def locks(asked: Asked) -> dict[str, Any]:
    """Held and waited for; who owns the work; what was kept out; who waits for whom."""
    story = asked.story
    view = lock_views.of_runs(asked.asker, story.runs)
    named = [*story.runs, *(one.holder for one in view.awaited if one.holder)]
    leases = {lease.run_uuid: lease for lease in view.leases}
    owners = [{"run": run, "face": faces.of_run(run), "lease": leases.get(run.uuid)} for run in story.runs]
    return {
        "locks": view,
        "titles": {run.uuid: waits.name_of(run) for run in named},
        "owners": owners,
        "names": waits.names_of(view),
        "wait_graph": waits.draw(view, story),
    }  # fmt: skip


def logged(asked: Asked) -> dict[str, Any]:
    """Lines, narrowed by what the address names. Raises Invalid for a level that there is none of."""
    most = step_logs.TAIL if asked.is_tail else step_logs.MOST_LINES
    return log_context(asked.asker, asked.story, asked.query, most) | {"is_tail": asked.is_tail}


def log_context(
    asker: RequestContext, story: Story, given: Mapping[str, str], most: int = step_logs.MOST_LINES
) -> dict[str, Any]:
    """The log of a story, and the ways to narrow it. Raises Invalid."""
    level = given.get("level", "")
    if level and level not in LEVELS:
        raise Invalid(f"level is one of {', '.join(LEVELS)}.", field="level")
    run_uuid, name, title = _step_of(story, given.get("step", ""))
    query = LogQuery(
        level=level,
        component=given.get("component", ""),
        host=given.get("host", ""),
        run_uuid=run_uuid,
        step=name,
        line=_line(given.get("line", "")),
    )
    log = step_logs.read(asker, story.runs, query, most)
    kept = {key: given[key] for key in ("level", "component", "host", "step") if given.get(key)}
    return {
        "log": log,
        "levels": LEVELS,
        "asked": {"level": level, "component": query.component, "host": query.host, "step": given.get("step", "")},
        "step_title": title,
        "is_narrowed": bool(kept),
        "newest_url": f"?{urlencode(kept)}",
        "raw_url": f"{reverse('workflow-log', args=[story.uuid])}?{urlencode(kept)}",
        "of": {run.uuid: run.instance_name for run in story.view.children} if len(story.view.children) > 1 else {},
    }


def _line(text: str) -> int:
    """The line that an address names; 0 for none."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise Invalid("line is the number of a line of the log.", field="line")
    return int(text)


def _step_of(story: Story, key: str) -> tuple[str, str, str]:
    """Run, name and title of the step that an address names; empty for none or for one that is not there."""
    for row in story.timeline.rows:
        if key and row.key == key and row.step is not None:
            run = next(run for run in story.runs if key.startswith(run.uuid[:8]))
            return run.uuid, row.step.name, row.step.title
    return "", "", ""


def happened(asked: Asked) -> dict[str, Any]:
    """The events in order: those around the moment or from the place that the address names, or the newest."""
    story = asked.story
    begin, place = (moments.place_of(asked.query.get(name, ""), name) for name in ("from", "as_of"))
    first = begin or (max(1, place - BEFORE_A_MOMENT) if place else 0)
    window = event_windows.read(asked.asker, story.runs, first=first, size=MOST_EVENTS)
    titles = {step.name: step.title for run in story.runs for step in run.steps}
    of = {run.uuid: run.instance_name for run in story.view.children} if len(story.view.children) > 1 else {}
    rows = []
    for number, event in enumerate(window.events, start=window.first):
        name = event.data.get("step", "")
        rows.append(
            {
                "place": number,
                "view": event,
                "step": titles.get(name, name),
                "words": _words(event),
                "of": of.get(event.run_uuid),
            }
        )
    return {"events": rows, "window": _neighbours(window, place)}


def _neighbours(window: EventWindow, place: int) -> dict[str, Any]:
    """Which events a window shows of how many, and where those before and after it are."""
    last = window.first + len(window.events) - 1
    kept = {"as_of": str(place)} if place else {}
    before, after = max(1, window.first - MOST_EVENTS), last + 1
    is_newest = after + MOST_EVENTS > window.total and not place
    return {
        "first": window.first,
        "last": last,
        "total": window.total,
        "before_url": f"?{urlencode({'from': before, **kept})}" if window.first > 1 else "",
        "after_url": (f"?{urlencode({'from': after, **kept})}" if not is_newest else "?")
        if last < window.total
        else "",
    }


def _words(event: EventView) -> str:
    """What an event says beside its kind and step."""
    data = event.data
    said = []
    if isinstance(data.get("error"), Mapping):
        said.append(told(str(data["error"].get("message", "")), get_language() or "en"))
    if isinstance(data.get("waits_for"), Mapping):
        what = [str(data["waits_for"][name]) for name in ("cause", "detail") if data["waits_for"].get(name)]
        said.append(told(f"parked: waits for {' '.join(what)}", get_language() or "en"))
    if isinstance(data.get("progress"), Mapping):
        said.append(told(str(data["progress"].get("message", "")), get_language() or "en"))
    said += [gettext(str(data[name])) for name in ("intervention", "by", "state") if data.get(name)]
    said += [str(data[name]) for name in ("reason", "message", "owner", "host") if data.get(name)]
    if data.get("attempt", 1) > 1:
        said.append(gettext("attempt %(attempt)s") % {"attempt": data["attempt"]})
    return " · ".join(filter(None, said))


def given(asked: Asked) -> dict[str, Any]:
    """What went in and what came out, of each run."""
    shown = asked.story.runs[:MOST_SHOWN_INPUTS]
    return {
        "data": [
            {
                "run": run,
                "title": f"{faces.intent(run)} {run.instance_name}" if run.cell else faces.intent(run),
                "data": run_data.of_run(asked.asker, run.uuid),
            }
            for run in shown
        ],
        "not_shown": len(asked.story.runs) - len(shown),
    }


def audited(asked: Asked) -> dict[str, Any]:
    """What was done to the workflow by order, and what was refused."""
    found = [
        record
        for run in asked.story.runs[:MOST_AUDITED]
        for record in audit.list_records(asked.asker, AuditQuery(run_uuid=run.uuid)).items
    ]
    return {"records": sorted(found, key=lambda record: record.created_at, reverse=True)}


def at_moment(asker: RequestContext, story: Story, tab: str, text: str) -> tuple[Story, dict[str, Any]]:
    """The story as of the event that an address names, and the slider over its events, on tabs that have one."""
    if tab not in REPLAYED or (not text and tab != "events"):
        return story, {"may_replay": tab in REPLAYED}
    place = moments.place_of(text, "as_of")
    moment = event_windows.read(asker, story.runs, first=place, size=1)
    count = moment.total
    if place > max(count, 1):
        raise Invalid(f"as_of is the place of an event: a number from 1 to {count}.", field="as_of")
    slider: dict[str, Any] = {"count": count, "place": place or count, "is_past": 0 < place < count}
    if slider["is_past"] and moment.events:
        event = moment.events[0]
        slider |= {"event": event, "before": max(1, place - 1), "after": place + 1}
        story = moments.as_of(story, event_windows.standing(asker, story.runs, moment), event.created_at)
    return story, {"slider": slider}


Extra = Callable[[Asked], dict[str, Any]]
TABS: Mapping[str, tuple[str, str, Extra]] = {
    "timeline": ("Timeline", "workflows/_timeline_tab.html", moved),
    "graph": ("Graph", "workflows/_graph.html", drawn),
    "steps": ("Steps", "workflows/_steps.html", no_extra),
    "placement": ("Placement", "workflows/_placement.html", placed),
    "locks": ("Locks", "workflows/_locks.html", locks),
    "logs": ("Logs", "workflows/_logs.html", logged),
    "events": ("Events", "workflows/_events.html", happened),
    "data": ("Input/Output", "workflows/_data.html", given),
    "audit": ("Audit", "workflows/_audit.html", audited),
}
REPLAYED = frozenset({"timeline", "graph", "steps", "events"})
