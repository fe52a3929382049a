"""What is ordered of a live migration under way: each order is a run of its own beside the one that moves the guest."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from conductor.core.live_steering import POST_COPY, STEERINGS
from conductor.core.states import RunState
from conductor.journal.models import Event, WorkflowRun

ABORT, FINISH = "abort", "finish"
ABORT_FLOW, FINISH_FLOW, STEER_FLOW = "abort_live_migration", "force_live_migration", "steer_live_migration"
MOVE = "MoveLive"  # the step that the source carries out
NOT_YET = "The guest does not move yet."
CANNOT = "The driver of its source cannot do that, is told not to, or is of an earlier release."
SWITCHED = "The guest has switched."
NO_WAY_BACK = "The guest has switched to post-copy: it cannot be stopped any more."


def given(alias: str, instance_uuid: UUID | str, run_uuid: UUID | str) -> list[WorkflowRun]:
    """The orders to the move of that run, oldest first."""
    found = WorkflowRun.objects.using(alias).filter(
        instance_uuid=instance_uuid, flow__in=(ABORT_FLOW, FINISH_FLOW, STEER_FLOW)
    )
    return [run for run in found.order_by("pk") if run.inputs.get("live_run_uuid") == str(run_uuid)]


def kind_of(run: WorkflowRun) -> str:
    """What such a run orders: abort, finish, or a kind of core.live_steering."""
    return {ABORT_FLOW: ABORT, FINISH_FLOW: FINISH}.get(run.flow) or str(run.inputs["kind"])


def why_not_steered(kind: str, abilities: frozenset[str], *, is_post_copy: bool, has_begun: bool) -> str:
    """Why a move cannot be given an order of core.live_steering now; empty where it can."""
    if STEERINGS[kind].capability not in abilities:
        return CANNOT
    if is_post_copy:
        return SWITCHED
    return "" if has_begun else NOT_YET


def has_begun(alias: str, run_uuid: UUID | str) -> bool:
    """Whether the source has said that the guest moves: sent to it before, an order would find nothing to change."""
    told = Event.objects.using(alias).filter(run_uuid=run_uuid, kind="step.progress").order_by("-pk")
    return any(event.data.get("step") == MOVE for event in told[:1])


def is_post_copy(alias: str, instance_uuid: UUID | str, run_uuid: UUID | str) -> bool:
    """Whether the guest goes on at its destination already."""
    told = Event.objects.using(alias).filter(run_uuid=run_uuid, kind="step.progress").order_by("-pk")
    return says_post_copy(told[:1], given(alias, instance_uuid, run_uuid))


def says_post_copy(told: Iterable[Event], orders: Iterable[WorkflowRun]) -> bool:
    """By the last word of its source, or by an order that was done."""
    last = next(iter(told), None)
    if last is not None and (last.data.get("figures") or {}).get("is_post_copy"):
        return True
    return any(run.state == RunState.DONE and kind_of(run) == POST_COPY for run in orders)
