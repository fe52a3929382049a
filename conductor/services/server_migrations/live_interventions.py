"""Interventions in a live migration under way: each is a workflow run of its own beside the migration's run."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from conductor.core.live_steering import POST_COPY, STEERINGS
from conductor.core.messages import message
from conductor.core.states import RunState
from conductor.journal.models import Event, WorkflowRun

ABORT, FINISH = "abort", "finish"
ABORT_FLOW, FINISH_FLOW, STEER_FLOW = "abort_live_migration", "force_live_migration", "steer_live_migration"
MOVE = "MoveLive"  # the step that the source executes
NOT_YET = message("migration.not_moving_yet")
CANNOT = message("migration.cannot")
SWITCHED = message("migration.switched")
NO_WAY_BACK = message("migration.post_copy")


def given(alias: str, instance_uuid: UUID | str, run_uuid: UUID | str) -> list[WorkflowRun]:
    """Return the interventions in the migration of that run, oldest first."""
    found = WorkflowRun.objects.using(alias).filter(
        instance_uuid=instance_uuid, flow__in=(ABORT_FLOW, FINISH_FLOW, STEER_FLOW)
    )
    return [run for run in found.order_by("pk") if run.inputs.get("live_run_uuid") == str(run_uuid)]


def kind_of(run: WorkflowRun) -> str:
    """Return the kind of an intervention's run: abort, finish, or a kind of core.live_steering."""
    return {ABORT_FLOW: ABORT, FINISH_FLOW: FINISH}.get(run.flow) or str(run.inputs["kind"])


def why_not_steered(kind: str, abilities: frozenset[str], *, is_post_copy: bool, has_begun: bool) -> str:
    """Return why an intervention of core.live_steering is refused now; "" where it is permitted."""
    if STEERINGS[kind].capability not in abilities:
        return CANNOT
    if is_post_copy:
        return SWITCHED
    return "" if has_begun else NOT_YET


def has_begun(alias: str, run_uuid: UUID | str) -> bool:
    """Whether the source has reported progress: before that, an intervention would have no effect."""
    rows = Event.objects.using(alias).filter(run_uuid=run_uuid, kind="step.progress").order_by("-pk")
    return any(event.data.get("step") == MOVE for event in rows[:1])


def is_post_copy(alias: str, instance_uuid: UUID | str, run_uuid: UUID | str) -> bool:
    """Whether the guest already runs at its destination."""
    rows = Event.objects.using(alias).filter(run_uuid=run_uuid, kind="step.progress").order_by("-pk")
    return is_post_copy_reported(rows[:1], given(alias, instance_uuid, run_uuid))


def is_post_copy_reported(rows: Iterable[Event], orders: Iterable[WorkflowRun]) -> bool:
    """Whether the source's last report, or a completed intervention, means post-copy."""
    last = next(iter(rows), None)
    if last is not None and (last.data.get("figures") or {}).get("is_post_copy"):
        return True
    return any(run.state == RunState.DONE and kind_of(run) == POST_COPY for run in orders)
