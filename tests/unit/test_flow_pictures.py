"""Laws of the drawings of a workflow: folded axis, ghosts, undo threads, graph, and the past."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.core.states import RunState, StepState
from conductor.services.workflows.duration_statistics import DurationStatistics, summed_up
from conductor.services.workflows.types import EventView
from portal.pages.timeline import history, time_axis, timeline
from portal.pages.timeline.presenter import WorkflowPresenter
from portal.pages.workflows import graph
from tests.fixtures.timelines import BEGIN, at, run, step

# -- axis -----------------------------------------------------------------------------------------------------------


def test_a_long_idle_stretch_is_folded_and_labelled() -> None:
    axis = time_axis.fitted(BEGIN, at(1000), [(BEGIN, at(10)), (at(990), at(1000))], 1.0)
    (fold,) = axis.folds()
    assert fold.seconds == 980
    assert fold.length < 0.1
    assert axis.at(at(10)) > 0.4
    assert not any(10 < float(tick.text.split()[0] or 0) < 990 for tick in axis.ticks() if tick.text)


def test_short_pauses_stay_as_they_are() -> None:
    axis = time_axis.fitted(BEGIN, at(10), [(BEGIN, at(4)), (at(5), at(10))], 1.0)
    assert axis.folds() == []
    assert axis.drawn_seconds == 10


spans = st.lists(st.tuples(st.floats(0, 900), st.floats(0, 100)), max_size=8)


@settings(max_examples=60)
@given(spans, st.lists(st.floats(-5, 1005), max_size=10))
def test_later_times_are_never_drawn_further_left(busy: list[tuple[float, float]], moments: list[float]) -> None:
    axis = time_axis.fitted(BEGIN, at(1000), [(at(one), at(one + long)) for one, long in busy], 0.8)
    places = [axis.at(at(moment)) for moment in sorted(moments)]
    assert places == sorted(places)
    assert all(0 <= place <= 0.8 + 1e-9 for place in places)
    assert len(axis.ticks()) <= time_axis.TICKS + 1 + len(axis.folds())
    apart = [abs(tick.at - fold.middle) for tick in axis.ticks() if tick.text for fold in axis.folds()]
    assert all(room >= 0.05 for room in apart), "words of ticks run into those of folds"
    assert axis.drawn_seconds > 0


# -- ghosts and threads ---------------------------------------------------------------------------------------------

TYPICAL = {"build_in_cell": {"Spawn": DurationStatistics(20, 40, 100), "Activate": DurationStatistics(5, 6, 100)}}


def test_planned_steps_are_as_long_as_they_usually_are() -> None:
    live = run(steps=[step("Claim host", 1, 5), step("Spawn"), step("Activate")])
    drawn = timeline.draw(live, at(5), TYPICAL)
    spawn, activate = (row.bars[0] for row in drawn.rows[-2:])
    assert spawn.length > 3 * activate.length
    assert drawn.has_typical


def test_a_step_that_takes_too_long_is_distinguished_from_one_that_does_not() -> None:
    slow = timeline.draw(run(steps=[step("Spawn", 1)]), at(60), TYPICAL).rows[-1]
    quick = timeline.draw(run(steps=[step("Spawn", 1)]), at(10), TYPICAL).rows[-1]
    assert slow.is_slow
    assert slow.slow_at is not None
    assert not quick.is_slow


def test_an_undo_points_to_what_it_undoes_through_every_row_between() -> None:
    steps = [
        step("Claim", 1, 2, index=0),
        step("Spawn", 2, 4, index=1, state=StepState.FAILED),
        step("Spawn", 4, 5, index=1, direction="undo", state=StepState.UNDONE),
        step("Claim", 5, 6, index=0, direction="undo", state=StepState.UNDONE),
    ]
    rows = timeline.draw(run(state=RunState.FAILED_UNDONE, finished_at=at(6), steps=steps), at(9)).rows
    accept, claim, spawn, undo_spawn, undo_claim = rows
    assert accept.threads == ()
    assert [thread.is_head for thread in claim.threads] == [True]
    assert len(spawn.threads) == 2
    assert any(thread.to == undo_claim.bars[-1].start for thread in undo_claim.threads)
    x = claim.bars[-1].start + claim.bars[-1].length
    assert all(any(thread.x == x for thread in row.threads) for row in (claim, spawn, undo_spawn, undo_claim))


def test_the_wait_for_the_next_try_is_no_work() -> None:
    steps = [
        step("Spawn", 1, 2, index=0, state=StepState.FAILED),
        step("Spawn", 6, 8, index=0, try_number=2),
    ]
    second = timeline.draw(run(state=RunState.DONE, finished_at=at(8), steps=steps), at(9)).rows[-1]
    assert [bar.kind for bar in second.bars] == ["wait", "work"]
    assert second.seconds == 2


def test_typical_and_slow_durations_are_quantiles() -> None:
    assert summed_up([1, 2]) is None
    assert summed_up([float(number) for number in range(1, 101)]) == DurationStatistics(50, 95, 100)


# -- graph ----------------------------------------------------------------------------------------------------------


def test_the_compensation_is_drawn_and_the_failed_step_stays_visible() -> None:
    steps = [
        step("Claim", 1, 2, index=0),
        step("Spawn", 2, 4, index=1, state=StepState.FAILED),
        step("Spawn", 4, 5, index=1, direction="undo", state=StepState.UNDONE),
        step("Claim", 5, 6, index=0, direction="undo", state=StepState.UNDONE),
        step("Activate", index=2, state=StepState.NOT_RUN),
    ]
    drawn = graph.draw(run(state=RunState.FAILED_UNDONE, finished_at=at(6), steps=steps))
    assert [node.badge.word for node in drawn.nodes] == ["undone", "failed, undone", "not run"]
    assert [edge.kind for edge in drawn.edges] == ["order", "ahead", "undo"]


def test_many_children_are_one_node_with_counts() -> None:
    children = [run(uuid=f"{number:08}-0000-4000-8000-000000000000", state=RunState.DONE) for number in range(19)]
    failed = run(uuid="99999999-0000-4000-8000-000000000000", state=RunState.FAILED_UNDONE, steps=[step("Claim", 1)])
    parent = run(state=RunState.DONE, steps=[step("Hand over", 0, 1)], children=[*children, failed])
    drawn = graph.draw(parent)
    fold, of_failed = drawn.nodes[1:]
    assert fold.counts == (("done", 19), ("failed (undone)", 1))
    assert (fold.badge.tone, fold.opens, of_failed.run_uuid) == ("bad", "?open=1", failed.uuid)
    assert fold.width > len(fold.note) * graph.NOTE_LETTER
    opened = graph.draw(replace(parent, children=[*children, *children, failed]), is_open=True)
    assert (opened.nodes[1].opens, opened.nodes[2].run_uuid, opened.left_out) == ("?", failed.uuid, 19)
    assert len(graph.draw(replace(parent, children=children[:5])).rows) == 6


def test_nothing_is_drawn_outside_of_the_drawing() -> None:
    drawn = graph.draw(run(steps=[step(f"Step {number}", index=number) for number in range(30)]))
    assert all(node.x + node.width <= drawn.width and node.y + node.height <= drawn.height for node in drawn.nodes)


# -- the past -------------------------------------------------------------------------------------------------------


def event(kind: str, seconds: float, **data: object) -> EventView:
    return EventView("cell1", int(seconds * 10), "wf", kind, at(seconds), run_uuid=run().uuid, data=data)


def test_an_earlier_state_shows_nothing_of_later_events() -> None:
    steps = [step("Claim", 1, 2, index=0), step("Spawn", 2, 4, index=1, state=StepState.FAILED, error={"message": "x"})]
    over = run(
        state=RunState.FAILED_UNDONE, finished_at=at(6), error={"message": "x"}, uncompensated=["a port"], steps=steps,
        step_count=2,
    )  # fmt: skip
    events = [
        event("run.started", 1),
        event("step.started", 2),
        event("run.ended", 6, state="failed (undone)", error=1),
    ]
    then = history.as_of(WorkflowPresenter(over, over.uuid, at(9)), events[:2], at(2))
    assert (then.view.state, then.now) == (RunState.RUNNING, at(2))
    assert then.view.error is None
    assert then.view.uncompensated == []
    assert [one.state for one in then.view.steps] == [StepState.DONE, StepState.RUNNING]
    first = history.as_of(WorkflowPresenter(over, over.uuid, at(9)), events[:1], at(1))
    assert [one.state for one in first.view.steps] == [StepState.RUNNING, StepState.PLANNED]
    assert history.as_of(WorkflowPresenter(over, over.uuid, at(9)), events, at(6)).view.state == RunState.FAILED_UNDONE
    assert first.seconds <= timedelta(seconds=1).total_seconds()


def test_an_earlier_state_shows_the_progress_of_its_step() -> None:
    going = run(steps=[step("Spawn", 2, None, progress={"message": "all but done"})], step_count=1)
    lines = [event("step.progress", 3, step="Spawn", progress={"message": "half"})]
    then = [
        history.as_of(WorkflowPresenter(going, going.uuid, at(9)), seen, at(3)).view.steps[0] for seen in (lines, [])
    ]
    assert [one.progress for one in then] == [{"message": "half"}, None]
