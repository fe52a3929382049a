"""Table of interventions: actions of operators on a live or finished run, each with the rule that allows it.

A rule reads facts and returns "" (allowed) or one sentence that says why not. It does not access a database.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from conductor.core.messages import message, word
from conductor.core.states import LIVE_RUN_STATES, RunState, StepState, WaitCause

OPEN_STEP_STATES = (StepState.RUNNING, StepState.WAITING)
BROKEN_STEP_STATES = (StepState.FAILED, StepState.UNDO_FAILED)


@dataclass(frozen=True, kw_only=True)
class InterventionFacts:
    """Facts about a run that the rules read. The fields `step_…` are about the newest record of the next or current
    step.
    """

    state: str
    direction: str = "do"
    position: int = 0
    plan: Sequence[Mapping[str, Any]] = ()
    is_cancellable: bool = True
    is_cancel_requested: bool = False
    has_orders: bool = False
    wait_cause: str = ""
    wait_detail: str = ""
    step_name: str = ""
    step_title: str = ""
    step_state: str = ""
    step_host: str = ""
    is_host_heard: bool = False
    is_owned: bool = False
    is_lease_over: bool = False
    has_resources: bool = True
    later_run: str = ""  # a run on the same server since then
    alternates_left: int | None = None  # None: the run does not report alternates
    results: frozenset[str] = frozenset()  # names of steps whose result is kept
    undo_failed: frozenset[int] = frozenset()
    live_children: int = 0  # that can still be cancelled
    asked_for: str = ""  # the intervention that waits for a second approver
    asked_by: str = ""  # user id of the operator who requested it

    @property
    def is_live(self) -> bool:
        return self.state in LIVE_RUN_STATES

    @property
    def is_at_work(self) -> bool:
        """Whether a live worker owns the run."""
        return self.is_owned and not self.is_lease_over

    @property
    def retry_steps(self) -> tuple[str, ...]:
        """Steps at which a new attempt may begin. All steps before them still have their results."""
        names: list[str] = []
        for planned in self.plan:
            names.append(str(planned["name"]))
            if planned["name"] not in self.results:
                break
        return tuple(names)

    @property
    def to_undo(self) -> list[int]:
        """Return positions of steps that were done or tried, and are not undone."""
        return [
            index
            for index, planned in enumerate(self.plan)
            if planned.get("has_undo") and (planned["name"] in self.results or index in self.undo_failed)
        ]


@dataclass(frozen=True)
class Intervention:
    """One row of the table. `role` is the lowest role that may use it; `needs` are the required fields."""

    id: str
    title: str
    role: str
    needs: tuple[str, ...]
    why_not: Callable[[InterventionFacts], str] = field(repr=False)
    does: str = ""
    is_danger: bool = False


def _cancel(facts: InterventionFacts) -> str:
    if not facts.is_live:
        if facts.live_children:
            return ""
        return _needs_operator(facts) or message("workflow.ended", state=word(facts.state))
    if facts.is_cancel_requested:
        return message("workflow.cancel_requested")
    if facts.direction != "do":
        return message("workflow.being_undone")
    if not facts.plan:
        return "" if facts.is_cancellable else message("workflow.not_cancellable")
    if not any(planned.get("may_cancel") for planned in facts.plan):
        return message("workflow.not_cancellable")
    if facts.position >= len(facts.plan) or not facts.plan[facts.position].get("may_cancel"):
        return message("workflow.past_undo")
    return ""


def _retry(facts: InterventionFacts) -> str:
    if facts.is_live:
        return message("workflow.not_ended")
    if facts.state == RunState.FAILED_NOT_CLEAN:
        return message("workflow.unclean")
    if facts.state != RunState.FAILED_UNDONE:
        return _needs_operator(facts) or message("workflow.not_failed", state=word(facts.state))
    if not facts.plan or not facts.plan[0].get("may_retry"):
        return message("workflow.released")
    return _unheld(facts)


def _resume(facts: InterventionFacts) -> str:
    if facts.state == RunState.NEEDS_OPERATOR:
        return ""
    if facts.state not in (RunState.WAITING, RunState.QUEUED) or not facts.wait_cause:
        return message("workflow.not_waiting")
    reasons = {
        WaitCause.HOST: message("workflow.waits_for_host", host=facts.step_host or facts.wait_detail),
        WaitCause.LOCK: message("workflow.waits_for_lock"),
    }
    return reasons.get(WaitCause(facts.wait_cause), "")


def _reschedule(facts: InterventionFacts) -> str:
    if not facts.is_live:
        return _needs_operator(facts) or message("workflow.ended", state=word(facts.state))
    if facts.direction != "do" or facts.is_cancel_requested:
        return message("workflow.being_undone")
    planned = facts.plan[facts.position] if facts.position < len(facts.plan) else {}
    if not planned.get("may_reschedule") or not facts.step_state:
        return message("workflow.no_other_host_step")
    if facts.alternates_left == 0:
        return message("workflow.no_alternate")
    return ""


def _skip(facts: InterventionFacts) -> str:
    if facts.asked_for:
        return WAITS_ALREADY
    if not facts.is_live and facts.state != RunState.NEEDS_OPERATOR:
        return message("workflow.ended", state=word(facts.state))
    if facts.step_state in OPEN_STEP_STATES:
        return _under_way(facts)
    if facts.step_state not in BROKEN_STEP_STATES:
        return message("workflow.no_open_step")
    return ""


def _force(facts: InterventionFacts) -> str:
    if facts.asked_for:
        return WAITS_ALREADY
    if facts.state == RunState.NEEDS_OPERATOR:
        return ""
    if not facts.is_live:
        return message("workflow.ended", state=word(facts.state))
    if facts.state == RunState.QUEUED and not facts.plan:
        return message("workflow.not_started")
    return _under_way(facts)


def _take_over(facts: InterventionFacts) -> str:
    if not facts.is_live:
        return _needs_operator(facts) or message("workflow.ended", state=word(facts.state))
    if not facts.is_owned:
        return message("workflow.not_owned")
    return "" if facts.is_lease_over else message("workflow.owner_alive")


def _undo(facts: InterventionFacts) -> str:
    if facts.state != RunState.FAILED_NOT_CLEAN:
        return message("workflow.nothing_left")
    if not facts.to_undo:
        return message("workflow.no_undo")
    return _unheld(facts)


def _agree(facts: InterventionFacts) -> str:
    if not facts.asked_for:
        return message("approval.none")
    return BY_ID[facts.asked_for].why_not(replace(facts, asked_for=""))


def _decline(facts: InterventionFacts) -> str:
    return "" if facts.asked_for else message("approval.none")


def _needs_operator(facts: InterventionFacts) -> str:
    return message("workflow.needs_operator") if facts.state == RunState.NEEDS_OPERATOR else ""


def _unheld(facts: InterventionFacts) -> str:
    """Return why a run that has released its locks must not continue. Empty if it may."""
    if facts.later_run:
        return message("workflow.later_run", run=facts.later_run)
    return "" if facts.has_resources else message("workflow.no_locks")


def _under_way(facts: InterventionFacts) -> str:
    if facts.is_at_work:
        return message("workflow.worker_alive")
    if facts.step_state == StepState.WAITING and facts.is_host_heard:
        return message("workflow.host_alive", host=facts.step_host)
    return ""


WAITS_ALREADY = message("approval.waits")
AGREE, DECLINE = "agree", "decline"
ANSWERS = (AGREE, DECLINE)  # available only while an intervention waits for approval
INTERVENTIONS: tuple[Intervention, ...] = (
    Intervention(
        "cancel",
        ("Cancel workflow"),
        "member",
        ("reason",),
        _cancel,
        "Stops the workflow and rolls back its completed steps.",
        True,
    ),
    Intervention(
        "retry",
        "Retry from a step",
        "manager",
        ("reason", "step"),
        _retry,
        "Acquires the locks again and starts a new attempt at this step; later steps run again.",
    ),
    Intervention("resume", "Resume", "manager", ("reason",), _resume, "Continues now instead of waiting."),
    Intervention(
        "reschedule",
        "Reschedule",
        "admin",
        ("reason",),
        _reschedule,
        "Rolls back this attempt and continues on the next alternate host.",
    ),
    Intervention(
        "skip",
        "Skip step or mark as done",
        "admin",
        ("reason", "step", "confirm", "mark"),
        _skip,
        "Continues without this step. Your reason is stored with the step.",
        True,
    ),
    Intervention(
        "force",
        "Force completion",
        "admin",
        ("reason", "confirm"),
        _force,
        "Ends the workflow now and releases its locks. Resources that may be left over are listed.",
        True,
    ),
    Intervention(
        "take-over",
        "Take over",
        "admin",
        ("reason",),
        _take_over,
        ("Replaces the unresponsive owner; another conductor continues."),
    ),
    Intervention(
        "undo",
        "Roll back again",
        "admin",
        ("reason",),
        _undo,
        ("Acquires the locks again and rolls back the remaining steps."),
    ),
    Intervention(
        AGREE, "Approve", "admin", ("reason",), _agree, "Carries out the other operator's request immediately.", True
    ),
    Intervention(DECLINE, "Decline", "admin", ("reason",), _decline, "Discards the request."),
)
BY_TWO = frozenset({"skip", "force"})  # need approval where the operator requires a second approver
BY_ID: Mapping[str, Intervention] = {one.id: one for one in INTERVENTIONS}
