"""Flows and steps: a workflow is a named, versioned list of steps that reads top-down like prose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from django.db import connections

from conductor.core.context import RequestContext
from conductor.core.errors import StaleToken
from conductor.core.states import WaitCause
from conductor.journal import checkpoints, sealing
from conductor.journal.models import WorkflowRun
from conductor.sql import dialect
from conductor.transactions import write_tx

Result = Mapping[str, Any]

FENCE_ABROAD = (
    "INSERT INTO journal_foreignfence (run_uuid, fencing_token) VALUES (%s, %s) ON CONFLICT (run_uuid) DO UPDATE "
    "SET fencing_token = excluded.fencing_token "
    "WHERE journal_foreignfence.fencing_token <= excluded.fencing_token RETURNING fencing_token"
)


@dataclass(frozen=True)
class Work:
    """One attempt of one step: what it may know, and the only doors through which it may write.

    `step_key` is the idempotency key of the attempt: the same after a crash, another one for a retry.
    """

    alias: str
    run: WorkflowRun
    context: RequestContext
    step_key: str
    token: int
    changes: dict[str, Any] | None = None  # of the run's instance: its transaction writes them together

    @property
    def inputs(self) -> Mapping[str, Any]:
        return self.run.inputs  # type: ignore[no-any-return]

    @property
    def secrets(self) -> Mapping[str, Any]:
        """Inputs that no page, log or event may show."""
        return sealing.unseal(self.run.secrets)

    @property
    def attempt(self) -> int:
        return self.run.attempt

    @property
    def instance_uuid(self) -> str:
        """The instance that a cell's run works on."""
        return str(self.run.instance_uuid)

    def result_of(self, step: type[Step]) -> Mapping[str, Any]:
        """What an earlier step returned; empty when it did not run."""
        return self.run.variables.get(step.name, {})  # type: ignore[no-any-return]

    @contextmanager
    def fenced(self, alias: str) -> Iterator[None]:
        """A write transaction on `alias` in which this run is still the owner's; raises StaleToken else."""
        with write_tx(alias):
            if alias == self.alias:
                self.guard()
            else:
                self._guard_abroad(alias)
            yield

    def guard(self) -> None:
        """Begin a transaction on the journal with the fence: hold the run's row, if it still has our token.

        A cancel that was asked for meanwhile is read along, so that no transaction decides without it.
        """
        asked = checkpoints.hold(connections[self.alias], self.run.pk, self.token)
        if asked is None:
            raise StaleToken(f"workflow {self.run.uuid}: token {self.token} is no longer the newest", token=self.token)
        is_cancel_requested, self.run.cancel_reason = asked
        self.run.is_cancel_requested = bool(is_cancel_requested)

    def _guard_abroad(self, alias: str) -> None:
        """One statement: of two owners at once the second waits for the first, and the higher token stays."""
        held = dialect.run(connections[alias], FENCE_ABROAD, (self.run.uuid.hex, self.token))
        if not held:
            message = f"workflow {self.run.uuid}: token {self.token} is older than one that wrote to {alias}"
            raise StaleToken(message, token=self.token, in_cell=alias)


@dataclass(frozen=True)
class Retry:
    """How often a step is tried (None: until it succeeds) and how long it pauses between tries, doubling."""

    tries: int | None = 1
    pause_seconds: float = 1.0
    longest_pause_seconds: float = 30.0

    def allows(self, try_number: int) -> bool:
        return self.tries is None or try_number < self.tries

    def pause(self, try_number: int) -> float:
        return min(self.pause_seconds * 2.0 ** min(try_number - 1, 16), self.longest_pause_seconds)


class NotYet(Exception):
    """Raised by `execute` of a step that has nothing to do but wait: the run parks, and the step is asked again.

    It is asked after `seconds`, or earlier when somebody rings; pages say that the run waits for `cause`.
    """

    def __init__(self, cause: WaitCause, detail: str, seconds: float) -> None:
        super().__init__(detail)
        self.cause = cause
        self.detail = detail
        self.seconds = seconds


ONCE = Retry()
UNTIL_DONE = Retry(tries=None)


class Step:
    """One thing to do, and how to undo it.

    `execute` and `revert` work outside the journal's database and must be idempotent under `work.step_key`;
    all their writes go through `work.fenced(alias)`. `apply_start`, `apply` and `apply_revert` work in the
    journal's own database and commit together with the record. A step that was never done must revert to nothing.
    """

    name: ClassVar[str] = ""
    title: ClassVar[str] = ""
    lane: ClassVar[str] = "Conductor"
    event: ClassVar[str] = ""  # the Compute API's name of the event
    retry: ClassVar[Retry] = ONCE
    revert_retry: ClassVar[Retry] = Retry(tries=5)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.name = cls.__dict__.get("name", cls.__name__)

    @property
    def is_local(self) -> bool:
        """A step without outside effects may share a commit with its neighbours."""
        return type(self).execute is Step.execute

    def is_local_in(self, work: Work) -> bool:
        """Whether it has none in this attempt: `execute`, asked for the result, reads then, if anything."""
        return self.is_local

    @property
    def has_revert(self) -> bool:
        return type(self).revert is not Step.revert or type(self).apply_revert is not Step.apply_revert

    def apply_start(self, work: Work) -> None:
        """Show that the step begins."""

    def is_final(self, work: Work, error: Mapping[str, Any]) -> bool:
        """Whether trying again cannot help, whatever `retry` says."""
        return False

    def execute(self, work: Work) -> Result:
        return {}

    def apply(self, work: Work, result: Result) -> None:
        """Record the result's effect."""

    def revert(self, work: Work, result: Result) -> None:
        """Undo what `execute` did; `result` is empty when it did not finish."""

    def apply_revert(self, work: Work) -> None:
        """Undo what `apply` did."""


class RemoteStep(Step):
    """A step that a compute host does: it sends one command and the run parks until the answer comes."""

    lane: ClassVar[str] = "Compute"

    def command(self, work: Work) -> Any:
        """The message for the host (of rpc.messages.to_compute); None when there is nothing to do there.

        It only reads: the transaction that opens the step may be open.
        """
        raise NotImplementedError

    def revert_command(self, work: Work) -> Any:
        """The message that undoes it; None when there is nothing to undo."""
        return None

    def on_silence(self, work: Work) -> Result | None:
        """The result when its host falls silent or hangs, where the flow finds out what became of it; else None."""
        return None

    def apply_progress(self, alias: str, run: WorkflowRun, figures: Mapping[str, int]) -> None:
        """Keep amounts that the host told while it works, such as {"memory_remaining": bytes}; inside `write_tx`."""

    @property
    def is_local(self) -> bool:
        return False

    @property
    def has_revert(self) -> bool:
        return type(self).revert_command is not RemoteStep.revert_command


@dataclass(frozen=True)
class Flow:
    """A named, versioned list of steps.

    `max_attempts` > 1: after a failure has been undone, `next_attempt` may send the run round again.
    `cancellable_until` is the first step at which a cancel comes too late: "" for never too late, None for never
    cancellable.
    `on_failure` runs once when all has been undone and the run ends failed; `on_stuck` when a step has failed some
    times and will be tried again.
    `is_retryable` says whether what the flow works on is still there after a failure.
    """

    name: str
    version: int
    steps: tuple[Step, ...]
    on_failure: Step | None = None
    on_cancel: Step | None = None
    on_stuck: Step | None = None
    max_attempts: int = 1
    cancellable_until: str | None = ""
    is_retryable: bool = True

    @property
    def is_forward_only(self) -> bool:
        """A flow that cannot be cancelled goes on until it has succeeded: its steps retry until they are done."""
        return self.cancellable_until is None

    def next_attempt(self, work: Work) -> bool:
        """Whether another attempt could do better; asked after an undo, before the attempt is counted."""
        return True

    def may_cancel_at(self, position: int) -> bool:
        if self.cancellable_until is None:
            return False
        names = [step.name for step in self.steps]
        return not self.cancellable_until or position < names.index(self.cancellable_until)

    def plan(self, *, has_secrets: bool = False) -> list[dict[str, Any]]:
        """The steps as pages and APIs show them before they run, and what an operator may do at each.

        It is kept with the run, so that whoever answers for an intervention needs no flow of this version.
        """
        return list(_plan(self, has_secrets))


@cache
def _plan(flow: Flow, has_secrets: bool) -> list[dict[str, Any]]:
    """Made once: most runs are of few flows, and a plan is never changed."""
    return [
        {
            "name": step.name,
            "title": step.title,
            "lane": step.lane,
            "event": step.event,
            "may_cancel": flow.may_cancel_at(index),
            "may_retry": flow.is_retryable and not has_secrets,  # they are gone when the run has ended
            "may_reschedule": flow.max_attempts > 1 and isinstance(step, RemoteStep),
            "has_undo": step.has_revert,
            **_rules(step),
        }
        for index, step in enumerate(flow.steps)
    ]


def _rules(step: Step) -> dict[str, Any]:
    """How often it is tried, where that is not once; 0 tries are without end."""
    retry = step.retry
    return {} if retry == ONCE else {"tries": retry.tries or 0, "pause_seconds": retry.pause_seconds}
