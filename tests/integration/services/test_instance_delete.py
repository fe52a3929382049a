"""Deleting: from every stage of a build, twice, and while the build moves on."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connections

from conductor.api_db.models import BuildRequest, CellMapping, InstanceMapping
from conductor.cell_db.models import Instance
from conductor.core.errors import NotFound
from conductor.core.states import RunState
from conductor.db.transactions import database_now, write_tx
from conductor.journal.models import Event, LockWait, ResourceLock, WorkflowRun
from conductor.rpc import outbox
from conductor.services.servers import deletions, instances, queries
from conductor.services.servers.types import InstanceCreate
from tests.compute_rows import Cloud, make_cloud, make_instance
from tests.people import People
from tests.waiting import WAIT_SECONDS


@pytest.fixture
def cloud(people: People) -> Cloud:
    return make_cloud(people)


def launch(cloud: Cloud) -> str:
    body = InstanceCreate(name="web", flavor_ref="1", image_ref=str(cloud.image.uuid))
    return instances.create(cloud.people.ana.context(), body).instance_uuids[0]


def move_to_cell(instance_uuid: str, cell: str = "cell1") -> None:
    """Move an instance to a cell, like CreateInCells."""
    request = BuildRequest.objects.get(instance_uuid=instance_uuid)
    Instance.objects.using(cell).create(
        uuid=instance_uuid, **request.instance, created_at=request.created_at, updated_at=database_now()
    )
    with write_tx():
        InstanceMapping.objects.filter(instance_uuid=instance_uuid).update(cell=CellMapping.objects.get(name=cell))
        request.delete()


def runs(alias: str = "cell1") -> list[tuple[str, str, bool]]:
    return list(WorkflowRun.objects.using(alias).order_by("pk").values_list("flow", "state", "is_cancel_requested"))


def test_a_request_is_marked_and_stays_visible_as_going(cloud: Cloud) -> None:
    uuid = launch(cloud)
    ana = cloud.people.ana.context()
    for _ in range(2):
        instances.delete(ana, uuid)
        view = instances.get(ana, uuid)
        assert (view.status, view.task_state) == ("BUILD", "deleting")
    assert BuildRequest.objects.get().is_deleting
    assert runs("default") == [("build_instances", "queued", False)]
    assert Event.objects.using("default").filter(kind="instance.updated").count() == 1


def test_an_instance_in_a_cell_gets_one_workflow_however_often_requested(cloud: Cloud) -> None:
    ana = cloud.people.ana.context()
    row = make_instance(ana, "cell1", "web", host="sim-1-01")
    for _ in range(3):
        instances.delete(ana, str(row.uuid))
    assert runs() == [("delete_instance", "queued", False)]
    run = WorkflowRun.objects.using("cell1").get()
    assert (run.action, str(run.instance_uuid), run.instance_name) == ("delete", str(row.uuid), "web")
    assert run.request_id == ana.request_id
    view = instances.get(ana, str(row.uuid))
    assert (view.status, view.task_state, view.run_uuid) == ("ACTIVE", "deleting", str(run.uuid))


def test_a_build_under_way_is_cancelled_and_the_delete_waits_for_it(cloud: Cloud) -> None:
    ana = cloud.people.ana.context()
    row = make_instance(ana, "cell1", "web", vm_state="building", task_state="spawning", host="sim-1-01")
    with write_tx("cell1"):
        build = outbox.open_run(
            "cell1",
            outbox.NewRun(
                flow="build_in_cell",
                action="create",
                context=ana,
                resources=[f"instance:{row.uuid}"],
                instance_uuid=row.uuid,
            ),
        )
    instances.delete(ana, str(row.uuid))
    instances.delete(ana, str(row.uuid))
    assert runs() == [("build_in_cell", "queued", True), ("delete_instance", "queued", False)]
    assert ResourceLock.objects.using("cell1").get().run_id == build.pk
    assert LockWait.objects.using("cell1").get().run.flow == "delete_instance"


def test_a_delete_by_an_administrator_belongs_to_the_owners_project(cloud: Cloud) -> None:
    ana = cloud.people.ana.context()
    row = make_instance(ana, "cell1", "web")
    instances.delete(cloud.people.admin.context(), str(row.uuid))
    run = WorkflowRun.objects.using("cell1").get()
    assert (run.project_id, run.user_id) == (ana.project_id, cloud.people.admin.user.id)


def test_deleting_a_missing_or_foreign_server_changes_nothing(cloud: Cloud) -> None:
    ana = cloud.people.ana.context()
    foreign = make_instance(cloud.people.chi.context(), "cell1", "foreign")
    gone = make_instance(ana, "cell1", "gone", deleted_at=database_now(), vm_state="deleted")
    for ref in (str(foreign.uuid), str(gone.uuid), "11111111-1111-1111-1111-111111111111", "web", "", "\x00"):
        with pytest.raises(NotFound):
            instances.delete(ana, ref)
        with pytest.raises(NotFound):
            instances.get(ana, ref)
    assert runs() == []
    assert Instance.objects.using("cell1").filter(task_state="deleting").count() == 0


def test_a_deleted_build_request_is_not_found(cloud: Cloud) -> None:
    uuid = launch(cloud)
    with write_tx():
        BuildRequest.objects.all().delete()
        InstanceMapping.objects.update(is_deleted=True)
    with pytest.raises(NotFound):
        instances.get(cloud.people.ana.context(), uuid)
    with pytest.raises(NotFound):
        instances.delete(cloud.people.ana.context(), uuid)


def test_a_request_that_gets_its_cell_meanwhile_is_deleted_there(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    uuid = launch(cloud)
    real = queries.mapping_of
    looks = []

    def look_then_move(context: Any, ref: str) -> Any:
        seen = real(context, ref)
        if not looks:
            move_to_cell(uuid)
        looks.append(seen.cell)
        return seen

    monkeypatch.setattr(deletions, "mapping_of", look_then_move)
    instances.delete(cloud.people.ana.context(), uuid)
    assert looks[0] is None
    assert looks[1].name == "cell1"
    assert runs() == [("delete_instance", "queued", False)]
    assert Instance.objects.using("cell1").get().task_state == "deleting"


@pytest.mark.parametrize("in_cell", [True, False])
def test_many_deletes_at_once_open_one_workflow(in_cell: bool, cloud: Cloud) -> None:
    ana = cloud.people.ana.context()
    uuid = launch(cloud)
    if in_cell:
        move_to_cell(uuid)
    failures = []

    def delete() -> None:
        try:
            instances.delete(ana, uuid)
        except Exception as error:
            failures.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=delete) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=WAIT_SECONDS)
    assert failures == []
    assert runs() == ([("delete_instance", RunState.QUEUED, False)] if in_cell else [])
    assert BuildRequest.objects.filter(is_deleting=True).count() == (0 if in_cell else 1)


def test_delete_against_the_move_into_a_cell_always_ends_in_a_delete(cloud: Cloud) -> None:
    ana = cloud.people.ana.context()
    uuids = [launch(cloud) for _ in range(10)]
    failures = []

    def delete() -> None:
        try:
            for uuid in uuids:
                instances.delete(ana, uuid)
        except Exception as error:
            failures.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=delete)
    thread.start()
    for uuid in uuids:
        with write_tx():
            run_uuid = BuildRequest.objects.values_list("run_uuid", flat=True).get(instance_uuid=uuid)
            assert outbox.hold("default", uuid=run_uuid)  # as its workflow does before it decides
            is_deleting = BuildRequest.objects.get(instance_uuid=uuid).is_deleting
            if not is_deleting:
                move_to_cell(uuid)
    thread.join(timeout=WAIT_SECONDS)
    assert failures == []
    requested = {str(row.instance_uuid) for row in BuildRequest.objects.filter(is_deleting=True)}
    moved = {str(run.instance_uuid) for run in WorkflowRun.objects.using("cell1").filter(flow="delete_instance")}
    assert requested | moved == set(uuids)
    assert requested & moved == set()
