"""States of instances, workflows and steps, and the word that the Compute API says for each."""

from __future__ import annotations

from enum import IntEnum, StrEnum


class VmState(StrEnum):
    """Stable, user-visible outcome."""

    ACTIVE = "active"
    BUILDING = "building"
    PAUSED = "paused"
    SUSPENDED = "suspended"
    STOPPED = "stopped"
    RESCUED = "rescued"
    RESIZED = "resized"
    SOFT_DELETED = "soft-delete"
    DELETED = "deleted"
    ERROR = "error"
    SHELVED = "shelved"
    SHELVED_OFFLOADED = "shelved_offloaded"


class TaskState(StrEnum):
    """What is under way."""

    SCHEDULING = "scheduling"
    NETWORKING = "networking"
    SPAWNING = "spawning"
    DELETING = "deleting"


class PowerState(IntEnum):
    """What the hypervisor last said; the numbers are the Compute API's."""

    NOSTATE = 0
    RUNNING = 1
    PAUSED = 3
    SHUTDOWN = 4
    CRASHED = 6
    SUSPENDED = 7


STATUS: dict[str, str] = {
    VmState.ACTIVE: "ACTIVE",
    VmState.BUILDING: "BUILD",
    VmState.PAUSED: "PAUSED",
    VmState.SUSPENDED: "SUSPENDED",
    VmState.STOPPED: "SHUTOFF",
    VmState.RESCUED: "RESCUE",
    VmState.RESIZED: "VERIFY_RESIZE",
    VmState.SOFT_DELETED: "SOFT_DELETED",
    VmState.DELETED: "DELETED",
    VmState.ERROR: "ERROR",
    VmState.SHELVED: "SHELVED",
    VmState.SHELVED_OFFLOADED: "SHELVED_OFFLOADED",
}


def status_of(vm_state: str, task_state: str | None) -> str:
    """The Compute API's `status` for a pair of states; UNKNOWN for what is in no table."""
    return STATUS.get(vm_state, "UNKNOWN")


class RunState(StrEnum):
    """States of a workflow run; the values are the words that API, pages and logs use."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    UNDOING = "undoing"
    DONE = "done"
    FAILED_UNDONE = "failed (undone)"
    FAILED_NOT_CLEAN = "failed (not clean)"
    CANCELLED = "cancelled"
    NEEDS_OPERATOR = "needs operator"


LIVE_RUN_STATES = frozenset({RunState.QUEUED, RunState.RUNNING, RunState.WAITING, RunState.UNDOING})
FINAL_RUN_STATES = frozenset(RunState) - LIVE_RUN_STATES - {RunState.NEEDS_OPERATOR}


class StepState(StrEnum):
    """States of one attempt of a step."""

    PLANNED = "planned"
    RUNNING = "running"
    WAITING = "waiting"
    RETRYING = "retrying"
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    UNDOING = "undoing"
    UNDONE = "undone"
    UNDO_FAILED = "undo failed"
    CANCELLED = "cancelled"


class WaitCause(StrEnum):
    """Why a run waits. A run that waits without a cause is a bug."""

    LOCK = "lock"
    HOST = "host"
    TIMER = "timer"
    CHILDREN = "children"
    CELL = "cell down"
