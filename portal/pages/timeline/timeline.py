"""Timeline of a workflow: rows of bars on one time axis, in the order of their start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from django.utils.translation import gettext

from conductor.core.states import StepState
from conductor.services.workflows.duration_statistics import DurationStatistics
from conductor.services.workflows.types import RunView, StepView
from portal.pages import status_badges
from portal.pages.amounts import decimal
from portal.pages.status_badges import StatusBadge
from portal.pages.timeline import time_axis
from portal.pages.timeline.time_axis import TICKS, Axis, Fold, Tick

__all__ = ["TICKS", "Bar", "Thread", "Tick", "Timeline", "TimelineRow", "TimelineSection", "draw"]

# Space on the right for planned steps, and for the labels of the last bars.
LEAST_PLANNED_SHARE = 0.22
MOST_PLANNED_SHARE = 0.55
END_SHARE = 0.04
LEAST_GHOST = 0.02
MOST_CHILDREN = 20

TypicalSteps = Mapping[str, Mapping[str, DurationStatistics]]  # by flow and step


@dataclass(frozen=True)
class Bar:
    """A stretch of the axis, as shares of its length. `kind` is work, wait, planned or accept."""

    start: float
    length: float
    kind: str
    tone: str
    is_undo: bool = False
    is_open: bool = False  # still growing


@dataclass(frozen=True)
class Thread:
    """The part within one row of the line from a compensation to the step that it undoes: from `y1` to `y2` at `x`.

    In the compensation's row, `to` is the position of its bar, where the line begins; `is_head` draws an arrow.
    """

    x: float
    y1: str
    y2: str
    to: float | None = None
    is_head: bool = False


@dataclass(frozen=True)
class TimelineRow:
    """One attempt of one step."""

    title: str
    lane: str
    lane_detail: str
    badge: StatusBadge
    bars: tuple[Bar, ...]
    step: StepView | None = None
    seconds: float | None = None
    begins_lane: bool = False
    note: str = ""
    anchor: str = ""
    key: str = ""  # of the step, for addresses
    typical: DurationStatistics | None = None
    slow_at: float | None = None  # the 95th percentile of its duration
    threads: tuple[Thread, ...] = ()

    @property
    def is_slow(self) -> bool:
        return self.typical is not None and self.seconds is not None and self.seconds > self.typical.p95


@dataclass(frozen=True)
class TimelineSection:
    """The rows of one run, or of one attempt of it."""

    heading: str
    rows: tuple[TimelineRow, ...]
    server_uuid: str = ""


@dataclass(frozen=True)
class Timeline:
    """The timeline. `span_seconds` is the time that is drawn, without folds; `begin` is its end minus that time."""

    sections: tuple[TimelineSection, ...]
    ticks: tuple[Tick, ...]
    now: float | None
    begin: datetime
    span_seconds: float
    scale: float  # share of the axis that `span_seconds` takes
    summary: str
    folded: int = 0
    rows: tuple[TimelineRow, ...] = field(default=())
    folds: tuple[Fold, ...] = ()
    has_typical: bool = False


def draw(run: RunView, now: datetime, typical: TypicalSteps | None = None) -> Timeline:
    """Lay out a run and its children; planned steps have their typical length."""
    children = sorted(run.children, key=place_among_children)
    runs = [run, *children[:MOST_CHILDREN]]
    is_live = status_badges.is_live(run)
    place = _Places(_axis(run, runs, now, typical or {}), typical or {})
    axis = place.axis
    sections = tuple(section for one in runs for section in _sections(one, run, place, now))
    rows = tuple(row for section in sections for row in section.rows)
    return Timeline(
        sections=sections,
        ticks=tuple(axis.ticks()),
        now=axis.scale if is_live else None,
        begin=axis.end - timedelta(seconds=axis.drawn_seconds),
        span_seconds=axis.drawn_seconds,
        scale=axis.scale,
        summary=_summary(rows, axis),
        folded=max(0, len(children) - MOST_CHILDREN),
        rows=rows,
        folds=tuple(axis.folds()),
        has_typical=any(row.typical for row in rows),
    )


def step_key(run: RunView, step: StepView) -> str:
    """Return the address key of a step, the same for all of its attempts."""
    return f"{run.uuid[:8]}-{step.index}"


def anchor_of(run: RunView, step: StepView) -> str:
    """Return the HTML anchor of one attempt of a step."""
    return f"step-{run.uuid[:8]}-{step.direction}-{step.attempt}-{step.index}-{step.try_number}"


def _axis(run: RunView, runs: Sequence[RunView], now: datetime, typical: TypicalSteps) -> Axis:
    is_live = status_badges.is_live(run)
    end = now if is_live else _end(run, now)
    planned = [(one, step) for one in runs for step in one.steps if _is_ahead(step)]
    if not is_live or not planned:
        scale = 1 - END_SHARE
    else:
        known = [_typical_of(typical, one, step) for one, step in planned]
        ahead = sum(found.p50 for found in known if found is not None)
        elapsed = max((end - run.created_at).total_seconds(), time_axis.SHORTEST_SPAN_SECONDS)
        scale = 1 - min(max(ahead / (ahead + elapsed), LEAST_PLANNED_SHARE), MOST_PLANNED_SHARE)
    return time_axis.fitted(run.created_at, end, _busy(runs, end), scale)


def _busy(runs: Sequence[RunView], end: datetime) -> Iterable[tuple[datetime, datetime]]:
    for one in runs:
        yield one.created_at, one.started_at or one.finished_at or end
        for step in one.steps:
            if step.started_at is not None:
                yield step.started_at, step.finished_at or end


def _typical_of(typical: TypicalSteps, run: RunView, step: StepView) -> DurationStatistics | None:
    return typical.get(run.flow, {}).get(step.name) if step.direction == "do" else None


def place_among_children(child: RunView) -> tuple[bool, int, str]:
    """Return the sort key of children: failed ones first, then by name, web-2 before web-10."""
    return status_badges.of_run(child).tone != "bad", len(child.instance_name), child.instance_name


def _end(run: RunView, now: datetime) -> datetime:
    ends = [one.finished_at for one in (run, *run.children) if one.finished_at]
    return max(ends, default=now)


def _is_ahead(step: StepView) -> bool:
    return step.state == StepState.PLANNED


def _sections(run: RunView, presenter: RunView, place: _Places, now: datetime) -> Iterable[TimelineSection]:
    is_child = run is not presenter
    prefix = f"{run.instance_name or run.instance_uuid[:8]} in {run.cell}" if is_child else ""
    attempts = sorted({step.attempt for step in run.steps}) or [1]
    place.begin_run()
    for attempt in attempts:
        steps = [step for step in run.steps if step.attempt == attempt]
        rows = [_accepted(run, place.axis, now)] if attempt == attempts[0] and not is_child else []
        rows += [_row(step, run, place, now) for step in steps]
        heading = " · ".join(
            filter(None, (prefix, gettext("attempt %(attempt)s") % {"attempt": attempt} if len(attempts) > 1 else ""))
        )
        yield TimelineSection(
            heading, tuple(_with_threads(list(_with_tracks(rows)))), run.instance_uuid if is_child else ""
        )


def _accepted(run: RunView, axis: Axis, now: datetime) -> TimelineRow:
    """Return the row of the API call, and of the time until a conductor claimed the run."""
    taken_at = run.started_at or run.finished_at or now
    start = axis.at(run.created_at)
    bar = Bar(start, axis.at(taken_at) - start, "wait", "waiting", is_open=run.started_at is None)
    badge = StatusBadge("good", "accepted") if run.started_at else status_badges.of_run(run)
    return TimelineRow(
        gettext("Accept"),
        "API",
        "",
        badge,
        (bar,),
        seconds=(taken_at - run.created_at).total_seconds(),
        note=gettext("queued"),
    )


class _Places:
    """Positions of planned bars: one after the other in the space on the right, with their typical length."""

    def __init__(self, axis: Axis, typical: TypicalSteps) -> None:
        self.axis = axis
        self.typical = typical
        self._next = axis.scale
        self._ended: dict[tuple[str, int, int], datetime] = {}  # by direction, attempt and index: the previous attempt

    def begin_run(self) -> None:
        """Start again at the left: the runs of a workflow are executed in parallel."""
        self._next = self.axis.scale
        self._ended.clear()

    def take(self, typical: DurationStatistics | None) -> tuple[float, float]:
        wanted = typical.p50 / self.axis.seconds_per_share if typical else LEAST_GHOST * 2
        start = min(self._next + 0.006, 1 - LEAST_GHOST)
        length = min(max(wanted, LEAST_GHOST), 1 - start)
        self._next = start + length
        return start, length

    def slow_at(self, step: StepView, typical: DurationStatistics | None, bar: Bar) -> float | None:
        """Return the position of the 95th percentile, if it is on the axis and apart from the bar's end."""
        if typical is None or step.started_at is None:
            return None
        seconds = (step.started_at - self.axis.begin).total_seconds() + typical.p95
        beyond = max(0.0, seconds - self.axis.seconds) / self.axis.seconds_per_share
        share = self.axis.at_seconds(seconds) + beyond
        is_shown = bar.is_open or abs(share - bar.start - bar.length) > LEAST_GHOST
        return share if is_shown and share <= 1 else None

    def waited_since(self, step: StepView) -> datetime | None:
        """Return the end of the previous attempt, and note the end of this one."""
        place = (step.direction, step.attempt, step.index)
        before = self._ended.get(place)
        if step.finished_at is not None:
            self._ended[place] = step.finished_at
        return before


def _row(step: StepView, run: RunView, place: _Places, now: datetime) -> TimelineRow:
    badge = status_badges.of_step(step)
    lane, _, host = step.lane.partition("/")
    typical = _typical_of(place.typical, run, step)
    bars: tuple[Bar, ...] = ()
    seconds = slow_at = None
    if step.started_at is not None:
        bars = tuple(_bars(step, place, now, badge))
        seconds = ((step.finished_at or now) - step.started_at).total_seconds()
        slow_at = place.slow_at(step, typical, bars[-1])
    elif _is_ahead(step):
        start, length = place.take(typical)
        bars = (Bar(start, length, "planned", "none"),)
    again = gettext("attempt %(try_number)s") % {"try_number": step.try_number} if step.try_number > 1 else ""
    title = gettext(step.title)
    if step.direction == "undo":
        title = gettext("Roll back: %(step)s") % {"step": title}
    where = "Compute host" if lane == "Compute" else lane
    return TimelineRow(
        title, where, host, badge, bars, step, seconds, note=again, anchor=anchor_of(run, step),
        key=step_key(run, step), typical=typical, slow_at=slow_at,
    )  # fmt: skip


def _bars(step: StepView, place: _Places, now: datetime, badge: StatusBadge) -> Iterable[Bar]:
    """Yield a bar for the wait before a retry, and one for the work."""
    assert step.started_at is not None
    start = place.axis.at(step.started_at)
    before = place.waited_since(step)
    if before is not None and before < step.started_at:
        waited_from = place.axis.at(before)
        yield Bar(waited_from, start - waited_from, "wait", "waiting")
    length = place.axis.at(step.finished_at or now) - start
    yield Bar(start, length, "work", badge.tone, step.direction == "undo", step.finished_at is None)


def _with_tracks(rows: Sequence[TimelineRow]) -> Iterable[TimelineRow]:
    """Mark the first row of each lane, which shows its name."""
    before = None
    for row in rows:
        here = (row.lane, row.lane_detail)
        yield row if here == before else replace(row, begins_lane=True)
        before = here


def _with_threads(rows: list[TimelineRow]) -> list[TimelineRow]:
    """Add a line from each compensation to the newest attempt of the step that it undoes."""
    threads: dict[int, list[Thread]] = {}
    for number, row in enumerate(rows):
        done = _undone_by(rows[:number], row)
        if done is None or not row.bars:
            continue
        x = rows[done].bars[-1].start + rows[done].bars[-1].length
        threads.setdefault(number, []).append(Thread(x, "50%", "0", to=row.bars[-1].start))
        for between in range(done + 1, number):
            threads.setdefault(between, []).append(Thread(x, "100%", "0"))
        threads.setdefault(done, []).append(Thread(x, "100%", "82%", is_head=True))
    return [replace(row, threads=tuple(threads.get(number, ()))) for number, row in enumerate(rows)]


def _undone_by(before: Sequence[TimelineRow], row: TimelineRow) -> int | None:
    if row.step is None or row.step.direction != "undo":
        return None
    index = row.step.index
    mine = [
        number
        for number, one in enumerate(before)
        if one.step is not None and one.step.direction == "do" and one.step.index == index and one.bars
    ]
    return mine[-1] if mine else None


def _summary(rows: Sequence[TimelineRow], axis: Axis) -> str:
    failed = sum(row.badge.tone == "bad" for row in rows)
    words = Counter(row.badge.word for row in rows)
    counts = (
        (words["done"], "done"),
        (failed, "failed"),
        (words["undone"], "undone"),
        (words["planned"], "planned"),
        (words["not run"], "not run"),
    )
    listed = ", ".join(f"{count} {gettext(word)}" for count, word in counts if count) or gettext("none yet")
    seconds = decimal(axis.seconds)
    sentence = gettext("%(count)s steps: %(counts)s; %(seconds)s seconds in all.")
    return sentence % {"count": len(rows) - 1, "counts": listed, "seconds": seconds}
