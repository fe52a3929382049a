"""Status badges and timelines of workflows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.core.states import RunState, StepState
from conductor.services.workflows import presenter as run_states
from conductor.services.workflows.types import RunView
from portal.pages import status_badges
from portal.pages.status_badges import StatusBadge
from portal.pages.timeline import timeline
from portal.pages.workflows import graph
from tests.fixtures.timelines import at, run, step


@pytest.mark.parametrize("state", RunState)
def test_every_state_of_a_run_has_a_tone_and_is_shown_by_its_name(state: str) -> None:
    badge = status_badges.of_run(run(state=state))
    assert badge.tone == status_badges.RUN_TONES[state]
    assert badge.word == state


@pytest.mark.parametrize("state", StepState)
def test_every_state_of_a_step_has_a_tone(state: str) -> None:
    assert status_badges.of_step(step("Claim", 1, state=state)).tone in status_badges.TONES


def test_a_run_that_waits_for_a_host_is_running_there() -> None:
    waits_for = {"cause": "host", "detail": "sim-1"}
    assert status_badges.of_run(run(waits_for=waits_for)) == StatusBadge("working", "running", "on sim-1")
    back = run(state=RunState.UNDOING, waits_for=waits_for)
    assert status_badges.of_run(back) == StatusBadge("undo", "undoing", "on sim-1")


def test_a_run_that_waits_for_a_lock_says_so() -> None:
    waiting = run(state=RunState.QUEUED, waits_for={"cause": "lock", "detail": "instance:1"})
    assert status_badges.of_run(waiting) == StatusBadge("waiting", "queued", "for a lock: instance:1")


def test_states_with_uncompensated_effects_are_highlighted() -> None:
    assert status_badges.of_run(run(state=RunState.FAILED_NOT_CLEAN)).is_loud
    assert not status_badges.of_run(run(state=RunState.FAILED_UNDONE)).is_loud


@pytest.mark.parametrize(
    ("children", "wanted"),
    [
        ((RunState.DONE, RunState.DONE), ("good", "done")),
        ((RunState.DONE, RunState.RUNNING), ("working", "running")),
        ((RunState.FAILED_UNDONE, RunState.DONE), ("bad", "failed (undone)")),
        ((RunState.RUNNING, RunState.FAILED_NOT_CLEAN), ("bad", "failed (not clean)")),
    ],
)
def test_a_run_that_handed_its_work_on_is_what_became_of_it(children: tuple[str, str], wanted: tuple[str, str]) -> None:
    presenter = run(state=RunState.DONE, children=[run(state=state) for state in children])
    badge = status_badges.of_presenter(presenter)
    assert (badge.tone, badge.word) == wanted


def test_a_finished_run_is_drawn_from_its_request_to_its_end() -> None:
    done = run(
        state=RunState.DONE,
        finished_at=at(10),
        steps=[step("Claim host", 1, 2), step("Spawn", 2, 9, lane="Compute/sim-1"), step("Activate", 9, 10)],
    )
    drawn = timeline.draw(done, at(500))
    assert drawn.span_seconds == 10
    assert drawn.now is None
    assert [row.title for row in drawn.rows] == ["Accept", "Claim host", "Spawn", "Activate"]
    assert [row.seconds for row in drawn.rows] == [1, 1, 7, 1]
    assert [(row.lane, row.lane_detail) for row in drawn.rows if row.begins_lane] == [
        ("API", ""),
        ("Cell conductor", ""),
        ("Compute host", "sim-1"),
        ("Cell conductor", ""),
    ]
    spawn = drawn.rows[2].bars[0]
    assert (spawn.start, spawn.length) == pytest.approx((0.2 * drawn.scale, 0.7 * drawn.scale))
    assert drawn.summary == "3 steps: 3 done; 10.0 seconds in all."


def test_nothing_is_folded_of_what_took_less_than_the_shortest_axis() -> None:
    quick = run(state=RunState.DONE, finished_at=at(0.065), started_at=at(0.008), steps=[step("Claim", 0.008, 0.065)])
    drawn = timeline.draw(quick, at(500))
    assert drawn.folds == ()
    assert drawn.rows[-1].seconds == pytest.approx(0.057)


def test_planned_steps_stand_in_order_behind_now() -> None:
    live = run(steps=[step("Claim host", 1, 2), step("Plug", 2), step("Spawn"), step("Activate")])
    drawn = timeline.draw(live, at(5))
    open_bar, *planned = [row.bars[0] for row in drawn.rows[2:]]
    assert open_bar.is_open
    assert open_bar.start + open_bar.length == pytest.approx(drawn.now)
    assert [bar.kind for bar in planned] == ["planned", "planned"]
    assert drawn.now is not None
    assert drawn.now < planned[0].start < planned[0].start + planned[0].length < planned[1].start


def test_an_undo_and_the_next_attempt_follow_downward() -> None:
    steps = [
        step("Spawn", 1, 4, state=StepState.FAILED, lane="Compute/sim-1", host="sim-1"),
        step("Spawn", 4, 5, state=StepState.UNDONE, direction="undo", lane="Compute/sim-1", host="sim-1"),
        step("Spawn", 6, 9, attempt=2, lane="Compute/sim-2", host="sim-2"),
    ]
    drawn = timeline.draw(run(state=RunState.DONE, attempt=2, finished_at=at(9), steps=steps), at(20))
    assert [section.heading for section in drawn.sections] == ["attempt 1", "attempt 2"]
    assert [row.title for row in drawn.rows] == ["Accept", "Spawn", "Roll back: Spawn", "Spawn"]
    assert drawn.rows[2].bars[0].is_undo
    assert drawn.rows[3].lane_detail == "sim-2"


TRIED = step("Claim", 1, 2)
AHEAD = step("Spawn", index=1)
BACK = step("Claim", 2, None, direction="undo")


@pytest.mark.parametrize(
    ("presenter", "word"),
    [
        (run(steps=[TRIED, AHEAD]), "planned"),
        (run(attempt=2, steps=[TRIED, BACK, replace(AHEAD, attempt=2)]), "planned"),  # it goes forward again
        (run(state=RunState.UNDOING, steps=[TRIED, AHEAD]), "not run"),
        (run(state=RunState.WAITING, steps=[TRIED, BACK, AHEAD]), "not run"),  # for the next try of an undo
        (run(state=RunState.FAILED_UNDONE, finished_at=at(3), steps=[TRIED, AHEAD]), "not run"),
    ],
)
def test_steps_that_will_not_run_are_not_planned(presenter: RunView, word: str) -> None:
    presenter = run_states.with_steps_ahead(presenter)
    drawn = timeline.draw(presenter, at(9))
    assert (drawn.rows[-1].badge.word, bool(drawn.rows[-1].bars)) == (word, word == "planned")
    assert f"1 {word}" in drawn.summary
    assert word in graph.draw(presenter).nodes[-1].note


@given(
    st.lists(st.tuples(st.floats(0, 5000), st.floats(0, 5000)), max_size=12),
    st.floats(0.001, 10_000),
    st.integers(0, 8),
)
def test_every_bar_lies_on_the_axis(spans: list[tuple[float, float]], now: float, ahead: int) -> None:
    tried = [step(f"Step {number}", begun, begun + length) for number, (begun, length) in enumerate(spans)]
    drawn = timeline.draw(run(steps=[*tried, *(step(f"Planned {number}") for number in range(ahead))]), at(now))
    for row in drawn.rows:
        for bar in row.bars:
            assert bar.start >= 0
            assert bar.length >= -1e-9
            assert bar.start + bar.length <= 1 + 1e-9
    assert all(0 <= tick.at <= drawn.scale + 1e-9 for tick in drawn.ticks)
    assert len(drawn.ticks) <= timeline.TICKS + 1
    assert sum(fold.seconds for fold in drawn.folds) <= now + 1e-9
