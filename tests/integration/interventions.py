"""Flows for tests of interventions, and functions that bring a run of them into any state."""

from __future__ import annotations

from typing import Any

from conductor.core.context import RequestContext
from conductor.core.errors import DriverError
from conductor.core.states import RunState
from conductor.db.transactions import database_now, write_tx
from conductor.journal.models import AuditRecord, LeaseGrant, OutboxMessage, ResourceLock, StepRecord, WorkflowRun
from conductor.rpc import outbox
from conductor.rpc.messages import SpawnInstance, StepAnswered
from conductor.services.workflows import interventions
from conductor.services.workflows.interventions import InterventionRequest
from conductor.workflows.engine import executor
from conductor.workflows.flow import RemoteStep, Result, RetryPolicy, Step, StepContext

ALIAS = "cell1"
PROJECT = "b" * 32
INSTANCE = "11111111-2222-4333-8444-555555555555"


def person(*roles: str, project_id: str = PROJECT) -> RequestContext:
    return RequestContext(
        user_id="a" * 32,
        project_id=project_id,
        request_id="req-1",
        roles=frozenset(roles),
        user_name="ana",
        is_on_admin_project="admin" in roles,
    )


ADMIN = person("admin", "manager", "member", "reader")
MANAGER = person("manager", "member", "reader")
MEMBER = person("member", "reader")


class Diary:
    """Records of steps, in order, and the lines that fail, with how often."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.failures: dict[str, int] = {}

    def write(self, line: str) -> None:
        self.lines.append(line)
        if self.failures.get(line, 0) > 0:
            self.failures[line] -= 1
            raise RuntimeError(line)

    def clear(self) -> None:
        self.lines.clear()
        self.failures.clear()


DIARY = Diary()


class Noted(Step):
    """Writes what it does into the diary; what it did is kept in the journal too."""

    name = ""
    revert_retry = RetryPolicy(max_attempts=1)

    def __init__(self, name: str, retry: RetryPolicy | None = None) -> None:
        self.name = name  # type: ignore[misc]
        self.title = name  # type: ignore[misc]
        if retry is not None:
            self.retry = retry  # type: ignore[misc]

    def execute(self, work: StepContext) -> Result:
        DIARY.write(f"do {self.name}")
        return {"by": self.name}

    def commit(self, work: StepContext, result: Result) -> None:
        DIARY.lines.append(f"apply {self.name} {result['by']}")

    def revert(self, work: StepContext, result: Result) -> None:
        DIARY.write(f"undo {self.name}")


class OnHost(RemoteStep):
    title = "on host"
    revert_retry = RetryPolicy(max_attempts=1)

    def command(self, work: StepContext) -> Any:
        return self._to_host(work)

    def revert_command(self, work: StepContext) -> Any:
        return self._to_host(work)

    def _to_host(self, work: StepContext) -> SpawnInstance:
        tried = work.run.variables.setdefault("tried_hosts", [])
        if work.run.direction == "do":
            tried.append(f"host-{work.attempt}")
        return SpawnInstance(
            step_key=work.step_key,
            fencing_token=work.token,
            run_uuid=str(work.run.uuid),
            cell=work.alias,
            host=f"host-{work.attempt}",
            instance_uuid=INSTANCE,
            guest={},
        )


class Last(Step):
    """A step that runs when its run ends badly; it can be set to fail."""

    title = "last"

    def execute(self, work: StepContext) -> Result:
        DIARY.write("last")
        return {}


def start(*resources: str, may_wait: bool = False, **wanted: Any) -> WorkflowRun:
    with write_tx(ALIAS):
        new = outbox.NewRun(
            flow="made",
            action="make",
            context=MEMBER,
            resources=resources or (f"instance:{INSTANCE}",),
            instance_uuid=INSTANCE,
            **wanted,
        )
        return outbox.open_run(ALIAS, new, may_wait=may_wait)


def fresh(run: WorkflowRun) -> WorkflowRun:
    return WorkflowRun.objects.using(ALIAS).get(pk=run.pk)


def go(run: WorkflowRun) -> WorkflowRun:
    """Execute the run as a worker does, if it is due. Return it as stored then."""
    executor.run(ALIAS, run.uuid)
    return fresh(run)


def due_now(run: WorkflowRun) -> WorkflowRun:
    WorkflowRun.objects.using(ALIAS).filter(pk=run.pk).update(wake_at=database_now())
    return go(run)


def answer(run: WorkflowRun, *, ok: bool = True, is_reschedulable: bool = True) -> WorkflowRun:
    """Answer the current command as its host."""
    sent = OutboxMessage.objects.using(ALIAS).get(run_uuid=run.uuid)
    error = {"class": DriverError.__name__, "message": "no", "is_reschedulable": is_reschedulable}
    message = StepAnswered(
        step_key=sent.step_key,
        run_uuid=str(run.uuid),
        fencing_token=1,
        host="host-1",
        ok=ok,
        result={},
        error=None if ok else error,
    )
    executor.answer(ALIAS, message)
    return fresh(run)


def order(run: WorkflowRun, name: str, context: RequestContext = ADMIN, **requested: Any) -> WorkflowRun:
    interventions.intervene(context, run.uuid, name, InterventionRequest(**{"reason": "because", **requested}))
    return fresh(run)


def locks() -> list[str]:
    return sorted(ResourceLock.objects.using(ALIAS).values_list("resource", flat=True))


def snapshot() -> dict[str, Any]:
    """Return everything that an intervention could change, except the audit log."""
    runs = WorkflowRun.objects.using(ALIAS).order_by("pk")
    return {
        "runs": [{key: value for key, value in row.items() if key != "wake_at"} for row in runs.values()],
        "steps": list(StepRecord.objects.using(ALIAS).order_by("pk").values("step_key", "state", "error", "result")),
        "locks": locks(),
        "grants": LeaseGrant.objects.using(ALIAS).count(),
        "outbox": sorted(OutboxMessage.objects.using(ALIAS).values_list("step_key", flat=True)),
    }


def audited() -> list[tuple[str, str]]:
    return list(AuditRecord.objects.using(ALIAS).order_by("pk").values_list("action", "result"))


def steps(run: WorkflowRun) -> list[tuple[str, str, str]]:
    records = StepRecord.objects.using(ALIAS).filter(run=run).order_by("pk")
    return list(records.values_list("direction", "name", "state"))


def is_live(run: WorkflowRun) -> bool:
    return fresh(run).state in (RunState.QUEUED, RunState.RUNNING, RunState.WAITING, RunState.UNDOING)
