"""A workflow as a picture: rows of bars on one time axis, in the order in which things happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from django.utils.translation import gettext

from conductor.core.states import StepState
from conductor.services.usual_times import Usual
from conductor.services.values import RunView, StepView
from portal.pages import faces, timeline_axis
from portal.pages.amounts import decimal
from portal.pages.faces import Face
from portal.pages.timeline_axis import TICKS, Axis, Fold, Tick

__all__ = ["TICKS", "Bar", "Row", "Section", "Thread", "Tick", "Timeline", "draw"]

# Room on the right for what is planned, and for the labels of the last bars.
LEAST_PLANNED_SHARE = 0.22
MOST_PLANNED_SHARE = 0.55
END_SHARE = 0.04
LEAST_GHOST = 0.02
COMPUTE_PREFIX = "Compute/"
MOST_CHILDREN = 20

UsualSteps = Mapping[str, Mapping[str, Usual]]  # by flow and step


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
    """A piece of the line from an undo up to what it undoes, in one row: from `y1` to `y2` at `x`.

    `to` is where the line leaves for the undo's bar, in the row where it begins; `is_head` ends in an arrow.
    """

    x: float
    y1: str
    y2: str
    to: float | None = None
    is_head: bool = False


@dataclass(frozen=True)
class Row:
    """One attempt of one step."""

    title: str
    lane: str
    lane_detail: str
    face: Face
    bars: tuple[Bar, ...]
    step: StepView | None = None
    seconds: float | None = None
    begins_lane: bool = False
    note: str = ""
    anchor: str = ""
    key: str = ""  # of the step, in addresses
    usual: Usual | None = None
    slow_at: float | None = None  # where nineteen of twenty would have ended
    threads: tuple[Thread, ...] = ()

    @property
    def is_slow(self) -> bool:
        return self.usual is not None and self.seconds is not None and self.seconds > self.usual.p95


@dataclass(frozen=True)
class Section:
    """The rows of one run, or of one attempt of it."""

    heading: str
    rows: tuple[Row, ...]
    server_uuid: str = ""


@dataclass(frozen=True)
class Timeline:
    """`begin` is where the axis would begin without folds; `span_seconds` is its length, as drawn, until now."""

    sections: tuple[Section, ...]
    ticks: tuple[Tick, ...]
    now: float | None
    begin: datetime
    span_seconds: float
    scale: float  # share of the axis that `span_seconds` takes
    summary: str
    folded: int = 0
    rows: tuple[Row, ...] = field(default=())
    folds: tuple[Fold, ...] = ()
    has_usual: bool = False


def draw(run: RunView, now: datetime, usual: UsualSteps | None = None) -> Timeline:
    """Lay out a run and its children; planned steps are as long as they usually are."""
    children = sorted(run.children, key=place_among_children)
    runs = [run, *children[:MOST_CHILDREN]]
    is_live = faces.is_live(run)
    place = _Places(_axis(run, runs, now, usual or {}), usual or {})
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
        has_usual=any(row.usual for row in rows),
    )


def step_key(run: RunView, step: StepView) -> str:
    """A step of a run, whichever try of it, in addresses."""
    return f"{run.uuid[:8]}-{step.index}"


def anchor_of(run: RunView, step: StepView) -> str:
    """One try of a step in a page."""
    return f"step-{run.uuid[:8]}-{step.direction}-{step.attempt}-{step.index}-{step.try_number}"


def _axis(run: RunView, runs: Sequence[RunView], now: datetime, usual: UsualSteps) -> Axis:
    is_live = faces.is_live(run)
    end = now if is_live else _end(run, now)
    planned = [(one, step) for one in runs for step in one.steps if _is_ahead(step)]
    if not is_live or not planned:
        scale = 1 - END_SHARE
    else:
        known = [_usual_of(usual, one, step) for one, step in planned]
        ahead = sum(found.p50 for found in known if found is not None)
        elapsed = max((end - run.created_at).total_seconds(), timeline_axis.SHORTEST_SPAN_SECONDS)
        scale = 1 - min(max(ahead / (ahead + elapsed), LEAST_PLANNED_SHARE), MOST_PLANNED_SHARE)
    return timeline_axis.fitted(run.created_at, end, _busy(runs, end), scale)


def _busy(runs: Sequence[RunView], end: datetime) -> Iterable[tuple[datetime, datetime]]:
    for one in runs:
        yield one.created_at, one.started_at or one.finished_at or end
        for step in one.steps:
            if step.started_at is not None:
                yield step.started_at, step.finished_at or end


def _usual_of(usual: UsualSteps, run: RunView, step: StepView) -> Usual | None:
    return usual.get(run.flow, {}).get(step.name) if step.direction == "do" else None


def place_among_children(child: RunView) -> tuple[bool, int, str]:
    """What failed first; then by name, web-2 before web-10."""
    return faces.of_run(child).tone != "bad", len(child.instance_name), child.instance_name


def _end(run: RunView, now: datetime) -> datetime:
    ends = [one.finished_at for one in (run, *run.children) if one.finished_at]
    return max(ends, default=now)


def _is_ahead(step: StepView) -> bool:
    return step.state == StepState.PLANNED


def _sections(run: RunView, story: RunView, place: _Places, now: datetime) -> Iterable[Section]:
    is_child = run is not story
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
        yield Section(heading, tuple(_with_threads(list(_with_lanes(rows)))), run.instance_uuid if is_child else "")


def _accepted(run: RunView, axis: Axis, now: datetime) -> Row:
    """What the API did, and how long the request then waited for a conductor."""
    taken_at = run.started_at or run.finished_at or now
    start = axis.at(run.created_at)
    bar = Bar(start, axis.at(taken_at) - start, "wait", "waiting", is_open=run.started_at is None)
    face = Face("good", "accepted") if run.started_at else faces.of_run(run)
    return Row(
        gettext("Accept"),
        "API",
        "",
        face,
        (bar,),
        seconds=(taken_at - run.created_at).total_seconds(),
        note=gettext("queued"),
    )


class _Places:
    """Where the next planned bar goes: one after the other in the room on the right, as long as it usually takes."""

    def __init__(self, axis: Axis, usual: UsualSteps) -> None:
        self.axis = axis
        self.usual = usual
        self._next = axis.scale
        self._ended: dict[tuple[str, int, int], datetime] = {}  # by direction, attempt and index: the try before

    def begin_run(self) -> None:
        """Runs of a story go on side by side: each one's plan begins now."""
        self._next = self.axis.scale
        self._ended.clear()

    def take(self, usual: Usual | None) -> tuple[float, float]:
        wanted = usual.p50 / self.axis.seconds_per_share if usual else LEAST_GHOST * 2
        start = min(self._next + 0.006, 1 - LEAST_GHOST)
        length = min(max(wanted, LEAST_GHOST), 1 - start)
        self._next = start + length
        return start, length

    def slow_at(self, step: StepView, usual: Usual | None, bar: Bar) -> float | None:
        """Where the slow end of what is usual lies, if that is on the axis and says something beside the bar."""
        if usual is None or step.started_at is None:
            return None
        seconds = (step.started_at - self.axis.begin).total_seconds() + usual.p95
        beyond = max(0.0, seconds - self.axis.seconds) / self.axis.seconds_per_share
        share = self.axis.at_seconds(seconds) + beyond
        is_told = bar.is_open or abs(share - bar.start - bar.length) > LEAST_GHOST
        return share if is_told and share <= 1 else None

    def waited_since(self, step: StepView) -> datetime | None:
        """When the try before ended; and this one's end is noted."""
        place = (step.direction, step.attempt, step.index)
        before = self._ended.get(place)
        if step.finished_at is not None:
            self._ended[place] = step.finished_at
        return before


def _row(step: StepView, run: RunView, place: _Places, now: datetime) -> Row:
    face = faces.of_step(step)
    lane, _, host = step.lane.partition("/")
    usual = _usual_of(place.usual, run, step)
    bars: tuple[Bar, ...] = ()
    seconds = slow_at = None
    if step.started_at is not None:
        bars = tuple(_bars(step, place, now, face))
        seconds = ((step.finished_at or now) - step.started_at).total_seconds()
        slow_at = place.slow_at(step, usual, bars[-1])
    elif _is_ahead(step):
        start, length = place.take(usual)
        bars = (Bar(start, length, "planned", "none"),)
    again = gettext("try %(try_number)s") % {"try_number": step.try_number} if step.try_number > 1 else ""
    title = gettext(step.title)
    if step.direction == "undo":
        title = gettext("Undo: %(step)s") % {"step": title}
    where = "Compute host" if lane == "Compute" else lane
    return Row(
        title, where, host, face, bars, step, seconds, note=again, anchor=anchor_of(run, step),
        key=step_key(run, step), usual=usual, slow_at=slow_at,
    )  # fmt: skip


def _bars(step: StepView, place: _Places, now: datetime, face: Face) -> Iterable[Bar]:
    """What it waited for its turn again, and its work: the two are never one bar."""
    assert step.started_at is not None
    start = place.axis.at(step.started_at)
    before = place.waited_since(step)
    if before is not None and before < step.started_at:
        waited_from = place.axis.at(before)
        yield Bar(waited_from, start - waited_from, "wait", "waiting")
    length = place.axis.at(step.finished_at or now) - start
    yield Bar(start, length, "work", face.tone, step.direction == "undo", step.finished_at is None)


def _with_lanes(rows: Sequence[Row]) -> Iterable[Row]:
    """A lane is named where it begins."""
    before = None
    for row in rows:
        here = (row.lane, row.lane_detail)
        yield row if here == before else replace(row, begins_lane=True)
        before = here


def _with_threads(rows: list[Row]) -> list[Row]:
    """Each undo points up to the newest try of what it undoes."""
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


def _undone_by(before: Sequence[Row], row: Row) -> int | None:
    if row.step is None or row.step.direction != "undo":
        return None
    index = row.step.index
    mine = [
        number
        for number, one in enumerate(before)
        if one.step is not None and one.step.direction == "do" and one.step.index == index and one.bars
    ]
    return mine[-1] if mine else None


def _summary(rows: Sequence[Row], axis: Axis) -> str:
    failed = sum(row.face.tone == "bad" for row in rows)
    words = Counter(row.face.word for row in rows)
    counts = (
        (words["done"], "done"),
        (failed, "failed"),
        (words["undone"], "undone"),
        (words["planned"], "planned"),
        (words["not run"], "not run"),
    )
    said = ", ".join(f"{count} {gettext(word)}" for count, word in counts if count) or gettext("none yet")
    seconds = decimal(axis.seconds)
    sentence = gettext("%(count)s steps: %(said)s; %(seconds)s seconds in all.")
    return sentence % {"count": len(rows) - 1, "said": said, "seconds": seconds}
