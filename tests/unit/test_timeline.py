"""Workflows as faces and timelines."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.core.states import RunState, StepState
from conductor.services import run_states
from conductor.services.values import RunView, StepView
from portal.pages import faces, graph, timeline
from portal.pages.faces import Face

BEGIN = datetime(2026, 1, 31, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def run(**values: object) -> RunView:
    usual = RunView(
        uuid="11111111-1111-4111-8111-111111111111",
        flow="build_in_cell",
        flow_version=1,
        action="create",
        state=RunState.RUNNING,
        cell="cell1",
        instance_uuid="22222222-2222-4222-8222-222222222222",
        instance_name="web-1",
        project_id="p",
        user_id="u",
        user_name="ana",
        request_id="req-1",
        attempt=1,
        owner="",
        fencing_token=1,
        waits_for=None,
        is_cancel_requested=False,
        error=None,
        leftovers=[],
        created_at=BEGIN,
        started_at=at(1),
        finished_at=None,
    )
    return replace(usual, **values)  # type: ignore[arg-type]


def step(title: str, begun: float | None = None, ended: float | None = None, **values: object) -> StepView:
    usual = StepView(
        index=0,
        name=title.title().replace(" ", ""),
        title=title,
        lane="Cell conductor",
        event="",
        direction="do",
        attempt=1,
        try_number=0 if begun is None else 1,
        state=StepState.PLANNED if begun is None else StepState.RUNNING if ended is None else StepState.DONE,
        started_at=None if begun is None else at(begun),
        finished_at=None if ended is None else at(ended),
    )
    return replace(usual, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize("state", RunState)
def test_every_state_of_a_run_has_a_tone_and_keeps_its_word(state: str) -> None:
    face = faces.of_run(run(state=state))
    assert face.tone == faces.RUN_TONES[state]
    assert face.word == state


@pytest.mark.parametrize("state", StepState)
def test_every_state_of_a_step_has_a_tone(state: str) -> None:
    assert faces.of_step(step("Claim", 1, state=state)).tone in faces.TONES


def test_a_run_that_waits_for_a_host_is_running_there() -> None:
    waits_for = {"cause": "host", "detail": "sim-1"}
    assert faces.of_run(run(waits_for=waits_for)) == Face("working", "running", "on sim-1")
    back = run(state=RunState.UNDOING, waits_for=waits_for)
    assert faces.of_run(back) == Face("undo", "undoing", "on sim-1")


def test_a_run_that_waits_for_a_lock_says_so() -> None:
    waiting = run(state=RunState.QUEUED, waits_for={"cause": "lock", "detail": "instance:1"})
    assert faces.of_run(waiting) == Face("waiting", "queued", "for a lock: instance:1")


def test_what_may_have_leaked_is_loud() -> None:
    assert faces.of_run(run(state=RunState.FAILED_NOT_CLEAN)).is_loud
    assert not faces.of_run(run(state=RunState.FAILED_UNDONE)).is_loud


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
    story = run(state=RunState.DONE, children=[run(state=state) for state in children])
    face = faces.of_story(story)
    assert (face.tone, face.word) == wanted


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
    assert [row.title for row in drawn.rows] == ["Accept", "Spawn", "Undo: Spawn", "Spawn"]
    assert drawn.rows[2].bars[0].is_undo
    assert drawn.rows[3].lane_detail == "sim-2"


TRIED = step("Claim", 1, 2)
AHEAD = step("Spawn", index=1)
BACK = step("Claim", 2, None, direction="undo")


@pytest.mark.parametrize(
    ("story", "word"),
    [
        (run(steps=[TRIED, AHEAD]), "planned"),
        (run(attempt=2, steps=[TRIED, BACK, replace(AHEAD, attempt=2)]), "planned"),  # it goes forward again
        (run(state=RunState.UNDOING, steps=[TRIED, AHEAD]), "not run"),
        (run(state=RunState.WAITING, steps=[TRIED, BACK, AHEAD]), "not run"),  # for the next try of an undo
        (run(state=RunState.FAILED_UNDONE, finished_at=at(3), steps=[TRIED, AHEAD]), "not run"),
    ],
)
def test_what_will_never_come_is_not_planned(story: RunView, word: str) -> None:
    story = run_states.with_steps_ahead(story)
    drawn = timeline.draw(story, at(9))
    assert (drawn.rows[-1].face.word, bool(drawn.rows[-1].bars)) == (word, word == "planned")
    assert f"1 {word}" in drawn.summary
    assert word in graph.draw(story).nodes[-1].note


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
