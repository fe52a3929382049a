"""Logs of workflows, line by line, made from the event log.

Hosts have no database: they report progress, which stays in the event log in order after the worker is gone. So a log
cannot be lost with a process, and contains no secrets.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from conductor.core.context import RequestContext
from conductor.core.messages import Message, message, sentences, text_of, word
from conductor.core.texts import TEXTS
from conductor.services.workflows import event_windows
from conductor.services.workflows.types import EventView, RunView, StepView

LEVELS = ("info", "warning", "error")
MOST_LINES = 1000
TAIL = 200  # lines that an open page gets at each change
MOST_EVENTS = 40_000  # that a log is made from, the newest: hours of progress at one event a second
BEFORE_A_LINE = 20  # lines of context before a line that is looked up
WORTH_A_LOOK = frozenset(
    {
        "run.undoing",
        "run.rescheduled",
        "run.write_refused",
        "run.cancel_requested",
        "run.intervention",
        "run.cleanup_retried",
    }
)


@dataclass(frozen=True)
class LogLine:
    """A line of a log. `number` counts from 1 and never changes, for links.

    `step` is the step in `run_uuid`, if any.
    """

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
    """Filters for a log; empty fields do not narrow. `level` is the lowest one.

    `line` is the number of a line that must be included, also where newer ones fill the page.
    """

    level: str = ""
    component: str = ""
    host: str = ""
    run_uuid: str = ""
    step: str = ""
    line: int = 0


@dataclass(frozen=True)
class Log:
    """The selected lines, and the values of further filters.

    `more` and `newer` count the omitted lines before and after them.
    """

    lines: list[LogLine]
    components: list[str]
    hosts: list[str]
    total: int
    more: int = 0
    newer: int = 0


def read(context: RequestContext, runs: Sequence[RunView], query: LogQuery, limit: int = MOST_LINES) -> Log:
    """Return the log of runs that the caller may see.

    Each event is a line: without filters only the shown part is read, with filters the whole log.
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
    """Return the index of the first line: of the newest lines, or earlier to include a line that is looked up."""
    newest = max(0, len(wanted) - limit)
    if not line:
        return newest
    place = bisect_left(wanted, line, key=lambda one: one.number)
    return min(newest, max(0, place - BEFORE_A_LINE))


def as_text(log: Log) -> str:
    """Return the log as text: one line each, times in UTC."""
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
    """Return the component that executes a step, or the run as a whole."""
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
    """Return the host as the caller may see it: the steps' view has its name or number."""
    attempt = event.data.get("attempt", 1)
    found = [one.host for one in run.steps if one.name == step and one.attempt == attempt and one.host]
    return found[-1] if found else ""


def _level(event: EventView) -> str:
    if event.kind in ("step.failed", "run.order_failed", "run.cleanup_failed"):
        return "error"
    if event.kind == "run.ended":
        return "error" if event.data.get("error") else "info"
    return "warning" if event.kind in WORTH_A_LOOK else "info"


def _text(event: EventView, title: str) -> str:
    line = LINES.get(event.kind)
    if line is not None:
        return line(event.data, word(title))
    return " ".join(event.kind.replace(".", " ").replace("_", " ").split())


def _error(data: Mapping[str, Any]) -> str:
    error = data.get("error")
    if not isinstance(error, Mapping):
        return ""
    return message("log.error", message=text_of(error), kind=str(error.get("class", "")))


def _waits(data: Mapping[str, Any]) -> str:
    waits_for = data.get("waits_for")
    return waits_of(waits_for) if isinstance(waits_for, Mapping) else ""


def waits_of(waits_for: Mapping[str, Any]) -> str:
    """Describe what a workflow waits for: the cause, with the host, the lock or other detail."""
    cause, detail = str(waits_for.get("cause", "")), text_of(waits_for, "detail")
    code = f"wait.{cause}"
    return message(code, detail=detail) if detail and code in TEXTS else sentences(word(cause), detail)


def _queued(data: Mapping[str, Any], step: str) -> Message:
    waits = _waits(data)
    return message("log.queued_for", what=waits) if waits else message("log.queued")


def _ended(data: Mapping[str, Any], step: str) -> Message:
    state, error = word(str(data.get("state", ""))), _error(data)
    return message("log.ended_with", state=state, error=error) if error else message("log.ended", state=state)


def _write_refused(data: Mapping[str, Any], step: str) -> Message:
    if "token" in data and "newest" in data:
        return message("log.write_refused_tokens", token=str(data["token"]), newest=str(data["newest"]))
    return message("log.write_refused")


def _step_failed(data: Mapping[str, Any], step: str) -> Message:
    error = _error(data)
    return message("log.step_failed", step=step, error=error) if error else message("log.step_cancelled", step=step)


def _progress(data: Mapping[str, Any], step: str) -> str:
    shown = data.get("progress")
    if not isinstance(shown, Mapping):
        return ""
    reported, share = text_of(shown), shown.get("share")
    return reported if share is None else message("log.progress", message=reported, percent=round(100 * float(share)))


def _intervention(data: Mapping[str, Any], step: str) -> Message:
    by, reason = str(data.get("by", "")), str(data.get("reason", ""))
    return message("log.intervention", action=str(data.get("intervention", "")), name=by, reason=reason)


def _still_deferred(data: Mapping[str, Any], step: str) -> Message:
    return message("log.still_deferred", host=str(data.get("host") or word("the host")), error=_error(data))


# Text of a line for each kind of event, from its data and the title of its step.
LINES: Mapping[str, Callable[[Mapping[str, Any], str], str]] = {
    "run.queued": _queued,
    "run.started": lambda data, step: message("log.started"),
    "run.waiting": lambda data, step: message("log.waiting", what=_waits(data)),
    "run.undoing": lambda data, step: message("log.undoing", error=_error(data)),
    "run.rescheduled": lambda data, step: message("log.rescheduled", error=_error(data)),
    "run.ended": _ended,
    "run.cancel_requested": lambda data, step: message("log.cancel_requested", reason=str(data.get("reason", ""))),
    "run.intervention": _intervention,
    "run.write_refused": _write_refused,
    "run.cleanup_retried": _still_deferred,
    "run.cleanup_failed": lambda data, step: message("log.cleanup_failed", state=word(str(data.get("state", "")))),
    "run.cleaned": lambda data, step: message("log.cleaned", state=word(str(data.get("state", "")))),
    "step.started": lambda data, step: message("log.step_started", step=step),
    "step.done": lambda data, step: message("log.step_done", step=step),
    "step.failed": _step_failed,
    "step.undone": lambda data, step: message("log.step_undone", step=step),
    "step.progress": _progress,
}
