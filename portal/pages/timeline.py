"""A workflow as a picture: rows of bars on one time axis, in the order in which things happened."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from conductor.core.states import StepState
from conductor.services.values import RunView, StepView
from portal.pages import faces
from portal.pages.faces import Face

# Room on the right for what is planned, and for the labels of the last bars.
PLANNED_SHARE = 0.22
END_SHARE = 0.04
SHORTEST_SPAN_SECONDS = 0.1
TICKS = 5
LAST_TEXT = 0.9  # a tick further right has no room for its words
NICE_SECONDS = (
    0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 86_400
)  # fmt: skip
COMPUTE_PREFIX = "Compute/"
MOST_CHILDREN = 20


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


@dataclass(frozen=True)
class Section:
    """The rows of one run, or of one attempt of it."""

    heading: str
    rows: tuple[Row, ...]
    server_uuid: str = ""


@dataclass(frozen=True)
class Tick:
    at: float
    text: str


@dataclass(frozen=True)
class Timeline:
    sections: tuple[Section, ...]
    ticks: tuple[Tick, ...]
    now: float | None
    begin: datetime
    span_seconds: float
    scale: float  # share of the axis that `span_seconds` takes
    summary: str
    folded: int = 0
    rows: tuple[Row, ...] = field(default=())


@dataclass(frozen=True)
class _Axis:
    begin: datetime
    end: datetime
    scale: float

    @property
    def seconds(self) -> float:
        return max((self.end - self.begin).total_seconds(), SHORTEST_SPAN_SECONDS)

    def at(self, moment: datetime) -> float:
        share = (moment - self.begin).total_seconds() / self.seconds
        return min(max(share, 0.0), 1.0) * self.scale


def draw(run: RunView, now: datetime) -> Timeline:
    """Lay out a run and its children."""
    children = sorted(run.children, key=_place_among_children)
    runs = [run, *children[:MOST_CHILDREN]]
    is_live = faces.is_live(run)
    has_planned = is_live and any(_is_ahead(step) for one in runs for step in one.steps)
    axis = _Axis(run.created_at, now if is_live else _end(run, now), 1 - (PLANNED_SHARE if has_planned else END_SHARE))
    sections = tuple(section for one in runs for section in _sections(one, run, axis, now))
    rows = tuple(row for section in sections for row in section.rows)
    return Timeline(
        sections=sections,
        ticks=tuple(_ticks(axis)),
        now=axis.scale if is_live else None,
        begin=axis.begin,
        span_seconds=axis.seconds,
        scale=axis.scale,
        summary=_summary(run, rows, axis),
        folded=max(0, len(children) - MOST_CHILDREN),
        rows=rows,
    )


def _place_among_children(child: RunView) -> tuple[bool, int, str]:
    """What failed first; then by name, web-2 before web-10."""
    return faces.of_run(child).tone != "bad", len(child.instance_name), child.instance_name


def _end(run: RunView, now: datetime) -> datetime:
    ends = [one.finished_at for one in (run, *run.children) if one.finished_at]
    return max(ends, default=now)


def _is_ahead(step: StepView) -> bool:
    return step.state == StepState.PLANNED


def _sections(run: RunView, story: RunView, axis: _Axis, now: datetime) -> Iterable[Section]:
    is_child = run is not story
    prefix = f"{run.instance_name or run.instance_uuid[:8]} in {run.cell}" if is_child else ""
    attempts = sorted({step.attempt for step in run.steps}) or [1]
    is_over = not faces.is_live(run)
    place = _Places(axis)
    for attempt in attempts:
        steps = [step for step in run.steps if step.attempt == attempt]
        rows = [_accepted(run, axis, now)] if attempt == attempts[0] and not is_child else []
        rows += [_row(step, run, place, now, is_over=is_over) for step in steps]
        heading = " · ".join(filter(None, (prefix, f"attempt {attempt}" if len(attempts) > 1 else "")))
        yield Section(heading, tuple(_with_lanes(rows)), run.instance_uuid if is_child else "")


def _accepted(run: RunView, axis: _Axis, now: datetime) -> Row:
    """What the API did, and how long the request then waited for a conductor."""
    taken_at = run.started_at or run.finished_at or now
    start = axis.at(run.created_at)
    bar = Bar(start, axis.at(taken_at) - start, "wait", "waiting", is_open=run.started_at is None)
    face = Face("good", "accepted") if run.started_at else faces.of_run(run)
    return Row("Accept", "API", "", face, (bar,), seconds=(taken_at - run.created_at).total_seconds(), note="queued")


class _Places:
    """Where the next planned bar goes: side by side in the room on the right."""

    def __init__(self, axis: _Axis) -> None:
        self.axis = axis
        self._next = axis.scale + 0.01

    def take(self) -> tuple[float, float]:
        length = 0.045
        start = min(self._next, 1 - length)
        self._next += length + 0.008
        return start, length


def _row(step: StepView, run: RunView, place: _Places, now: datetime, *, is_over: bool) -> Row:
    face = faces.of_step(step, is_run_over=is_over)
    lane, _, host = step.lane.partition("/")
    bars: tuple[Bar, ...] = ()
    seconds = None
    if step.started_at is not None:
        end = step.finished_at or now
        start = place.axis.at(step.started_at)
        is_undo = step.direction == "undo"
        bars = (Bar(start, place.axis.at(end) - start, "work", face.tone, is_undo, step.finished_at is None),)
        seconds = (end - step.started_at).total_seconds()
    elif not is_over:
        start, length = place.take()
        bars = (Bar(start, length, "planned", "none"),)
    again = f"try {step.try_number}" if step.try_number > 1 else ""
    title = f"Undo: {step.title}" if step.direction == "undo" else step.title
    anchor = f"step-{run.uuid[:8]}-{step.direction}-{step.attempt}-{step.index}-{step.try_number}"
    return Row(
        title, "Compute host" if lane == "Compute" else lane, host, face, bars, step, seconds, note=again, anchor=anchor
    )


def _with_lanes(rows: Sequence[Row]) -> Iterable[Row]:
    """A lane is named where it begins."""
    before = None
    for row in rows:
        here = (row.lane, row.lane_detail)
        yield row if here == before else replace(row, begins_lane=True)
        before = here


def _ticks(axis: _Axis) -> Iterable[Tick]:
    step = next((nice for nice in NICE_SECONDS if axis.seconds / nice <= TICKS), axis.seconds / TICKS)
    count = int(axis.seconds / step)
    for number in range(count + 1):
        moment = axis.begin + timedelta(seconds=number * step)
        share = axis.at(moment)
        yield Tick(share, _tick_text(number * step, step) if share < LAST_TEXT else "")


def _tick_text(seconds: float, step: float) -> str:
    if step < 1:
        return f"{seconds:.2f}".rstrip("0").rstrip(".") + " s"
    if step < 60:
        return f"{seconds:g} s"
    if step < 3600:
        return f"{seconds / 60:g} min"
    return f"{seconds / 3600:g} h"


def _summary(run: RunView, rows: Sequence[Row], axis: _Axis) -> str:
    done = sum(row.face.word == StepState.DONE for row in rows)
    failed = sum(row.face.tone == "bad" for row in rows)
    undone = sum(row.face.word == StepState.UNDONE for row in rows)
    ahead = sum(row.step is not None and _is_ahead(row.step) for row in rows)
    counts = (
        (done, "done"),
        (failed, "failed"),
        (undone, "undone"),
        (ahead, "planned" if faces.is_live(run) else "not run"),
    )
    said = ", ".join(f"{count} {word}" for count, word in counts if count)
    return f"{len(rows) - 1} steps: {said or 'none yet'}; {axis.seconds:.1f} seconds in all."
