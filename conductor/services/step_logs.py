"""The log of a workflow: what its steps said and did, line by line, read from the facts that it left behind.

Hosts hold no database: what they say while they work comes as progress and stays in the event log, in order, after
the worker is gone. Lines are made from there, so that a log can neither be lost with a process nor name a secret.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from conductor.core.context import RequestContext
from conductor.services import event_windows
from conductor.services.values import EventView, RunView, StepView

LEVELS = ("info", "warning", "error")
MOST_LINES = 1000
TAIL = 200  # lines that an open page is sent anew at each change
MOST_EVENTS = 40_000  # that a log is made from: hours of progress, told every second; the newest of more
BEFORE_A_LINE = 20  # so that what led to a line that is looked up can be read
WORTH_A_LOOK = frozenset(
    {
        *("run.undoing", "run.rescheduled", "run.write_refused", "run.cancel_requested", "run.intervention"),
        "run.still_owed",
    }
)


@dataclass(frozen=True)
class LogLine:
    """`number` counts from 1 and stays: a line can be linked to. `step` names the step within `run_uuid`, if any."""

    number: int
    at: datetime
    level: str
    component: str
    host: str
    run_uuid: str
    step: str
    attempt: int
    text: str


@dataclass(frozen=True)
class LogQuery:
    """What is wanted of a log; what is empty does not narrow. `level` is the lowest one.

    `line` is the number of one that must be among those that are given, also where newer ones fill the page.
    """

    level: str = ""
    component: str = ""
    host: str = ""
    run_uuid: str = ""
    step: str = ""
    line: int = 0


@dataclass(frozen=True)
class Log:
    """The lines that were asked for, and by what else they could be narrowed.

    `more` and `newer` count those before and after them that are left out.
    """

    lines: list[LogLine]
    components: list[str]
    hosts: list[str]
    total: int
    more: int = 0
    newer: int = 0


def read(context: RequestContext, runs: Sequence[RunView], query: LogQuery, limit: int = MOST_LINES) -> Log:
    """The log of runs that the asker may see. Each event is a line, so a log that is not narrowed is read as far as
    it is shown; a narrowed one as a whole.
    """
    is_whole = replace(query, line=0) == LogQuery()
    begin = max(1, query.line - BEFORE_A_LINE) if is_whole and query.line else 0
    window = event_windows.read(context, runs, first=begin, size=limit if is_whole else MOST_EVENTS)
    lines = list(_lines(window.events, {run.uuid: run for run in runs}, window.first))
    wanted = [line for line in lines if _is_wanted(line, query)]
    first = 0 if is_whole else _first(wanted, query.line, limit)
    older, newer = window.first - 1, window.total - window.first - len(window.events) + 1
    return Log(
        lines=wanted[first : first + limit],
        components=sorted({_component(run, step) for run in runs for step in (None, *_tried(run))}),
        hosts=sorted({step.host for run in runs for step in _tried(run) if step.host}),
        total=window.total,
        more=older if is_whole else first,
        newer=newer if is_whole else max(0, len(wanted) - first - limit),
    )


def _first(wanted: Sequence[LogLine], line: int, limit: int) -> int:
    """Where to begin: the newest lines, or earlier where a line that is looked up is older than these."""
    newest = max(0, len(wanted) - limit)
    if not line:
        return newest
    place = bisect_left(wanted, line, key=lambda one: one.number)
    return min(newest, max(0, place - BEFORE_A_LINE))


def as_text(log: Log) -> str:
    """The log as a file: one line each, times in UTC."""
    return "".join(
        f"{line.at.isoformat(timespec='milliseconds')} {line.level.upper():7} {line.component}"
        f"{f' {line.host}' if line.host else ''}{f' [{line.step}]' if line.step else ''} {line.text}\n"
        for line in log.lines
    )


def _is_wanted(line: LogLine, query: LogQuery) -> bool:
    return (
        (not query.level or LEVELS.index(line.level) >= LEVELS.index(query.level))
        and (not query.component or line.component == query.component)
        and (not query.host or line.host == query.host)
        and (not query.run_uuid or line.run_uuid == query.run_uuid)
        and (not query.step or line.step == query.step)
    )


def _tried(run: RunView) -> list[StepView]:
    return [step for step in run.steps if step.started_at is not None]


def _component(run: RunView, step: StepView | None) -> str:
    """Who does a step, or what concerns the run as a whole."""
    return step.lane.partition("/")[0] if step is not None else ("Cell conductor" if run.cell else "Conductor")


def _lines(events: Iterable[EventView], runs: Mapping[str, RunView], first: int) -> Iterable[LogLine]:
    for number, event in enumerate(events, start=first):
        run = runs[event.run_uuid]
        data = event.data
        step = str(data.get("step") or "")
        known = next((one for one in run.steps if one.name == step), None)
        yield LogLine(
            number=number,
            at=event.created_at,
            level=_level(event),
            component=_component(run, known),
            host=_host(run, event, step),
            run_uuid=event.run_uuid,
            step=step,
            attempt=int(data.get("attempt") or 1),
            text=_text(event, known.title if known is not None else step),
        )


def _host(run: RunView, event: EventView, step: str) -> str:
    """The host in the words of the viewer: the steps' view has them already, by name or by number."""
    attempt = event.data.get("attempt", 1)
    found = [one.host for one in run.steps if one.name == step and one.attempt == attempt and one.host]
    return found[-1] if found else ""


def _level(event: EventView) -> str:
    if event.kind in ("step.failed", "run.order_failed"):
        return "error"
    if event.kind == "run.ended":
        return "error" if event.data.get("error") else "info"
    return "warning" if event.kind in WORTH_A_LOOK else "info"


def _text(event: EventView, title: str) -> str:
    data = event.data
    say = TEXTS.get(event.kind)
    words = say(data, title) if say is not None else event.kind.replace(".", " ").replace("_", " ")
    return " ".join(words.split())


def _error(data: Mapping[str, Any]) -> str:
    error = data.get("error")
    if not isinstance(error, Mapping):
        return ""
    return f"{error.get('message', '')} ({error.get('class', '')})"


def _waits(data: Mapping[str, Any]) -> str:
    waits_for = data.get("waits_for")
    if not isinstance(waits_for, Mapping):
        return ""
    return f"{waits_for.get('cause', '')} {waits_for.get('detail', '')}".strip()


def _progress(data: Mapping[str, Any]) -> str:
    shown = data.get("progress")
    if not isinstance(shown, Mapping):
        return ""
    share = shown.get("share")
    return f"{shown.get('message', '')}{f' ({100 * float(share):.0f}%)' if share is not None else ''}"


TEXTS: Mapping[str, Callable[[Mapping[str, Any], str], str]] = {
    "run.queued": lambda data, title: f"accepted, queued{f' for {_waits(data)}' if _waits(data) else ''}",
    "run.started": lambda data, title: "a conductor took it up",
    "run.waiting": lambda data, title: f"parked: waits for {_waits(data)}",
    "run.undoing": lambda data, title: f"turned back: {_error(data)}",
    "run.rescheduled": lambda data, title: f"tries again after {_error(data)}",
    "run.ended": lambda data, title: f"ended: {data.get('state', '')}{f': {_error(data)}' if _error(data) else ''}",
    "run.cancel_requested": lambda data, title: f"asked to cancel: {data.get('reason', '')}",
    "run.intervention": lambda data, title: (
        f"{data.get('intervention', '')} by {data.get('by', '')}: {data.get('reason', '')}"
    ),
    "run.write_refused": lambda data, title: (
        "a late owner's write was refused"
        + (f": #{data['token']}, the newest is #{data['newest']}" if "token" in data and "newest" in data else "")
    ),
    "run.still_owed": lambda data, title: (
        f"{data.get('host') or 'the host'} failed at what it owes and is told again: {_error(data)}"
    ),
    "run.cleaned": lambda data, title: f"nothing is left behind any more: {data.get('state', '')}",
    "step.started": lambda data, title: f"“{title}” begins",
    "step.done": lambda data, title: f"“{title}” is done",
    "step.failed": lambda data, title: f"“{title}” failed: {_error(data) or 'cancelled'}",
    "step.undone": lambda data, title: f"“{title}” is undone",
    "step.progress": lambda data, title: _progress(data),
}
