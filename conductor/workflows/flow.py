"""Flows and steps: a workflow is a named, versioned list of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar
from uuid import UUID

from django.db import connections

from conductor.core.context import RequestContext
from conductor.core.errors import StaleToken
from conductor.core.states import WaitCause
from conductor.db.transactions import write_tx
from conductor.journal import sealing, statements
from conductor.journal.models import WorkflowRun

Result = Mapping[str, Any]
RESCHEDULED = "Rescheduled"  # class of the error of a step that an operator has left for another host


@dataclass(frozen=True)
class StepContext:
    """Context of one attempt of a step: its inputs, and the only ways to write.

    `step_key` is the idempotency key of the attempt. It is the same after a crash, and another one for a retry.
    """

    alias: str
    run: WorkflowRun
    context: RequestContext
    step_key: str
    token: int
    changes: dict[str, Any] | None = None  # of the run's instance: the transaction writes them together

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
        """Return the result of an earlier step. Empty if it did not run."""
        return self.run.variables.get(step.name, {})  # type: ignore[no-any-return]

    @contextmanager
    def fenced(self, alias: str) -> Iterator[None]:
        """Open a write transaction on `alias` in which this run still has its owner. Raises StaleToken otherwise."""
        with write_tx(alias):
            self.guard_in(alias)
            yield

    def guard_in(self, alias: str) -> None:
        """Start a transaction on `alias` with the fence. Raises StaleToken."""
        if alias == self.alias:
            self.guard()
        else:
            self._guard_in_other_database(alias)

    def guard(self) -> None:
        """Start a transaction on the journal with the fence: lock the run's row, if it still has our token.

        A requested cancellation is read as well, so that no transaction misses it.
        """
        requested = statements.fence(connections[self.alias], self.run.pk, self.token)
        if requested is None:
            raise StaleToken(f"workflow {self.run.uuid}: token {self.token} is no longer the newest", token=self.token)
        is_cancel_requested, self.run.cancel_reason = requested
        self.run.is_cancel_requested = bool(is_cancel_requested)

    def _guard_in_other_database(self, alias: str) -> None:
        """Write the token with one statement. Of two concurrent owners the second one waits, and the higher token
        stays.
        """
        if not statements.fence_in_other_database(connections[alias], self.run.uuid, self.token):
            message = f"workflow {self.run.uuid}: token {self.token} is older than one that wrote to {alias}"
            raise StaleToken(message, token=self.token, in_cell=alias)


@dataclass(frozen=True)
class RetryPolicy:
    """The number of attempts (None: until it succeeds), and the pause between them in seconds, which doubles each
    time.
    """

    max_attempts: int | None = 1
    pause_seconds: float = 1.0
    max_pause_seconds: float = 30.0

    def allows(self, try_number: int) -> bool:
        return self.max_attempts is None or try_number < self.max_attempts

    def pause(self, try_number: int) -> float:
        return min(self.pause_seconds * 2.0 ** min(try_number - 1, 16), self.max_pause_seconds)


@dataclass(frozen=True)
class RemoteCall:
    """A call to another process, whose reply wakes the run.

    `send` sends the request, once the run is suspended. `progress` is stored in the step's record.
    """

    send: Callable[[], object]
    progress: Mapping[str, Any]


class Suspend(Exception):
    """Raised by `execute` of a step that can only wait: the run suspends, and the step is executed again.

    That happens after `seconds`, or earlier on a notification; pages show `cause` as the reason to wait. With a `call`
    the run waits for its reply, and `seconds` is the deadline.
    """

    def __init__(self, cause: WaitCause, detail: str, seconds: float, call: RemoteCall | None = None) -> None:
        super().__init__(detail)
        self.cause = cause
        self.detail = detail
        self.seconds = seconds
        self.call = call


ONCE = RetryPolicy()
UNTIL_DONE = RetryPolicy(max_attempts=None)


class Step:
    """A step of a flow, with its undo.

    `execute` and `revert` work outside the journal's database and must be idempotent under `work.step_key`; all their
    writes go through `work.fenced(alias)`. `on_start`, `commit` and `commit_revert` work in the journal's own database
    and commit together with the record. `revert` of a step that was never executed must do nothing.
    """

    name: ClassVar[str] = ""
    title: ClassVar[str] = ""
    lane: ClassVar[str] = "Conductor"
    event: ClassVar[str] = ""  # the Compute API's name of the event
    retry: ClassVar[RetryPolicy] = ONCE
    revert_retry: ClassVar[RetryPolicy] = RetryPolicy(max_attempts=5)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.name = cls.__dict__.get("name", cls.__name__)

    @property
    def is_local(self) -> bool:
        """Whether the step has no effects outside of the journal's database, and may share a commit with its
        neighbours.
        """
        return type(self).execute is Step.execute

    def is_local_in(self, work: StepContext) -> bool:
        """Whether this attempt of the step has no such effects. Its `execute` then only reads, if anything."""
        return self.is_local

    @property
    def has_revert(self) -> bool:
        return type(self).revert is not Step.revert or type(self).commit_revert is not Step.commit_revert

    def on_start(self, work: StepContext) -> None:
        """Show that the step begins. Called in the transaction that opens it."""

    def is_final(self, work: StepContext, error: Mapping[str, Any]) -> bool:
        """Whether a retry is useless, whatever `retry` says."""
        return False

    def execute(self, work: StepContext) -> Result:
        return {}

    def commit(self, work: StepContext, result: Result) -> None:
        """Store the result's effect in the journal's database."""

    def revert(self, work: StepContext, result: Result) -> None:
        """Undo what `execute` did; `result` is empty when it did not finish."""

    def commit_revert(self, work: StepContext) -> None:
        """Undo what `commit` did."""


class SetStep(Step):
    """A step that is executed for a set of runs at once, which costs less than each by itself. A single run is a set of
    one.
    """

    def execute(self, work: StepContext) -> Result:
        (result,) = self.execute_many([work])
        if isinstance(result, Exception):
            raise result
        return result

    def execute_many(self, works: Sequence[StepContext]) -> Sequence[Result | Exception]:
        """Execute the step for several runs, as `execute` does for one.

        Returns:
            The result of each run, or the error that ends it. No run fails by another's fault. After an error that is
                raised, which may have undone the work of all, each run is executed by itself.
        """
        raise NotImplementedError


def guarded(alias: str, works: Iterable[StepContext]) -> dict[UUID, Exception]:
    """Begin a transaction for several runs with the fence of each. Call it inside `write_tx(alias)`.

    Returns:
        The errors of the runs that have another owner, by run. Nothing may be written for these.
    """
    failed: dict[UUID, Exception] = {}
    for work in works:
        try:
            work.guard_in(alias)
        except StaleToken as error:
            failed[work.run.uuid] = error
    return failed


class RemoteStep(Step):
    """A step that a compute host executes. It sends one command, and the run suspends until the answer arrives."""

    lane: ClassVar[str] = "Compute"

    def command(self, work: StepContext) -> Any:
        """Return the command for the host (of rpc.messages.to_compute). None if the host has nothing to do.

        It must only read, as the transaction that opens the step may be open.
        """
        raise NotImplementedError

    def revert_command(self, work: StepContext) -> Any:
        """Return the command that undoes the step. None if there is nothing to undo."""
        return None

    def on_silence(self, work: StepContext) -> Result | None:
        """Return the result for an unresponsive host, where the flow finds out the outcome itself. None lets the step
        fail.
        """
        return None

    def on_error(self, work: StepContext, error: Mapping[str, Any]) -> Result | None:
        """Return the result where the host's error means that the effect is already there. None lets the step fail."""
        return None

    def on_progress(self, alias: str, run: WorkflowRun, figures: Mapping[str, int]) -> None:
        """Store figures of the host's progress, such as {"memory_remaining": bytes}. Called inside `write_tx`."""

    @property
    def is_local(self) -> bool:
        return False

    @property
    def has_revert(self) -> bool:
        return type(self).revert_command is not RemoteStep.revert_command


@dataclass(frozen=True)
class Flow:
    """A named, versioned list of steps.

    Attributes:
        max_attempts: Above 1, `next_attempt` may start the run again after a failure was rolled back.
        cancellable_until: The first step from which on a cancellation is refused: "" for none, None for a flow that
            cannot be cancelled.
        on_failure: Runs once after a complete rollback, when the run ends as failed.
        on_stuck: Runs when a step has failed several times and will be retried.
        is_retryable: Whether the object of the flow still exists after a failure.
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
    def takes_sets(self) -> bool:
        """Whether new runs begin together, because some step is executed for sets of them."""
        return any(isinstance(step, SetStep) for step in self.steps)

    @property
    def is_forward_only(self) -> bool:
        """Whether the flow cannot be cancelled. Its steps are then retried until they succeed."""
        return self.cancellable_until is None

    def next_attempt(self, work: StepContext) -> bool:
        """Whether another attempt could succeed. Called after a rollback, before the attempt is counted."""
        return True

    def may_cancel_at(self, position: int) -> bool:
        if self.cancellable_until is None:
            return False
        names = [step.name for step in self.steps]
        return not self.cancellable_until or position < names.index(self.cancellable_until)

    def plan(self, *, has_secrets: bool = False) -> list[dict[str, Any]]:
        """Return the steps as pages and APIs show them before they run, with the interventions possible at each.

        The plan is stored with the run, so that interventions do not need the flow's version.
        """
        return list(_plan(self, has_secrets))


@cache
def _plan(flow: Flow, has_secrets: bool) -> list[dict[str, Any]]:
    """Return a flow's plan. It is cached, as most runs are of few flows, and a plan never changes."""
    return [
        {
            "name": step.name,
            "title": step.title,
            "lane": step.lane,
            "event": step.event,
            "may_cancel": flow.may_cancel_at(index),
            "may_retry": flow.is_retryable and not has_secrets,  # secrets are deleted when the run has ended
            "may_reschedule": flow.max_attempts > 1 and isinstance(step, RemoteStep),
            "has_undo": step.has_revert,
            **_rules(step),
        }
        for index, step in enumerate(flow.steps)
    ]


def _rules(step: Step) -> dict[str, Any]:
    """Return the retry policy as JSON, unless it is a single attempt. 0 attempts are unlimited."""
    retry = step.retry
    return {} if retry == ONCE else {"tries": retry.max_attempts or 0, "pause_seconds": retry.pause_seconds}
