"""What a sweep looks for in a journal: most often nothing, every second again, so the question must cost little."""

from __future__ import annotations

from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from conductor.core.states import LIVE_RUN_STATES
from conductor.sql.dialect import run

_LIVE = ", ".join(f"'{state}'" for state in sorted(LIVE_RUN_STATES))
_RUNS = (
    f"SELECT queue, uuid FROM journal_workflowrun WHERE state IN ({_LIVE}) AND ("
    "(owner IS NULL AND wake_at <= {later}) OR (owner IS NOT NULL AND lease_expires_at < {now})"
    ") ORDER BY wake_at LIMIT %s"
)
_COMMAND = "SELECT 1 FROM journal_outboxmessage WHERE send_again_at <= {now} LIMIT 1"
_WAITING = "SELECT DISTINCT run_id FROM journal_lockwait ORDER BY run_id"
_FOREIGN = "SELECT 1 FROM journal_resourcelock WHERE holder_alias = %s AND holder_uuid IS NOT NULL LIMIT 1"


def runs_due(connection: BaseDatabaseWrapper, grace_seconds: float, limit: int) -> list[tuple[str, str]]:
    """Queue and uuid of runs that have been due for so long without an owner, or whose lease ran out; oldest first."""
    found = run(connection, _RUNS, (-grace_seconds, limit))
    return [(queue, str(uuid if isinstance(uuid, UUID) else UUID(uuid))) for queue, uuid in found]


def has_commands_due(connection: BaseDatabaseWrapper) -> bool:
    """Whether a command is to be sent again."""
    return bool(run(connection, _COMMAND))


def runs_in_queues(connection: BaseDatabaseWrapper) -> list[int]:
    """Ids of the runs that wait for any lock, the oldest first."""
    return [run_id for (run_id,) in run(connection, _WAITING)]


def has_foreign_locks(connection: BaseDatabaseWrapper, holder_alias: str) -> bool:
    """Whether runs of another database hold locks in this one."""
    return bool(run(connection, _FOREIGN, (holder_alias,)))
