"""Retry of a failed build: never lost, never doubled, with any failure and any concurrent deletion."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from conductor.api_db.models import BuildRequest, InstanceMapping
from conductor.cell_db.models import Instance, InstanceFault, Service
from conductor.cells.lookup import cell_aliases
from conductor.core.errors import Conflict, NotFound
from conductor.core.states import RunState, VmState
from conductor.db.transactions import database_now
from conductor.image.models import Image
from conductor.journal.models import ResourceLock, WorkflowRun
from conductor.services.servers import action_history, build_retries, instances
from conductor.workflows.engine import executor
from conductor.workflows.flow import Step
from conductor.workflows.flows.build_retries import TRY_AGAIN
from tests.fixtures.builds import ana, held, instance_of, launch, run_to_the_end
from tests.fleet import silence
from tests.trouble import Trouble, trouble

__all__ = ["ana", "trouble"]
LIVING = {"allocations": 3, "used": 3, "ports": 1, "addresses": 1}
HOSTS = ("sim-1", "sim-2")


def homes(uuid: str) -> list[str]:
    """Return every cell that has a row of the server, deleted ones too."""
    return [alias for alias in cell_aliases() if Instance.objects.using(alias).filter(uuid=uuid).exists()]


def failed_without_a_host(context: Any) -> str:
    """Return a server in cell0: no host answered when it was launched, and all do now."""
    for host in HOSTS:
        silence(host)
    uuid = launch(context)
    run_to_the_end()
    assert homes(uuid) == ["cell0"]
    Service.objects.using("cell1").update(last_seen_at=database_now())
    return uuid


def failed_on_its_hosts(context: Any) -> str:
    """Return a server in error in its cell: each host has refused it."""
    uuid = launch(context)
    run_to_the_end(refused=2)
    assert (homes(uuid), instance_of(uuid).vm_state) == (["cell1"], VmState.ERROR)
    return uuid


FAILED = [failed_without_a_host, failed_on_its_hosts]


def everything() -> list[Any]:
    counts = [model.objects.using("default").count() for model in (WorkflowRun, ResourceLock, BuildRequest)]
    rows = [list(Instance.objects.using(alias).order_by("pk").values()) for alias in cell_aliases()]
    return [*counts, *rows, *InstanceMapping.objects.order_by("pk").values()]


@pytest.mark.parametrize("fail", FAILED)
def test_a_retry_builds_the_server_under_its_uuid_and_name(fail: Any, ana: Any) -> None:
    uuid = fail(ana)
    before = instance_of(uuid)
    run_uuid = build_retries.try_again(ana, uuid)
    view = instances.get(ana, uuid)
    assert (view.status, view.name, view.task_state, view.run_uuid) == ("BUILD", "web-1", "scheduling", run_uuid)
    run_to_the_end()
    after = instance_of(uuid)
    assert (after.vm_state, after.task_state, after.name) == (VmState.ACTIVE, None, "web-1")
    assert (after.created_at, after.reservation_id) == (before.created_at, before.reservation_id)
    assert homes(uuid) == ["cell1"]
    assert not any(InstanceFault.objects.using(alias).exists() for alias in cell_aliases())
    assert InstanceMapping.objects.count() == 1
    assert held() == LIVING


@pytest.mark.parametrize("step", TRY_AGAIN.steps, ids=lambda step: step.name)
@pytest.mark.parametrize("fail", FAILED)
def test_a_step_that_fails_for_ever_leaves_it_in_error_once(fail: Any, step: Step, ana: Any, trouble: Trouble) -> None:
    uuid = fail(ana)
    is_forward = step.name in ("LeaveOldCell", "HandOver")
    trouble.strike(step, "execute", times=4 if is_forward else 10_000)
    run_uuid = build_retries.try_again(ana, uuid)
    run_to_the_end()
    instance = instance_of(uuid)
    run = WorkflowRun.objects.using("default").get(uuid=run_uuid)
    if is_forward:
        assert (instance.vm_state, homes(uuid), run.state) == (VmState.ACTIVE, ["cell1"], RunState.DONE)
        assert held() == LIVING
        return
    assert (instance.vm_state, instance.task_state, homes(uuid)) == (VmState.ERROR, None, ["cell0"])
    assert InstanceFault.objects.using("cell0").get(instance_uuid=uuid).message == "RuntimeError"
    assert held() == {}


def test_a_build_can_be_retried_repeatedly(ana: Any) -> None:
    uuid = failed_without_a_host(ana)
    for host in HOSTS:
        silence(host)
    first = {action.request_id for action in action_history.list_actions(ana, uuid)}
    for number in range(3):
        build_retries.try_again(replace(ana, request_id=f"req-again-{number}"), uuid)
        run_to_the_end()
        assert (instance_of(uuid).vm_state, homes(uuid), held()) == (VmState.ERROR, ["cell0"], {})
    Service.objects.using("cell1").update(last_seen_at=database_now())
    build_retries.try_again(replace(ana, request_id="req-again-3"), uuid)
    run_to_the_end()
    assert (instance_of(uuid).vm_state, homes(uuid), held()) == (VmState.ACTIVE, ["cell1"], LIVING)
    found = {action.request_id for action in action_history.list_actions(ana, uuid)}
    assert found == {*first, *(f"req-again-{number}" for number in range(4))}


@pytest.mark.parametrize("step", TRY_AGAIN.steps, ids=lambda step: step.name)
@pytest.mark.parametrize("fail", FAILED)
def test_a_delete_after_any_step_wins(fail: Any, step: Step, ana: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    uuid = fail(ana)
    whole = type(step).execute

    def then_deleted(self: Step, work: Any) -> Any:
        result = whole(self, work)
        instances.delete(ana, uuid)
        return result

    build_retries.try_again(ana, uuid)
    monkeypatch.setattr(type(step), "execute", then_deleted)
    run_to_the_end()
    assert InstanceMapping.objects.get().is_deleted
    assert [alias for alias in homes(uuid) if Instance.objects.using(alias).alive().filter(uuid=uuid).exists()] == []
    assert held() == {}


def test_a_delete_that_was_at_the_old_row_first_wins(ana: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    uuid = failed_on_its_hosts(ana)
    looked = build_retries._refuse_what_cannot

    def then_deleted(*args: Any) -> None:
        looked(*args)
        instances.delete(ana, uuid)

    monkeypatch.setattr(build_retries, "_refuse_what_cannot", then_deleted)
    build_retries.try_again(ana, uuid)
    run_to_the_end()
    assert InstanceMapping.objects.get().is_deleted
    assert not Instance.objects.using("cell1").alive().exists()
    assert held() == {}
    with pytest.raises(NotFound):
        instances.get(ana, uuid)


def test_a_delete_that_looked_before_and_comes_after_finds_the_request(ana: Any) -> None:
    uuid = failed_on_its_hosts(ana)
    run_uuid = build_retries.try_again(ana, uuid)
    executor.run("default", run_uuid)
    instances.delete(ana, uuid)
    run_to_the_end()
    assert InstanceMapping.objects.get().is_deleted
    assert held() == {}


def test_a_retry_requested_twice_runs_once(ana: Any) -> None:
    uuid = failed_without_a_host(ana)
    build_retries.try_again(ana, uuid)
    before = everything()
    with pytest.raises(Conflict, match="still being scheduled"):
        build_retries.try_again(ana, uuid)
    assert everything() == before


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"vm_state": "active"}, "it is in vm_state active"),
        ({"task_state": "deleting"}, "it is in task_state deleting"),
        ({"launched_at": database_now()}, "rebuild it instead"),
        ({"is_locked": True}, "is locked"),
        ({"networks": [{"network_id": "1" * 32, "port_id": "", "fixed_ip": ""}]}, "could not be found"),
    ],
)
def test_builds_that_cannot_be_retried_are_refused(values: dict[str, Any], words: str, ana: Any) -> None:
    uuid = failed_on_its_hosts(ana)
    Instance.objects.using("cell1").filter(uuid=uuid).update(**values)
    before = everything()
    with pytest.raises(Conflict, match=words):
        build_retries.try_again(ana, uuid)
    assert everything() == before


def test_an_image_that_is_gone_is_named(ana: Any) -> None:
    uuid = failed_on_its_hosts(ana)
    Image.objects.update(deleted_at=database_now(), status="deleted")
    before = everything()
    with pytest.raises(Conflict, match="Can not find requested image"):
        build_retries.try_again(ana, uuid)
    assert everything() == before


def test_a_build_that_left_something_is_not_tried_again(ana: Any) -> None:
    uuid = failed_on_its_hosts(ana)
    WorkflowRun.objects.using("cell1").filter(flow="build_in_cell").update(state=RunState.FAILED_NOT_CLEAN)
    with pytest.raises(Conflict, match="delete it"):
        build_retries.try_again(ana, uuid)


def test_servers_of_another_project_are_not_found(ana: Any, people: Any) -> None:
    uuid = failed_on_its_hosts(ana)
    before = everything()
    with pytest.raises(NotFound):
        build_retries.try_again(people.chi.context(), uuid)
    assert everything() == before
