"""Everyday actions with each step failing in turn: accepted actions end, and no resource stays claimed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from conductor.cell_db.models import Instance, InstanceFault
from conductor.core.compute_driver import GuestFile
from conductor.core.errors import Conflict, Invalid, NotFound, NotSupported, ResourceLocked, Unavailable
from conductor.core.server_actions import ACTIONS
from conductor.core.states import PowerState, RunState, TaskState, VmState
from conductor.image.models import Image
from conductor.journal import sealing
from conductor.journal.models import OutboxMessage, ResourceLock, WorkflowRun
from conductor.rpc import outbox
from conductor.rpc.messages import StepAnswered
from conductor.services.servers import actions, instances, rebuilds
from conductor.services.servers.rebuilds import RebuildRequest
from conductor.workflows import catalog
from conductor.workflows.engine import executor
from conductor.workflows.flow import Step
from tests.fixtures.builds import ana, held, instance_of, part_of, run_to_the_end
from tests.fixtures.power import LIVING, built, engine_wakes
from tests.fleet import silence
from tests.sqlite_copies import content_of
from tests.trouble import Trouble, trouble

__all__ = ["ana", "trouble"]
SECRET = "correct horse battery"
Ask = Callable[[Any, str], str]


def begin(name: str) -> Ask:
    return lambda context, uuid: actions.begin(context, uuid, name)


def rebuild(context: Any, uuid: str) -> str:
    other = Image.objects.create(
        name="other", project_id=context.project_id, status="active", disk_format="raw", container_format="bare",
        size=1024, created_at=Image.objects.first().created_at, updated_at=Image.objects.first().updated_at,
    )  # fmt: skip
    requested = RebuildRequest(image_ref=str(other.uuid), values={"name": "renamed"}, admin_password=SECRET)
    return rebuilds.rebuild(context, uuid, requested)


@dataclass(frozen=True)
class Case:
    """One action: where it begins, what it shows, where it ends; and where when its `breaking` step fails for ever."""

    name: str
    before: VmState
    after: VmState
    power: PowerState
    ask: Ask
    breaking: str = ""

    def __str__(self) -> str:
        return self.name


def case(name: str, before: VmState, after: VmState, power: PowerState, ask: Ask | None = None, **more: str) -> Case:
    return Case(name, before, after, power, ask or begin(name), **more)


def rescue(context: Any, uuid: str) -> str:
    return rebuilds.rescue(context, uuid, admin_password=SECRET)


def change_password(context: Any, uuid: str) -> str:
    return rebuilds.change_password(context, uuid, SECRET)


CASES = [
    case("start", VmState.STOPPED, VmState.ACTIVE, PowerState.RUNNING),
    case("stop", VmState.ACTIVE, VmState.STOPPED, PowerState.SHUTDOWN),
    case("reboot", VmState.ACTIVE, VmState.ACTIVE, PowerState.RUNNING),
    case("reboot_hard", VmState.ERROR, VmState.ACTIVE, PowerState.RUNNING),
    case("pause", VmState.ACTIVE, VmState.PAUSED, PowerState.PAUSED),
    case("unpause", VmState.PAUSED, VmState.ACTIVE, PowerState.RUNNING),
    case("suspend", VmState.ACTIVE, VmState.SUSPENDED, PowerState.SHUTDOWN),
    case("resume", VmState.SUSPENDED, VmState.ACTIVE, PowerState.RUNNING),
    case("changePassword", VmState.ACTIVE, VmState.ACTIVE, PowerState.RUNNING, change_password),
    case("rescue", VmState.ACTIVE, VmState.RESCUED, PowerState.RUNNING, rescue),
    case("unrescue", VmState.RESCUED, VmState.ACTIVE, PowerState.RUNNING),
    case("rebuild", VmState.ACTIVE, VmState.ACTIVE, PowerState.RUNNING, rebuild, breaking="RebuildGuest"),
    case("trigger_crash_dump", VmState.ACTIVE, VmState.ACTIVE, PowerState.RUNNING),
    case("soft_delete", VmState.ACTIVE, VmState.SOFT_DELETED, PowerState.SHUTDOWN),
    case("restore", VmState.SOFT_DELETED, VmState.ACTIVE, PowerState.RUNNING),
]


def steps_of(one: Case) -> tuple[Step, ...]:
    flow = ACTIONS[one.name].flow
    return next(found for found in catalog.FLOWS if found.name == flow).steps


STEPS = [pytest.param(one, step, id=f"{one}-{step.name}") for one in CASES for step in steps_of(one)]


def run_of(uuid: str) -> WorkflowRun:
    return WorkflowRun.objects.using("cell1").get(uuid=uuid)


def everything(alias: str = "cell1") -> list[Any]:
    """Return everything that a refused request could have changed."""
    counts = [model.objects.using(alias).count() for model in (WorkflowRun, ResourceLock, OutboxMessage)]
    return [*counts, *Instance.objects.using(alias).order_by("pk").values()]


@pytest.mark.parametrize("one", CASES, ids=str)
def test_an_action_shows_that_it_is_under_way_and_ends_in_its_state(one: Case, ana: Any) -> None:
    uuid = built(ana, one.before)
    run_uuid = one.ask(ana, uuid)
    assert instance_of(uuid).task_state == ACTIONS[one.name].task_state
    assert run_of(run_uuid).action == one.name
    run_to_the_end()
    instance = instance_of(uuid)
    assert (instance.vm_state, instance.task_state) == (one.after, None)
    if one.name != "trigger_crash_dump":
        assert instance.power_state == one.power
    run = run_of(run_uuid)
    assert (run.state, run.error, run.secrets) == (RunState.DONE, None, {})
    assert held() == LIVING


@pytest.mark.parametrize(("one", "step"), STEPS)
def test_a_step_that_always_fails_leaves_the_server_unchanged(
    one: Case, step: Step, ana: Any, trouble: Trouble
) -> None:
    uuid = built(ana, one.before)
    if step.name == "KeepRebuiltSpec":
        trouble.strike(step, "execute", times=4)  # no way back from here: it goes on until it is done
        run_uuid = one.ask(ana, uuid)
        run_to_the_end()
        assert (instance_of(uuid).vm_state, run_of(run_uuid).state) == (VmState.ACTIVE, RunState.DONE)
        return
    trouble.strike(step, part_of(step), times=10_000)
    run_uuid = one.ask(ana, uuid)
    run_to_the_end()
    instance = instance_of(uuid)
    names = [planned.name for planned in steps_of(one)]
    is_broken = bool(one.breaking) and names.index(step.name) >= names.index(one.breaking)
    assert (instance.vm_state, instance.task_state) == (VmState.ERROR if is_broken else one.before, None)
    # A half-finished rebuild shows the requested image and may be repeated; an untouched server has the old one.
    assert (instance.name, instance.image["name"]) == ("web-1", "other" if is_broken else "simulated-linux")
    assert InstanceFault.objects.using("cell1").get(instance_uuid=uuid).message == "RuntimeError"
    run = run_of(run_uuid)
    assert (run.state, run.secrets) == (RunState.FAILED_UNDONE, {})
    assert held() == LIVING
    instances.delete(ana, uuid)
    run_to_the_end()
    assert held() == {}


@pytest.mark.parametrize(("one", "step"), STEPS)
def test_a_step_that_fails_once_leaves_the_server_in_its_old_or_new_state(
    one: Case, step: Step, ana: Any, trouble: Trouble
) -> None:
    uuid = built(ana, one.before)
    trouble.strike(step, part_of(step), times=1)
    run_uuid = one.ask(ana, uuid)
    run_to_the_end()
    instance = instance_of(uuid)
    expected = {RunState.DONE: {one.after}, RunState.FAILED_UNDONE: {one.before, VmState.ERROR}}
    assert instance.vm_state in expected[RunState(run_of(run_uuid).state)]
    assert (instance.task_state, held()) == (None, LIVING)


@pytest.mark.parametrize("one", [one for one in CASES if not ACTIONS[one.name].interrupts], ids=str)
def test_a_second_action_is_refused_while_one_is_under_way(one: Case, ana: Any) -> None:
    uuid = built(ana, one.before)
    one.ask(ana, uuid)
    before = everything()
    with pytest.raises(Conflict) as refused:
        one.ask(ana, uuid)
    if one.name == "trigger_crash_dump":
        assert isinstance(refused.value, ResourceLocked)
    else:
        task = ACTIONS[one.name].task_state
        assert refused.value.message == f"Cannot '{one.name}' instance {uuid} while it is in task_state {task}"
    assert everything() == before


@pytest.mark.parametrize("one", [one for one in CASES if one.name != "soft_delete"], ids=str)
def test_a_wrong_state_is_refused_and_nothing_changes(one: Case, ana: Any) -> None:
    uuid = built(ana, VmState.SHELVED)
    before = everything()
    with pytest.raises(Conflict) as refused:
        one.ask(ana, uuid)
    assert refused.value.message == f"Cannot '{one.name}' instance {uuid} while it is in vm_state shelved"
    assert everything() == before


@pytest.mark.parametrize("one", CASES, ids=str)
def test_a_locked_server_is_refused_to_all_but_administrators(one: Case, ana: Any, people: Any) -> None:
    uuid = built(ana, one.before)
    Instance.objects.using("cell1").filter(uuid=uuid).update(is_locked=True, locked_by="owner")
    before = everything()
    with pytest.raises(Conflict, match=f"Instance {uuid} is locked"):
        one.ask(ana, uuid)
    assert everything() == before
    one.ask(people.admin.context(), uuid)
    run_to_the_end()
    assert instance_of(uuid).vm_state == one.after


@pytest.mark.parametrize("one", CASES, ids=str)
def test_servers_of_another_project_are_not_found(one: Case, ana: Any, people: Any) -> None:
    uuid = built(ana, one.before)
    before = everything()
    with pytest.raises(NotFound, match=f"Instance {uuid} could not be found."):
        one.ask(people.chi.context(), uuid)
    assert everything() == before


@pytest.mark.parametrize("one", [one for one in CASES if ACTIONS[one.name].capability], ids=str)
def test_actions_that_the_driver_does_not_support_are_refused(
    one: Case, ana: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuid = built(ana, one.before)
    monkeypatch.setattr(actions, "capabilities", lambda alias, host: frozenset())
    before = everything()
    with pytest.raises(NotSupported, match=f"cannot do '{one.name}'"):
        one.ask(ana, uuid)
    assert everything() == before


def test_a_host_that_stops_responding_is_sent_nothing_afterwards(ana: Any) -> None:
    uuid = built(ana, VmState.STOPPED)
    run_uuid = actions.begin(ana, uuid, "start")
    executor.run("cell1", run_uuid)
    silence(instance_of(uuid).host or "")
    engine_wakes(run_uuid)
    instance = instance_of(uuid)
    assert (instance.vm_state, instance.task_state) == (VmState.STOPPED, None)
    assert "is unresponsive" in InstanceFault.objects.using("cell1").get(instance_uuid=uuid).message
    assert OutboxMessage.objects.using("cell1").count() == 0
    assert held() == LIVING


def test_a_command_refused_for_a_missing_guest_needs_no_compensation(ana: Any) -> None:
    uuid = built(ana, VmState.PAUSED)
    run_uuid = actions.begin(ana, uuid, "unpause")
    executor.run("cell1", run_uuid)
    command = OutboxMessage.objects.using("cell1").get(run_uuid=run_uuid)
    executor.answer(
        "cell1",
        StepAnswered(
            step_key=command.step_key, run_uuid=run_uuid, fencing_token=1, host=command.host, ok=False, result={},
            error={"class": "GuestMissing", "message": "The host has no such guest.", "is_reschedulable": False},
        ),
    )  # fmt: skip
    engine_wakes(run_uuid)
    run = WorkflowRun.objects.using("cell1").get(uuid=run_uuid)
    assert (run.state, run.uncompensated) == (RunState.FAILED_UNDONE, [])
    assert OutboxMessage.objects.using("cell1").count() == 0
    assert instance_of(uuid).task_state is None
    assert held() == LIVING


@pytest.mark.parametrize("name", ["reboot", "pause", "suspend"])
def test_a_hard_reboot_cancels_a_hanging_action(name: str, ana: Any) -> None:
    uuid = built(ana)
    hanging = actions.begin(ana, uuid, name)
    executor.run("cell1", hanging)  # sent, and never answered
    rescuing = actions.begin(ana, uuid, "reboot_hard")
    assert instance_of(uuid).task_state == TaskState.REBOOTING_HARD
    assert run_of(hanging).is_cancel_requested
    executor.run("cell1", hanging)
    assert run_of(hanging).state == RunState.CANCELLED
    assert instance_of(uuid).task_state == TaskState.REBOOTING_HARD  # the cancelled one has not wiped it
    run_to_the_end()
    assert run_of(rescuing).state == RunState.DONE
    instance = instance_of(uuid)
    assert (instance.vm_state, instance.task_state) == (VmState.ACTIVE, None)
    assert not InstanceFault.objects.using("cell1").exists()
    assert held() == LIVING


@pytest.mark.parametrize("one", CASES, ids=str)
def test_a_delete_in_the_middle_of_an_action_wins(one: Case, ana: Any) -> None:
    uuid = built(ana, one.before)
    executor.run("cell1", one.ask(ana, uuid))
    instances.delete(ana, uuid)
    assert instance_of(uuid).task_state == TaskState.DELETING
    run_to_the_end()
    assert instance_of(uuid).vm_state == VmState.DELETED
    assert held() == {}


def test_a_password_is_stored_only_with_its_run_and_its_command(ana: Any) -> None:
    uuid = built(ana)
    run_uuid = change_password(ana, uuid)
    assert sealing.unseal(run_of(run_uuid).secrets) == {"admin_password": SECRET}
    executor.run("cell1", run_uuid)
    (command,) = OutboxMessage.objects.using("cell1").filter(run_uuid=run_uuid)
    assert SECRET not in str(command.body)
    assert sealing.unseal_command(command.body)["body"]["password"] == SECRET
    run_to_the_end()
    assert everything_logged(uuid).count(SECRET) == 0


@pytest.mark.parametrize("action", [change_password, rebuild, rescue])
def test_no_file_of_a_database_has_the_password_at_any_time(
    action: Ask, ana: Any, settings: Any, tmp_path: Path
) -> None:
    """Deleted data stay in pages of the file and of its log, so the password must never be written."""
    uuid = built(ana)
    run_uuid = action(ana, uuid)
    for proceed in (lambda: None, lambda: executor.run("cell1", run_uuid), run_to_the_end):
        proceed()
        rows = str([list(model.objects.using("cell1").values()) for model in (WorkflowRun, OutboxMessage)])
        assert SECRET not in rows
        for path in settings.NOVELLA_DATA.glob("*.sqlite3"):
            # A copy, because this process has the databases open. It has free pages, too, so it shows deleted data.
            assert SECRET.encode() not in content_of(path, tmp_path), path
    assert run_of(run_uuid).state == RunState.DONE


def test_a_command_comes_again_with_its_password(ana: Any, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run_uuid = change_password(ana, built(ana))
    executor.run("cell1", run_uuid)
    sent: list[Any] = []
    monkeypatch.setattr(outbox.broker, "send_to_compute", lambda queue, body: sent.append(body))
    outbox.send_all_again("cell1")
    outbox.resend_due("cell1")
    assert [body["body"]["password"] for body in sent] == [SECRET]
    assert "sealed" not in sent[0]
    settings.SECRET_KEY = "another-key-" * 4
    with pytest.raises(Unavailable, match="another secret key"):
        _ = sealing.unseal_command(OutboxMessage.objects.using("cell1").get(run_uuid=run_uuid).body)


def everything_logged(uuid: str) -> str:
    """Return every text of runs, steps, commands and events that is left."""
    from conductor.journal.models import Event, StepRecord

    models = (WorkflowRun, StepRecord, OutboxMessage, Event)
    return str([list(model.objects.using("cell1").values()) for model in models])


def test_a_rebuild_changes_what_was_requested_and_keeps_the_rest(ana: Any) -> None:
    uuid = built(ana, VmState.STOPPED)
    before = instance_of(uuid)
    image = Image.objects.get(name="simulated-linux")
    requested = RebuildRequest(
        image_ref=str(image.uuid),
        values={"name": "new", "hostname": "new-host", "metadata": {"a": "b"}, "description": "words"},
        user_data="c2VjcmV0",
        files=(GuestFile("/etc/motd", "ZmlsZXM="),),
        key_name=None,
        admin_password=SECRET,
    )
    run_uuid = rebuilds.rebuild(ana, uuid, requested)
    executor.run("cell1", run_uuid)
    (command,) = OutboxMessage.objects.using("cell1").filter(run_uuid=run_uuid)
    body = sealing.unseal_command(command.body)["body"]
    guest = body["guest"]
    assert (guest["name"], guest["hostname"], guest["user_data"]) == ("new", "new-host", "c2VjcmV0")
    assert guest["files"] == [{"path": "/etc/motd", "contents": "ZmlsZXM="}]
    assert (guest["admin_password"], body["is_running"]) == (SECRET, False)
    assert instance_of(uuid).name == "web-1"  # until it is done
    run_to_the_end()
    after = instance_of(uuid)
    assert (after.name, after.hostname, after.metadata, after.description) == ("new", "new-host", {"a": "b"}, "words")
    assert (after.vm_state, after.user_data, after.key_name) == (VmState.STOPPED, "c2VjcmV0", None)
    assert (after.host, after.addresses, after.flavor) == (before.host, before.addresses, before.flavor)
    assert after.injected_files == guest["files"]
    assert "c2VjcmV0" not in everything_logged(uuid)
    assert "ZmlsZXM=" not in everything_logged(uuid)
    second = rebuilds.rebuild(ana, uuid, RebuildRequest(image_ref=str(image.uuid)))
    executor.run("cell1", second)
    (command,) = OutboxMessage.objects.using("cell1").filter(run_uuid=second)
    assert command.body["body"]["guest"]["files"] == []
    run_to_the_end()
    assert (instance_of(uuid).injected_files, instance_of(uuid).user_data) == (None, "c2VjcmV0")


def test_a_server_in_error_ends_active_when_it_is_rebuilt(ana: Any) -> None:
    uuid = built(ana, VmState.ERROR)
    image = Image.objects.get(name="simulated-linux")
    rebuilds.rebuild(ana, uuid, RebuildRequest(image_ref=str(image.uuid), values={"disk_config": "AUTO"}))
    run_to_the_end()
    after = instance_of(uuid)
    assert (after.vm_state, after.power_state, after.disk_config) == (VmState.ACTIVE, PowerState.RUNNING, "AUTO")


def test_a_rebuild_with_an_image_that_the_host_cannot_run_loses_nothing(ana: Any) -> None:
    uuid = built(ana)
    row = Image.objects.get(name="simulated-linux")
    row.pk, row.uuid, row.name, row.properties = None, uuid4(), "arm", {"hw_architecture": "aarch64"}
    row.save()
    before = instance_of(uuid).image
    run_uuid = rebuilds.rebuild(ana, uuid, RebuildRequest(image_ref=str(row.uuid)))
    assert instance_of(uuid).image["name"] == "arm"  # what was asked for, at once
    run_to_the_end()
    instance = instance_of(uuid)
    assert (instance.vm_state, instance.image) == (VmState.ACTIVE, before)
    assert run_of(run_uuid).error["class"] == "NoValidHost"
    assert not OutboxMessage.objects.using("cell1").exists()
    assert held() == LIVING


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"min_disk_gb": 500}, "Flavor's disk is too small"),
        ({"min_ram_mb": 500_000}, "Flavor's memory is too small"),
        ({"status": "queued"}, "is not active"),
        ({"container_format": "aki"}, "kernel or ramdisk"),
    ],
)
def test_an_image_that_does_not_fit_is_refused(values: dict[str, Any], words: str, ana: Any) -> None:
    uuid = built(ana)
    image = Image.objects.get(name="simulated-linux")
    Image.objects.filter(pk=image.pk).update(**values)
    before = everything()
    with pytest.raises(Invalid, match=words):
        rebuilds.rebuild(ana, uuid, RebuildRequest(image_ref=str(image.uuid)))
    assert everything() == before


def test_a_rescue_starts_from_the_image_that_was_named_and_goes_back(ana: Any) -> None:
    uuid = built(ana, VmState.STOPPED)
    run_uuid = rescue(ana, uuid)
    executor.run("cell1", run_uuid)
    (command,) = OutboxMessage.objects.using("cell1").filter(run_uuid=run_uuid)
    assert sealing.unseal_command(command.body)["body"]["password"] == SECRET
    assert command.body["body"]["guest"]["image"]["name"] == "simulated-linux"
    run_to_the_end()
    instance = instance_of(uuid)
    assert (instance.vm_state, instance.previous_vm_state) == (VmState.RESCUED, VmState.STOPPED)
    assert instance.rescue_image["name"] == "simulated-linux"
    actions.begin(ana, uuid, "unrescue")
    run_to_the_end()
    instance = instance_of(uuid)
    assert (instance.vm_state, instance.rescue_image, instance.previous_vm_state) == (VmState.ACTIVE, None, "")
