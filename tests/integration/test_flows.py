"""Workflows as their owners and operators see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, NotFound
from conductor.core.states import RunState, StepState
from conductor.services import event_log, flows
from tests import factories

ALIASES = ("default", "cell0", "cell1", "cell2")


@dataclass
class Askers:
    ana: RequestContext
    chi: RequestContext
    admin: RequestContext


@pytest.fixture
def askers(people: Any) -> Askers:
    factories.cells()
    return Askers(people.ana.context(), people.chi.context(), people.admin.context())


def queries(call: Any) -> int:
    captures = [CaptureQueriesContext(connections[alias]) for alias in ALIASES]
    for capture in captures:
        capture.__enter__()
    call()
    for capture in captures:
        capture.__exit__(None, None, None)
    return sum(len(capture) for capture in captures)


def test_a_run_shows_what_was_tried_and_what_is_planned(askers: Askers) -> None:
    parent, child = factories.build(askers.ana, "web-1")
    view = flows.get(askers.admin, parent.uuid)
    assert [(step.title, step.state) for step in view.steps] == [
        ("Choose hosts", "done"),
        ("Create in cell", "done"),
        ("Hand over to cell", "done"),
    ]
    (inner,) = view.children
    assert inner.uuid == str(child.uuid)
    assert inner.parent_uuid == str(parent.uuid)
    assert [(step.title, step.state, step.lane) for step in inner.steps] == [
        ("Claim host", "done", "Cell conductor"),
        ("Plug networks", "done", "Cell conductor"),
        ("Spawn on host", "waiting", "Compute/sim-1"),
        ("Activate", "planned", "Cell conductor"),
    ]
    assert inner.locks == [f"instance:{child.instance_uuid}"]
    assert (inner.step_number, inner.step_count, inner.step_title) == (3, 4, "Spawn on host")


def test_a_run_in_a_cell_is_found_by_its_own_name(askers: Askers) -> None:
    _, child = factories.build(askers.ana, "web-1", "cell2")
    assert flows.get(askers.ana, str(child.uuid)).cell == "cell2"


def test_the_plan_of_a_new_attempt_starts_again(askers: Askers) -> None:
    run = factories.run(askers.ana, "cell1", attempt=2, position=1)
    factories.step(run, 0, 9, 8)
    factories.step(run, 1, 8, 7, state=StepState.FAILED, error={"message": "no", "class": "DriverError"})
    factories.step(run, 0, 6, 5, direction="undo", state=StepState.UNDONE)
    factories.step(run, 0, 4, 3, attempt=2)
    steps = flows.get(askers.ana, run.uuid).steps
    assert [(step.name, step.direction, step.attempt, step.state) for step in steps] == [
        ("ClaimDestination", "do", 1, "done"),
        ("PlugNetworks", "do", 1, "failed"),
        ("ClaimDestination", "undo", 1, "undone"),
        ("ClaimDestination", "do", 2, "done"),
        ("PlugNetworks", "do", 2, "planned"),
        ("SpawnOnHost", "do", 2, "planned"),
        ("MarkActive", "do", 2, "planned"),
    ]


def test_a_tenant_sees_that_it_was_another_host_but_not_which(askers: Askers) -> None:
    run = factories.run(
        askers.ana, "cell1", attempt=2, state=RunState.WAITING, waits_for={"cause": "host", "detail": "sim-9"}
    )
    factories.step(run, 2, 9, 8, host="sim-1", state=StepState.FAILED, result={"host": "sim-1"})
    factories.step(run, 2, 7, None, host="sim-9", attempt=2)
    factories.lock(run, "host:sim-9")
    view = flows.get(askers.ana, run.uuid)
    tried = [step for step in view.steps if step.started_at]
    assert [(step.host, step.lane) for step in tried] == [("host 1", "Compute/host 1"), ("host 2", "Compute/host 2")]
    assert view.waits_for == {"cause": "host", "detail": ""}
    assert "sim-" not in repr(view)
    assert "worker-1" not in repr(view)
    assert "sim-9" in repr(flows.get(askers.admin, run.uuid))


@pytest.mark.parametrize("alias", ["default", "cell1"])
def test_another_projects_run_does_not_exist(askers: Askers, alias: str) -> None:
    run = factories.run(askers.ana, alias)
    for call in (flows.get, lambda context, uuid: flows.events_since(context, uuid, {})):
        with pytest.raises(NotFound):
            call(askers.chi, run.uuid)
    assert flows.list_runs(askers.chi).items == []
    assert flows.briefs(askers.chi, [str(run.uuid)]) == {}
    assert flows.count(askers.chi, states=[RunState.RUNNING]) == 0
    assert [view.uuid for view in flows.list_runs(askers.admin).items] == [str(run.uuid)]


@pytest.mark.parametrize("name", ["", "x", str(uuid4()), "'; --"])
def test_a_name_that_is_no_runs_is_not_found(askers: Askers, name: str) -> None:
    with pytest.raises(NotFound):
        flows.get(askers.ana, name)


def test_a_list_shows_children_instead_of_the_run_that_handed_over(askers: Askers) -> None:
    _, child = factories.build(askers.ana, "web-1")
    queued = factories.run(askers.ana, state=RunState.QUEUED, age=1)
    assert [view.uuid for view in flows.list_runs(askers.ana).items] == [str(queued.uuid), str(child.uuid)]
    waiting = flows.list_runs(askers.ana, states=[RunState.WAITING]).items
    assert [view.uuid for view in waiting] == [str(child.uuid)]
    assert flows.count(askers.ana, states=[RunState.WAITING, RunState.QUEUED]) == 2


def test_an_administrator_may_look_at_one_project_only(askers: Askers) -> None:
    own = factories.run(askers.admin)
    factories.run(askers.ana)
    assert [view.uuid for view in flows.list_runs(askers.admin, only_own_project=True).items] == [str(own.uuid)]
    assert len(flows.list_runs(askers.admin).items) == 2
    assert flows.count(askers.admin, states=[RunState.RUNNING]) == 1


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_a_walk_gives_every_run_once(askers: Askers, limit: int) -> None:
    for number in range(7):
        factories.run(askers.ana, ("default", "cell1", "cell2")[number % 3], age=10 + number // 2)
    seen: list[str] = []
    marker = ""
    while True:
        page = flows.list_runs(askers.ana, limit=limit, marker=marker)
        seen += [view.uuid for view in page.items]
        if not page.has_more:
            break
        marker = page.items[-1].uuid
    assert len(seen) == len(set(seen)) == 7


def test_a_marker_of_another_project_is_refused(askers: Askers) -> None:
    run = factories.run(askers.ana)
    with pytest.raises(Invalid):
        flows.list_runs(askers.chi, marker=str(run.uuid))


def test_the_runs_of_an_instance_are_its_history(askers: Askers) -> None:
    _, child = factories.build(askers.ana, "web-1")
    gone = factories.run(askers.ana, "cell1", flow="delete_instance", age=1, instance_uuid=child.instance_uuid)
    views = flows.for_instance(askers.ana, child.instance_uuid)
    assert [view.uuid for view in views] == [str(gone.uuid), str(child.uuid)]
    with pytest.raises(NotFound):
        flows.for_instance(askers.chi, child.instance_uuid)


def test_queries_do_not_grow_with_rows(askers: Askers) -> None:
    parent, _ = factories.build(askers.ana, "web-1")
    few = queries(lambda: flows.get(askers.ana, parent.uuid)), queries(lambda: flows.list_runs(askers.ana))
    for number in range(10):
        child = factories.run(askers.ana, "cell1", parent_uuid=parent.uuid, instance_name=f"web-{number}")
        factories.step(child, 0, 5, 4)
    many = queries(lambda: flows.get(askers.ana, parent.uuid)), queries(lambda: flows.list_runs(askers.ana))
    assert many == few
    assert few == (10, 4)


def test_events_come_in_order_after_a_place_in_the_log(askers: Askers) -> None:
    parent, child = factories.build(askers.ana, "web-1")
    factories.tell(parent, "run.started")
    factories.tell(child, "step.started", step="SpawnOnHost", host="sim-1")
    here = event_log.here()
    factories.tell(child, "step.done", step="SpawnOnHost", host="sim-1")
    events = flows.events_since(askers.ana, parent.uuid, {})
    assert [event.kind for event in events] == ["run.started", "step.started", "step.done"]
    assert all("host" not in event.data for event in events)
    assert [event.kind for event in flows.events_since(askers.admin, parent.uuid, here)] == ["step.done"]


def test_news_are_counted_per_viewer(askers: Askers) -> None:
    run = factories.run(askers.ana)
    before = event_log.here()
    factories.tell(run, "run.started")
    topics = [f"wf:{run.uuid}"]
    assert event_log.news(askers.ana, before, topics=topics).count == 1
    assert event_log.news(askers.ana, event_log.here(), topics=topics).count == 0
    assert event_log.news(askers.chi, before, topics=topics).count == 0
    assert event_log.news(askers.admin, before).count == 1


def test_a_cursor_is_text_and_back(askers: Askers) -> None:
    assert event_log.read_cursor("cell1:40,default:12,elsewhere:3") == {"cell1": 40, "default": 12}
    assert event_log.write_cursor({"default": 12, "cell1": 40}) == "cell1:40,default:12"
    for wrong in ("default", "default:x", "default:-1", "default:" + "9" * 30):
        with pytest.raises(Invalid):
            event_log.read_cursor(wrong)
