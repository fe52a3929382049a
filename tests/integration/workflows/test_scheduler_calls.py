"""Steps that call schedulers of their own: request, reply, deadline, another scheduler; each decision is made once."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest

from conductor.actors import liveness
from conductor.actors import scheduler as scheduler_actors
from conductor.actors.scheduler import SchedulerService
from conductor.api_db.models import SchedulingDecision
from conductor.cell_db.models import Service
from conductor.cells import schedulers
from conductor.cells.lookup import API_ALIAS, CELL0
from conductor.core.errors import Invalid, StaleToken
from conductor.core.messages import text_of
from conductor.core.states import LIVE_RUN_STATES, RunState, VmState, WaitCause
from conductor.db.transactions import database_now
from conductor.image.models import Image
from conductor.journal.models import StepRecord, WorkflowRun
from conductor.placement.models import Allocation
from conductor.rpc import broker
from conductor.rpc.codec import decode, encode
from conductor.rpc.messages import DestinationsRequested, DestinationsSelected, SchedulerReported
from conductor.rpc.versions import SERVICE_VERSION
from conductor.scheduler import manager
from conductor.services.scheduling import decisions
from conductor.services.scheduling.types import DecisionQuery
from conductor.services.server_migrations import resizes
from conductor.services.servers import instances, rebuilds
from conductor.services.servers.rebuilds import RebuildRequest
from conductor.services.servers.types import InstanceCreate
from conductor.workflows import scheduler_calls
from conductor.workflows.engine import executor
from tests.all_rows import everything
from tests.fixtures.builds import ana as ana
from tests.fixtures.builds import instance_of, launch_many, run_to_the_end
from tests.integration.page_clients import signed_in

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

NAMES = ("s1", "s2")
# Tables of a claim: what the instance holds, what is left at its host, and that the host has changed.
CLAIMS = ("consumer", "allocation", "inventory", "resourceprovider", "changecounter")


class Line:
    """The broker between conductors and schedulers: it keeps calls and replies until a test delivers them."""

    def __init__(self) -> None:
        self.calls: list[DestinationsRequested] = []
        self.replies: list[tuple[str, DestinationsSelected]] = []
        self.notified: list[str] = []

    def call(self, body: DestinationsRequested) -> None:
        self.calls.append(decode(json.loads(json.dumps(encode(body)))))

    def reply(self, queue: str, cell: str, body: Any) -> None:
        assert queue == broker.CONDUCTOR_QUEUE or queue.endswith(cell)
        message = decode(json.loads(json.dumps(encode(body))))
        if isinstance(message, SchedulerReported):
            scheduler_calls.record_report(cell, message)
        else:
            self.replies.append((cell, message))

    def notify(self, queue: str, body: Any) -> None:
        self.notified.append(body["run_uuid"])

    def decide(self) -> list[DestinationsRequested]:
        """Have the schedulers answer all calls that wait, each its own together; return these calls."""
        calls, self.calls = self.calls, []
        for name in sorted({call.scheduler for call in calls}):
            SchedulerService(name)._answer([call for call in calls if call.scheduler == name])
        return calls

    def deliver(self) -> None:
        replies, self.replies = self.replies, []
        for cell, message in replies:
            scheduler_calls.take_replies(cell, message)


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch, settings: Any, ana: Any) -> Line:
    settings.NOVELLA_SCHEDULER_CLIENT = "conductor.workflows.scheduler_calls.select_for_many"
    made = Line()
    monkeypatch.setattr(broker, "call_scheduler", made.call)
    monkeypatch.setattr(broker, "reply_to_conductor", made.reply)
    monkeypatch.setattr(broker, "notify_conductor", made.notify)
    for name in NAMES:
        report(name)
    return made


def report(name: str, **figures: Any) -> str:
    """Record a report of a scheduler; return its process."""
    worker = f"rack1:1:{uuid4().hex[:8]}"
    schedulers.record(name, SERVICE_VERSION, {"worker": worker, **figures})
    return worker


def only_run() -> WorkflowRun:
    return WorkflowRun.objects.get(flow="build_instances")


def begin(ana: Any) -> WorkflowRun:
    launch_many(ana, 1)
    executor.run(API_ALIAS, only_run().uuid)
    return only_run()


def pass_deadline(run: WorkflowRun, alias: str = API_ALIAS) -> None:
    WorkflowRun.objects.using(alias).filter(pk=run.pk).update(wake_at=database_now())
    executor.run(alias, run.uuid)


def test_a_build_waits_for_the_reply_and_no_thread_does(line: Line, ana: Any) -> None:
    run = begin(ana)
    (call,) = line.calls
    assert (run.state, run.owner, run.position) == (RunState.WAITING, None, 0)
    assert run.waits_for == {"cause": WaitCause.SCHEDULER, "detail": call.scheduler}
    began = StepRecord.objects.get(run=run).started_at
    assert run.wake_at > began, "the deadline"
    assert not SchedulingDecision.objects.exists()
    line.decide()
    decision = SchedulingDecision.objects.get(step_key=call.step_key)
    assert decision.is_successful
    assert only_run().position == 0, "the conductor has not heard of it yet"
    line.deliver()
    assert only_run().state == RunState.DONE
    run_to_the_end()
    assert instance_of(call.instance_uuids[0]).vm_state == VmState.ACTIVE
    assert SchedulingDecision.objects.count() == 1


def test_the_workflows_page_says_that_it_waits_and_names_the_scheduler_to_operators_only(line: Line, ana: Any) -> None:
    run = begin(ana)
    (call,) = line.calls
    shown = {name: signed_in(name).get(f"/workflows/{run.uuid}/why").content.decode() for name in ("ana", "admin")}
    for page in shown.values():
        assert "a scheduler" in page
        assert "the conductor asks another one" in page
    assert f"a scheduler {call.scheduler}" in shown["admin"]
    assert f"a scheduler {call.scheduler}" not in shown["ana"]


def test_calls_that_wait_together_are_answered_together(line: Line, ana: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(5):
        launch_many(ana, 1)
    executor.run(API_ALIAS, WorkflowRun.objects.order_by("pk").first().uuid)  # type: ignore[union-attr]
    assert len(line.calls) == 5
    assert len({call.scheduler for call in line.calls}) == 1
    sizes: list[int] = []
    decide = manager.select_for_many

    def noted(questions: Any) -> Any:
        sizes.append(len(questions))
        return decide(questions)

    monkeypatch.setattr(manager, "select_for_many", noted)
    line.decide()
    assert sizes == [5]
    ((_, message),) = line.replies
    assert len(message.replies) == 5
    line.deliver()
    assert set(WorkflowRun.objects.values_list("state", flat=True)) == {RunState.DONE}


def test_a_slow_scheduler_is_left_out(line: Line, ana: Any) -> None:
    report("s2", oldest_seconds=60.0, figure_of_a_newer_release=1)
    for _ in range(5):
        launch_many(ana, 1)
    for run in WorkflowRun.objects.all():
        executor.run(API_ALIAS, run.uuid)
    assert {call.scheduler for call in line.calls} == {"s1"}


def test_a_slow_scheduler_is_followed_by_another_and_its_decision_comes_too_late(line: Line, ana: Any) -> None:
    run = begin(ana)
    (first,) = line.calls
    pass_deadline(run)
    first, second = line.calls
    assert {first.scheduler, second.scheduler} == set(NAMES)
    assert (first.step_key, first.fencing_token < second.fencing_token) == (second.step_key, True)
    (late,) = scheduler_actors.decide([first])
    assert late is None, "a stale call gets no reply"
    assert not SchedulingDecision.objects.exists()
    assert not Allocation.objects.exists()
    line.calls = [second]
    line.decide()
    line.deliver()
    assert SchedulingDecision.objects.count() == 1
    assert only_run().state == RunState.DONE


def test_a_decision_is_made_once_although_its_reply_was_lost(line: Line, ana: Any) -> None:
    run = begin(ana)
    line.decide()
    line.replies.clear()
    decided = SchedulingDecision.objects.get()
    held = Allocation.objects.count()
    pass_deadline(run)
    assert line.calls == [], "the stored decision is the answer"
    assert only_run().state == RunState.DONE
    assert SchedulingDecision.objects.get() == decided
    assert Allocation.objects.count() == held


def test_a_repeated_call_gets_the_stored_decision(line: Line, ana: Any) -> None:
    begin(ana)
    (call,) = line.calls
    line.calls *= 3
    line.decide()
    (again,) = scheduler_actors.decide([call])
    assert not isinstance(again, Exception)
    assert SchedulingDecision.objects.count() == 1
    line.deliver()
    line.deliver()
    assert only_run().state == RunState.DONE


def test_a_late_reply_changes_nothing(line: Line, ana: Any) -> None:
    run = begin(ana)
    line.decide()
    ((cell, message),) = line.replies
    stale = {**message.replies[0], "fencing_token": message.replies[0]["fencing_token"] - 1}
    scheduler_calls.take_replies(cell, DestinationsSelected(scheduler="s1", replies=[stale]))
    assert only_run().state == RunState.WAITING
    line.deliver()
    ended = only_run()
    assert ended.state == RunState.DONE
    scheduler_calls.take_replies(cell, message)
    assert only_run().fencing_token == ended.fencing_token
    assert run.fencing_token < ended.fencing_token


def test_the_end_of_a_scheduler_wakes_the_runs_that_wait_for_it(line: Line, ana: Any) -> None:
    workers = {name: report(name) for name in NAMES}
    run = begin(ana)
    (call,) = line.calls
    other = next(name for name in NAMES if name != call.scheduler)
    line.notified.clear()
    liveness.take_over([API_ALIAS], workers[other].rpartition(":")[2])
    assert line.notified == [], "it waits for the other one"
    report(other)
    liveness.take_over([API_ALIAS], workers[call.scheduler].rpartition(":")[2])
    assert line.notified == [str(run.uuid)]
    executor.run(API_ALIAS, run.uuid)
    assert [one.scheduler for one in line.calls] == [call.scheduler, other]
    known = {one.name: one.is_alive for one in schedulers.all_known()}
    assert known == {call.scheduler: False, other: True}
    report(call.scheduler)
    assert all(one.is_alive for one in schedulers.all_known())


def test_a_scheduler_writes_decisions_and_their_claims_and_nothing_else(line: Line, ana: Any) -> None:
    begin(ana)
    before = everything()
    line.decide()
    after = everything()
    assert {table for table, rows in after.items() if rows != before[table]} == {
        "default.api_db_schedulingdecision", *(f"default.placement_{name}" for name in CLAIMS),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Invalid("The flavor asks for what no host can have."), "The flavor asks for what no host can have."),
        (ValueError("a secret"), "Scheduler s1 failed: ValueError."),
    ],
)
def test_a_failure_of_the_scheduler_stops_the_build_with_the_reason(
    line: Line, ana: Any, monkeypatch: pytest.MonkeyPatch, error: Exception, text: str
) -> None:
    (uuid,) = launch_many(ana, 1)
    report("s2", oldest_seconds=60.0)
    executor.run(API_ALIAS, only_run().uuid)
    monkeypatch.setattr(manager, "select_for_many", lambda questions: [error for _ in questions])
    line.decide()
    line.deliver()
    assert only_run().state == RunState.FAILED_UNDONE
    shown = instances.get(ana, uuid)
    assert shown.vm_state == VmState.ERROR
    assert (only_run().error or {})["message"] == text


def test_no_valid_host_is_the_same_as_in_process(line: Line, ana: Any) -> None:
    image = Image.objects.get(name="simulated-linux")
    instances.create(ana, InstanceCreate(name="web-1", flavor_ref="1", image_ref=str(image.uuid)))
    Service.objects.using("cell1").update(is_disabled=True)
    Service.objects.using("cell2").update(is_disabled=True)
    executor.run(API_ALIAS, only_run().uuid)
    line.decide()
    line.deliver()
    error = only_run().error or {}
    assert error["class"] == "NoValidHost"
    decision = SchedulingDecision.objects.get()
    assert error["details"] == {"decision_uuid": str(decision.uuid)}


def test_without_a_scheduler_a_build_waits_and_fails_in_the_end(line: Line, ana: Any, settings: Any) -> None:
    Service.objects.using(CELL0).filter(binary=schedulers.BINARY).delete()
    run = begin(ana)
    assert line.calls == []
    assert run.waits_for == {"cause": WaitCause.SCHEDULER, "detail": ""}
    pass_deadline(run)
    assert only_run().state == RunState.WAITING
    settings.NOVELLA_SCHEDULER_CALLS = 0
    pass_deadline(run)
    assert only_run().state == RunState.FAILED_UNDONE
    assert (only_run().error or {})["message"] == "No scheduler is running."


def test_the_reason_says_which_scheduler_is_dead_and_which_is_slow(line: Line, ana: Any, settings: Any) -> None:
    worker = report("s1")
    run = begin(ana)
    pass_deadline(run)
    schedulers.note_end(worker.rpartition(":")[2])
    settings.NOVELLA_SCHEDULER_CALLS = 0
    pass_deadline(run)
    error = only_run().error or {}
    assert error["message"] == "No scheduler replied in time. Asked: s1, s2. Not running: s1."


def test_a_cancelled_build_leaves_no_claim_to_a_late_scheduler(line: Line, ana: Any) -> None:
    run = begin(ana)
    (call,) = line.calls
    WorkflowRun.objects.filter(pk=run.pk).update(is_cancel_requested=True, wake_at=database_now())
    executor.run(API_ALIAS, run.uuid)
    assert only_run().state == RunState.CANCELLED
    (answer,) = scheduler_actors.decide([call])
    assert answer is None
    assert not Allocation.objects.exists()


def test_a_resize_calls_for_its_destination(line: Line, ana: Any, settings: Any) -> None:
    (uuid,) = launch_many(ana, 1)
    finish(line)
    resizes.resize(ana, uuid, "2")
    finish(line)
    assert instance_of(uuid).vm_state == VmState.RESIZED
    assert SchedulingDecision.objects.filter(is_successful=True).count() == 2


@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
def test_a_rebuild_calls_for_its_host_and_claims_nothing(line: Line, ana: Any, architecture: str) -> None:
    (uuid,) = launch_many(ana, 1)
    finish(line)
    before, held = instance_of(uuid), list(Allocation.objects.order_by("pk").values())
    image = copied_image(hw_architecture=architecture)
    run_uuid = rebuilds.rebuild(ana, uuid, RebuildRequest(image_ref=str(image.uuid)))
    finish(line)
    after, decision = instance_of(uuid), SchedulingDecision.objects.get(is_rebuild=True)
    fits = architecture == "x86_64"
    assert decision.is_successful == fits
    assert [after.host, after.node, after.vm_state] == [before.host, before.node, VmState.ACTIVE]
    assert after.image["image_id"] == (str(image.uuid) if fits else before.image["image_id"])
    assert list(Allocation.objects.order_by("pk").values()) == held
    aliases = ("cell1", "cell2")
    (run,) = [run for alias in aliases for run in WorkflowRun.objects.using(alias).filter(uuid=run_uuid)]
    if not fits:
        assert run.error["details"] == {"decision_uuid": str(decision.uuid)}
        assert "aarch64" in text_of(run.error), "the reason of the server's host, not of the others"
    placed = decisions.list_page(ana, DecisionQuery(instance_uuid=uuid, is_placement=True)).items
    assert decision.uuid not in [one.uuid for one in placed], "why it is there, not whether it may stay"
    assert len(placed) == 1


def copied_image(**properties: str) -> Image:
    """Another image with the data of the one that every test has."""
    image = Image.objects.get(name="simulated-linux")
    image.pk, image.uuid, image.properties = None, uuid4(), {**image.properties, **properties}
    image.save(force_insert=True)
    return image


def finish(line: Line) -> None:
    """Take every run to its end, with all calls answered."""
    for _ in range(20):
        for alias in (API_ALIAS, "cell1", "cell2"):
            for run in WorkflowRun.objects.using(alias).filter(state__in=LIVE_RUN_STATES):
                executor.run(alias, run.uuid)
        line.decide()
        line.deliver()
        if line.calls == [] and not waits_for_scheduler():
            break
    run_to_the_end()


def waits_for_scheduler() -> bool:
    return any(
        WorkflowRun.objects.using(alias).filter(waits_for__cause=WaitCause.SCHEDULER, state=RunState.WAITING).exists()
        for alias in (API_ALIAS, "cell1", "cell2")
    )


def test_the_service_takes_all_that_wait_and_no_more_than_its_limit(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = SchedulerService("s1")
    calls: list[Any] = [object() for _ in range(scheduler_actors.MOST_AT_ONCE + 3)]
    for call in calls:
        made.put(call)
    assert made.figures()["waiting"] == len(calls)
    assert made._take() == calls[: scheduler_actors.MOST_AT_ONCE]
    assert made.figures()["waiting"] == len(calls), "also those under way"
    assert made._take() == calls[scheduler_actors.MOST_AT_ONCE :]
    made.stop()
    assert made._take() == []


def test_a_fence_refuses_a_stale_call(line: Line, ana: Any) -> None:
    run = begin(ana)
    (call,) = line.calls
    with scheduler_actors._fenced(call, API_ALIAS):
        pass
    WorkflowRun.objects.filter(pk=run.pk).update(fencing_token=call.fencing_token + 1)
    with pytest.raises(StaleToken), scheduler_actors._fenced(call, API_ALIAS):
        pytest.fail("a stale call writes")
