"""What people may do to a run under way or over: one table, and for each row the reason why not.

A rule reads facts and answers with "" (allowed) or one sentence for the person who asks. It knows no database.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from conductor.core.states import LIVE_RUN_STATES, RunState, StepState, WaitCause

OPEN_STEP_STATES = (StepState.RUNNING, StepState.WAITING)
BROKEN_STEP_STATES = (StepState.FAILED, StepState.UNDO_FAILED)


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All that the rules ask about a run. `step_…` is the newest record of the step that is next or under way."""

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
    later_run: str = ""  # that worked on the same server since
    alternates_left: int | None = None  # None: the run tells nothing about alternates
    results: frozenset[str] = frozenset()  # names of steps whose result is kept
    undo_failed: frozenset[int] = frozenset()
    live_children: int = 0  # that may still be cancelled
    asked_for: str = ""  # the intervention that waits for a second person
    asked_by: str = ""  # whose wish it is, by id

    @property
    def is_live(self) -> bool:
        return self.state in LIVE_RUN_STATES

    @property
    def is_at_work(self) -> bool:
        """A worker that is heard owns it."""
        return self.is_owned and not self.is_lease_over

    @property
    def retry_steps(self) -> tuple[str, ...]:
        """Where a new attempt may begin: all that comes before has its result still."""
        names: list[str] = []
        for planned in self.plan:
            names.append(str(planned["name"]))
            if planned["name"] not in self.results:
                break
        return tuple(names)

    @property
    def to_undo(self) -> list[int]:
        """Places of steps that were done, or were tried, and are not undone."""
        return [
            index
            for index, planned in enumerate(self.plan)
            if planned.get("has_undo") and (planned["name"] in self.results or index in self.undo_failed)
        ]


@dataclass(frozen=True)
class Intervention:
    """One row of the table. `role` is the lowest one that may; `needs` are the fields that must come with it."""

    id: str
    title: str
    role: str
    needs: tuple[str, ...]
    why_not: Callable[[Facts], str] = field(repr=False)
    does: str = ""
    is_danger: bool = False


def _cancel(facts: Facts) -> str:
    if not facts.is_live:
        if facts.live_children:
            return ""
        return _needs_operator(facts) or f"It has ended: {facts.state}."
    if facts.is_cancel_requested:
        return "A cancel was asked for already."
    if facts.direction != "do":
        return "It is being undone already."
    if not facts.plan:
        return "" if facts.is_cancellable else "It goes forward until it is done."
    if not any(planned.get("may_cancel") for planned in facts.plan):
        return "It goes forward until it is done."
    if facts.position >= len(facts.plan) or not facts.plan[facts.position].get("may_cancel"):
        return "It is past the point from which it could be undone."
    return ""


def _retry(facts: Facts) -> str:
    if facts.is_live:
        return "It has not ended."
    if facts.state == RunState.FAILED_NOT_CLEAN:
        return "Something is left behind; run the undo again first."
    if facts.state != RunState.FAILED_UNDONE:
        return _needs_operator(facts) or f"It has not failed: {facts.state}."
    if not facts.plan or not facts.plan[0].get("may_retry"):
        return "What it needs was let go of when it failed; ask for it anew."
    return _unheld(facts)


def _resume(facts: Facts) -> str:
    if facts.state == RunState.NEEDS_OPERATOR:
        return ""
    if facts.state not in (RunState.WAITING, RunState.QUEUED) or not facts.wait_cause:
        return "It is not waiting."
    reasons = {
        WaitCause.HOST: f"Host {facts.step_host or facts.wait_detail} is at work on it, or will be given up on.",
        WaitCause.LOCK: "It waits for a lock and gets it when the holder ends.",
    }
    return reasons.get(WaitCause(facts.wait_cause), "")


def _reschedule(facts: Facts) -> str:
    if not facts.is_live:
        return _needs_operator(facts) or f"It has ended: {facts.state}."
    if facts.direction != "do" or facts.is_cancel_requested:
        return "It is being undone already."
    planned = facts.plan[facts.position] if facts.position < len(facts.plan) else {}
    if not planned.get("may_reschedule") or not facts.step_state:
        return "No step that another host could do is under way."
    if facts.alternates_left == 0:
        return "No alternate host is left."
    return ""


def _skip(facts: Facts) -> str:
    if facts.asked_for:
        return WAITS_ALREADY
    if not facts.is_live and facts.state != RunState.NEEDS_OPERATOR:
        return f"It has ended: {facts.state}."
    if facts.step_state in OPEN_STEP_STATES:
        return _under_way(facts)
    if facts.step_state not in BROKEN_STEP_STATES:
        return "No step is open or has failed."
    return ""


def _force(facts: Facts) -> str:
    if facts.asked_for:
        return WAITS_ALREADY
    if facts.state == RunState.NEEDS_OPERATOR:
        return ""
    if not facts.is_live:
        return f"It has ended: {facts.state}."
    if facts.state == RunState.QUEUED and not facts.plan:
        return "It has not begun; cancel it."
    return _under_way(facts)


def _take_over(facts: Facts) -> str:
    if not facts.is_live:
        return _needs_operator(facts) or f"It has ended: {facts.state}."
    if not facts.is_owned:
        return "Nobody owns it: it is parked."
    return "" if facts.is_lease_over else "Its owner is heard: the lease has not run out."


def _undo(facts: Facts) -> str:
    if facts.state != RunState.FAILED_NOT_CLEAN:
        return "Nothing is left behind."
    if not facts.to_undo:
        return "No step is on record whose undo could be run again."
    return _unheld(facts)


def _agree(facts: Facts) -> str:
    if not facts.asked_for:
        return "Nobody asks for agreement, or not any more."
    return BY_ID[facts.asked_for].why_not(replace(facts, asked_for=""))


def _decline(facts: Facts) -> str:
    return "" if facts.asked_for else "Nobody asks for agreement, or not any more."


def _needs_operator(facts: Facts) -> str:
    return "It needs an operator; resume it or force it to its end." if facts.state == RunState.NEEDS_OPERATOR else ""


def _unheld(facts: Facts) -> str:
    """Why a run that has let go of its locks must not go on with what it worked on."""
    if facts.later_run:
        return f"Workflow {facts.later_run} has worked on the same server since."
    return "" if facts.has_resources else "Its locks are not on record: it was opened by an older version."


def _under_way(facts: Facts) -> str:
    if facts.is_at_work:
        return "A worker that is heard is at work on it."
    if facts.step_state == StepState.WAITING and facts.is_host_heard:
        return f"Its command is under way on host {facts.step_host}, which is heard."
    return ""


WAITS_ALREADY = "It waits for another operator's agreement: that is to be given or declined first."
AGREE, DECLINE = "agree", "decline"
ANSWERS = (AGREE, DECLINE)  # offered only while somebody asks
INTERVENTIONS: tuple[Intervention, ...] = (
    Intervention("cancel", "Cancel", "member", ("reason",), _cancel, "Stops it, and undoes what it has done.", True),
    Intervention(
        "retry",
        "Retry from a step",
        "manager",
        ("reason", "step"),
        _retry,
        "Takes its locks again and begins a new attempt at the step; the steps after it are done again.",
    ),
    Intervention("resume", "Resume", "manager", ("reason",), _resume, "Goes on now instead of waiting."),
    Intervention(
        "reschedule",
        "Reschedule",
        "admin",
        ("reason",),
        _reschedule,
        "Undoes this attempt and goes to the next alternate host.",
    ),
    Intervention(
        "skip",
        "Skip or mark as done",
        "admin",
        ("reason", "step", "confirm", "mark"),
        _skip,
        "Goes on without doing the step. What is said for it is kept with the step.",
        True,
    ),
    Intervention(
        "force",
        "Force complete",
        "admin",
        ("reason", "confirm"),
        _force,
        "Ends it here, frees its locks, and keeps a list of what may be left behind.",
        True,
    ),
    Intervention(
        "take-over", "Take over", "admin", ("reason",), _take_over, "Fences its silent owner out; another goes on."
    ),
    Intervention(
        "undo", "Run undo again", "admin", ("reason",), _undo, "Takes its locks again and undoes what is left behind."
    ),
    Intervention(
        AGREE, "Agree", "admin", ("reason",), _agree, "Does what the other operator asked for, at once.", True
    ),
    Intervention(DECLINE, "Decline", "admin", ("reason",), _decline, "What was asked for is not done."),
)
BY_TWO = frozenset({"skip", "force"})  # where the operator wants a second person for them
BY_ID: Mapping[str, Intervention] = {one.id: one for one in INTERVENTIONS}
