"""The history of an instance: one action per request, its events the steps of all the workflows that carried it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from conductor.core.errors import NotFound
from conductor.db.transactions import database_now, database_time
from conductor.journal.models import StepRecord, WorkflowRun
from conductor.services.servers import instances
from tests.compute_rows import Cloud, make_cloud, make_instance
from tests.people import People

PLAN = [{"name": "A", "title": "A", "lane": "", "event": "first"}, {"name": "B", "title": "B", "lane": "", "event": ""}]


@pytest.fixture
def cloud(people: People) -> Cloud:
    return make_cloud(people)


def run(alias: str, request_id: str, action: str, *, minutes: int, **values: Any) -> WorkflowRun:
    created_at = database_time() - timedelta(minutes=minutes)
    given = {"flow": "f", "queue": "q", "plan": PLAN, "project_id": "p", "user_id": "u", "wake_at": database_now()}
    return WorkflowRun.objects.using(alias).create(
        request_id=request_id, action=action, created_at=created_at, **(given | values)
    )


def step(made: WorkflowRun, alias: str, index: int, state: str, **values: Any) -> None:
    StepRecord.objects.using(alias).create(
        run=made,
        index=index,
        name=PLAN[index]["name"],
        state=state,
        step_key=f"{made.uuid}:{index}:{values.get('try_number', 1)}:{values.get('direction', 'do')}",
        fencing_token=1,
        started_at=made.created_at,
        finished_at=made.created_at + timedelta(seconds=1),
        **values,
    )


def test_the_workflows_of_one_request_are_one_action(cloud: Cloud) -> None:
    ana = cloud.people.ana.context()
    row = make_instance(ana, "cell1", "web")
    requested = run("default", "req-1", "create", minutes=5)
    from conductor.api_db.models import InstanceMapping

    InstanceMapping.objects.update(build_run_uuid=requested.uuid)
    step(requested, "default", 0, "done")
    built = run("cell1", "req-1", "create", minutes=4, instance_uuid=row.uuid, state="failed (undone)")
    step(built, "cell1", 0, "failed", host="sim-1-01", error={"message": "no disk"})
    step(built, "cell1", 0, "done", host="sim-1-02", try_number=2)
    step(built, "cell1", 1, "done")
    step(built, "cell1", 0, "undone", direction="undo")
    run("cell1", "req-2", "delete", minutes=1, instance_uuid=row.uuid)
    run("cell1", "req-3", "create", minutes=1, instance_uuid="11111111-1111-1111-1111-111111111111")
    latest, first = instances.history(ana, str(row.uuid))
    assert (latest.request_id, latest.action, latest.is_failed, latest.events) == ("req-2", "delete", False, ())
    assert (first.request_id, first.action, first.is_failed) == ("req-1", "create", True)
    assert [(event.event, event.result, event.host, event.details) for event in first.events] == [
        ("first", "Success", "", None),
        ("first", "Error", "sim-1-01", "no disk"),
        ("first", "Success", "sim-1-02", None),
    ]
    assert first.updated_at == built.created_at + timedelta(seconds=1)


def test_history_outlives_the_instance_and_stays_in_its_project(cloud: Cloud) -> None:
    ana = cloud.people.ana.context()
    row = make_instance(ana, "cell1", "web", deleted_at=database_now(), vm_state="deleted")
    run("cell1", "req-2", "delete", minutes=1, instance_uuid=row.uuid)
    assert [action.action for action in instances.history(ana, str(row.uuid))] == ["delete"]
    with pytest.raises(NotFound):
        instances.history(cloud.people.chi.context(), str(row.uuid))
