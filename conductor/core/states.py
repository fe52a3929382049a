"""States of instances, workflows and steps, and their names in the Compute API."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum


class VmState(StrEnum):
    """Stable, user-visible state of an instance."""

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
    """The action in progress on an instance."""

    SCHEDULING = "scheduling"
    NETWORKING = "networking"
    BLOCK_DEVICE_MAPPING = "block_device_mapping"
    SPAWNING = "spawning"
    IMAGE_SNAPSHOT_PENDING = "image_snapshot_pending"
    IMAGE_UPLOADING = "image_uploading"
    IMAGE_BACKUP = "image_backup"
    UPDATING_PASSWORD = "updating_password"
    RESIZE_PREP = "resize_prep"
    RESIZE_MIGRATING = "resize_migrating"
    RESIZE_MIGRATED = "resize_migrated"
    RESIZE_FINISH = "resize_finish"
    RESIZE_CONFIRMING = "resize_confirming"
    RESIZE_REVERTING = "resize_reverting"
    REBOOTING = "rebooting"
    REBOOT_PENDING = "reboot_pending"
    REBOOT_STARTED = "reboot_started"
    REBOOTING_HARD = "rebooting_hard"
    REBOOT_PENDING_HARD = "reboot_pending_hard"
    REBOOT_STARTED_HARD = "reboot_started_hard"
    PAUSING = "pausing"
    UNPAUSING = "unpausing"
    SUSPENDING = "suspending"
    RESUMING = "resuming"
    POWERING_OFF = "powering-off"
    POWERING_ON = "powering-on"
    RESCUING = "rescuing"
    UNRESCUING = "unrescuing"
    REBUILDING = "rebuilding"
    REBUILD_BLOCK_DEVICE_MAPPING = "rebuild_block_device_mapping"
    REBUILD_SPAWNING = "rebuild_spawning"
    MIGRATING = "migrating"
    DELETING = "deleting"
    SOFT_DELETING = "soft-deleting"
    RESTORING = "restoring"
    SHELVING = "shelving"
    SHELVING_IMAGE_UPLOADING = "shelving_image_uploading"
    SHELVING_OFFLOADING = "shelving_offloading"
    UNSHELVING = "unshelving"


class PowerState(IntEnum):
    """The last power state that the hypervisor reported. The numbers are the Compute API's."""

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


_RESIZE = dict.fromkeys(
    (TaskState.RESIZE_PREP, TaskState.RESIZE_MIGRATING, TaskState.RESIZE_MIGRATED, TaskState.RESIZE_FINISH), "RESIZE"
)
_REBUILD = dict.fromkeys(
    (TaskState.REBUILDING, TaskState.REBUILD_BLOCK_DEVICE_MAPPING, TaskState.REBUILD_SPAWNING), "REBUILD"
)
_SOFT_REBOOT = dict.fromkeys((TaskState.REBOOTING, TaskState.REBOOT_PENDING, TaskState.REBOOT_STARTED), "REBOOT")
_HARD_REBOOT = dict.fromkeys(
    (TaskState.REBOOTING_HARD, TaskState.REBOOT_PENDING_HARD, TaskState.REBOOT_STARTED_HARD), "HARD_REBOOT"
)
_MIGRATING = {TaskState.MIGRATING: "MIGRATING"}
STATUS_BY_TASK: dict[str, Mapping[TaskState, str]] = {
    VmState.ACTIVE: {
        **_SOFT_REBOOT,
        **_HARD_REBOOT,
        TaskState.UPDATING_PASSWORD: "PASSWORD",
        **_REBUILD,
        **_MIGRATING,
        **_RESIZE,
    },
    VmState.STOPPED: {**_RESIZE, **_REBUILD},
    VmState.RESIZED: {TaskState.RESIZE_REVERTING: "REVERT_RESIZE"},
    VmState.PAUSED: _MIGRATING,
    VmState.ERROR: _REBUILD,
}


STATUSES = frozenset(STATUS.values()).union(*(by_task.values() for by_task in STATUS_BY_TASK.values()))


def status_of(vm_state: str, task_state: str | None) -> str:
    """Return the Compute API's `status` for a VM state and a task state. UNKNOWN for a pair that is in no table."""
    by_task = STATUS_BY_TASK.get(vm_state, {})
    shown = by_task.get(TaskState(task_state)) if task_state else None
    return shown or STATUS.get(vm_state, "UNKNOWN")


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
    NOT_RUN = "not run"  # was planned; the run rolled back or ended before
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
    FORCED = "forced"  # an operator marked it as done


class MigrationType(StrEnum):
    """Kinds of moves; the values are the Compute API's."""

    RESIZE = "resize"
    MIGRATION = "migration"
    LIVE_MIGRATION = "live-migration"
    EVACUATION = "evacuation"


class MigrationStatus(StrEnum):
    """The progress of a move. The values are the Compute API's."""

    ACCEPTED = "accepted"
    QUEUED = "queued"
    PREPARING = "preparing"
    PRE_MIGRATING = "pre-migrating"
    MIGRATING = "migrating"
    POST_MIGRATING = "post-migrating"
    RUNNING = "running"
    FINISHED = "finished"
    CONFIRMING = "confirming"
    CONFIRMED = "confirmed"
    REVERTING = "reverting"
    REVERTED = "reverted"
    DONE = "done"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"
    ERROR = "error"


FINAL_MIGRATION_STATUSES = frozenset(
    {
        MigrationStatus.CONFIRMED,
        MigrationStatus.REVERTED,
        MigrationStatus.DONE,
        MigrationStatus.COMPLETED,
        MigrationStatus.CANCELLED,
        MigrationStatus.FAILED,
        MigrationStatus.ERROR,
    }
)


class WaitCause(StrEnum):
    """Reason why a run waits. A run that waits without a cause is a bug."""

    LOCK = "lock"
    HOST = "host"
    TIMER = "timer"
    CHILDREN = "children"
    CELL = "cell down"
    SCHEDULER = "scheduler"
    FIRST_REPORT = "first report"


CELL_IN_QUARANTINE = "it is in quarantine"  # in place of why a cell does not answer
