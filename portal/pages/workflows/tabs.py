"""Tabs of a workflow's page: the template of each, and its context besides the workflow itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.core.messages import message, text_of
from conductor.services.audit import audit
from conductor.services.audit.audit import AuditQuery
from conductor.services.workflows import event_windows, lock_waits, run_data, step_logs
from conductor.services.workflows.event_windows import EventWindow
from conductor.services.workflows.step_logs import LEVELS, LogQuery
from conductor.services.workflows.types import EventView
from portal.pages import status_badges
from portal.pages.scheduling import placement
from portal.pages.timeline import history
from portal.pages.timeline.presenter import WorkflowPresenter
from portal.pages.wording import action_on, translated
from portal.pages.workflows import graph, live_migrations, waits

MOST_AUDITED = 21  # a request and its first children
MOST_SHOWN_INPUTS = 21
MOST_EVENTS = 200  # per page of events
BEFORE_A_MOMENT = 5  # events to show before the selected one


@dataclass(frozen=True)
class TabRequest:
    """The request for a tab: the caller, the workflow as of the requested moment, and the address."""

    caller: RequestContext
    presenter: WorkflowPresenter
    query: Mapping[str, str]
    is_tail: bool = False  # only the newest part of growing lists


def no_extra(tab: TabRequest) -> dict[str, Any]:
    return {}


def migration_tab(tab: TabRequest) -> dict[str, Any]:
    """Context of a live migration's progress."""
    return live_migrations.context_of(tab.caller, tab.presenter)


def placement_tab(tab: TabRequest) -> dict[str, Any]:
    return placement.context_of(tab.caller, tab.presenter, tab.query)


def graph_tab(tab: TabRequest) -> dict[str, Any]:
    return {"graph": graph.draw(tab.presenter.view, is_open=tab.query.get("open") == "1")}


def locks_tab(tab: TabRequest) -> dict[str, Any]:
    """Context of locks held and awaited, owners, fenced writes, and the wait graph."""
    presenter = tab.presenter
    view = lock_waits.of_runs(tab.caller, presenter.runs)
    named = [*presenter.runs, *(one.holder for one in view.awaited if one.holder)]
    leases = {lease.run_uuid: lease for lease in view.leases}
    owners = [{"run": run, "badge": status_badges.of_run(run), "lease": leases.get(run.uuid)} for run in presenter.runs]
    return {
        "locks": view,
        "titles": {run.uuid: waits.name_of(run) for run in named},
        "owners": owners,
        "names": waits.names_of(view),
        "wait_graph": waits.draw(view, presenter),
    }  # fmt: skip


def log_tab(tab: TabRequest) -> dict[str, Any]:
    """Context of log lines, filtered by the address. Raises Invalid for an unknown level."""
    most = step_logs.TAIL if tab.is_tail else step_logs.MOST_LINES
    return log_context(tab.caller, tab.presenter, tab.query, most) | {"is_tail": tab.is_tail}


def log_context(
    caller: RequestContext, presenter: WorkflowPresenter, given: Mapping[str, str], most: int = step_logs.MOST_LINES
) -> dict[str, Any]:
    """Context of a workflow's log, and its filters. Raises Invalid."""
    level = given.get("level", "")
    if level and level not in LEVELS:
        choices = ", ".join(LEVELS)
        raise Invalid(gettext("Select a log level: %(choices)s.") % {"choices": choices}, field="level")
    run_uuid, name, title = _step_of(presenter, given.get("step", ""))
    query = LogQuery(
        level=level,
        component=given.get("component", ""),
        host=given.get("host", ""),
        run_uuid=run_uuid,
        step=name,
        line=_line(given.get("line", "")),
    )
    log = step_logs.read(caller, presenter.runs, query, most)
    kept = {key: given[key] for key in ("level", "component", "host", "step") if given.get(key)}
    return {
        "log": log,
        "levels": LEVELS,
        "asked": {"level": level, "component": query.component, "host": query.host, "step": given.get("step", "")},
        "step_title": title,
        "is_narrowed": bool(kept),
        "newest_url": f"?{urlencode(kept)}",
        "raw_url": f"{reverse('workflow-log', args=[presenter.uuid])}?{urlencode(kept)}",
        "of": {run.uuid: run.instance_name for run in presenter.view.children}
        if len(presenter.view.children) > 1
        else {},
    }


def _line(text: str) -> int:
    """Return the line number in an address; 0 for none."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise Invalid(gettext("Enter the number of a line of the log."), field="line")
    return int(text)


def _step_of(presenter: WorkflowPresenter, key: str) -> tuple[str, str, str]:
    """Return run, name and title of the step in an address; empty for none or an unknown one."""
    for row in presenter.timeline.rows:
        if key and row.key == key and row.step is not None:
            run = next(run for run in presenter.runs if key.startswith(run.uuid[:8]))
            return run.uuid, row.step.name, row.step.title
    return "", "", ""


def events_tab(tab: TabRequest) -> dict[str, Any]:
    """Context of the events in order: around the moment or from the position in the address, or the newest."""
    presenter = tab.presenter
    begin, place = (history.place_of(tab.query.get(name, ""), name) for name in ("from", "as_of"))
    first = begin or (max(1, place - BEFORE_A_MOMENT) if place else 0)
    window = event_windows.read(tab.caller, presenter.runs, first=first, size=MOST_EVENTS)
    titles = {step.name: step.title for run in presenter.runs for step in run.steps}
    of = {run.uuid: run.instance_name for run in presenter.view.children} if len(presenter.view.children) > 1 else {}
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
    """Return which events of how many a window shows, and the positions before and after it."""
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
    """Return an event's details beside its kind and step."""
    data = event.data
    lines = []
    if isinstance(data.get("error"), Mapping):
        lines.append(translated(text_of(data["error"])))
    if isinstance(data.get("waits_for"), Mapping):
        lines.append(translated(message("log.waiting", what=step_logs.waits_of(data["waits_for"]))))
    if isinstance(data.get("progress"), Mapping):
        lines.append(translated(text_of(data["progress"])))
    lines += [gettext(str(data[name])) for name in ("intervention", "by", "state") if data.get(name)]
    lines += [str(data[name]) for name in ("reason", "message", "owner", "host") if data.get(name)]
    if data.get("attempt", 1) > 1:
        lines.append(gettext("attempt %(attempt)s") % {"attempt": data["attempt"]})
    return " · ".join(filter(None, lines))


def data_tab(tab: TabRequest) -> dict[str, Any]:
    """Context of the inputs and results of each run."""
    shown = tab.presenter.runs[:MOST_SHOWN_INPUTS]
    return {
        "data": [
            {
                "run": run,
                "title": action_on(status_badges.intent(run), run.instance_name if run.cell else ""),
                "data": run_data.of_run(tab.caller, run.uuid),
            }
            for run in shown
        ],
        "not_shown": len(tab.presenter.runs) - len(shown),
    }


def audit_tab(tab: TabRequest) -> dict[str, Any]:
    """Context of the audited interventions, with refused ones."""
    found = [
        record
        for run in tab.presenter.runs[:MOST_AUDITED]
        for record in audit.list_records(tab.caller, AuditQuery(run_uuid=run.uuid)).items
    ]
    return {"records": sorted(found, key=lambda record: record.created_at, reverse=True)}


def at_moment(
    caller: RequestContext, presenter: WorkflowPresenter, tab: str, text: str
) -> tuple[WorkflowPresenter, dict[str, Any]]:
    """Return the workflow as of the event in the address, and the slider over its events, on tabs that have one."""
    if tab not in REPLAYED or (not text and tab != "events"):
        return presenter, {"may_replay": tab in REPLAYED}
    place = history.place_of(text, "as_of")
    moment = event_windows.read(caller, presenter.runs, first=place, size=1)
    count = moment.total
    if place > max(count, 1):
        raise Invalid(
            gettext("%(field)s must be the number of an event, from 1 to %(count)s.")
            % {"field": "as_of", "count": count},
            field="as_of",
        )
    slider: dict[str, Any] = {"count": count, "place": place or count, "is_past": 0 < place < count}
    if slider["is_past"] and moment.events:
        event = moment.events[0]
        slider |= {"event": event, "before": max(1, place - 1), "after": place + 1}
        presenter = history.as_of(presenter, event_windows.standing(caller, presenter.runs, moment), event.created_at)
    return presenter, {"slider": slider}


Extra = Callable[[TabRequest], dict[str, Any]]
TABS: Mapping[str, tuple[str, str, Extra]] = {
    "timeline": ("Timeline", "workflows/_timeline_tab.html", migration_tab),
    "graph": ("Graph", "workflows/_graph.html", graph_tab),
    "steps": ("Steps", "workflows/_steps.html", no_extra),
    "placement": ("Placement", "workflows/_placement.html", placement_tab),
    "locks": ("Locks", "workflows/_locks.html", locks_tab),
    "logs": ("Logs", "workflows/_logs.html", log_tab),
    "events": ("Events", "workflows/_events.html", events_tab),
    "data": ("Input/Output", "workflows/_data.html", data_tab),
    "audit": ("Audit", "workflows/_audit.html", audit_tab),
}
REPLAYED = frozenset({"timeline", "graph", "steps", "events"})
