"""The journal's hot path: what every step of every run does, in as few and as cheap statements as can be.

All of it runs inside the caller's write transaction, which begins with `hold`: the fence.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, DateTimeField, Field, JSONField, UUIDField

from conductor.core.states import LIVE_RUN_STATES, RunState, StepState
from conductor.journal.models import Event, OutboxMessage, ResourceLock, StepRecord, WorkflowRun
from conductor.sql.dialect import NOW, Insert, Later, names, places, run, update
from conductor.sql.rows import Rows, loaded

Convert = Callable[[Any], Any] | None

# What a run may be told while somebody works on it: read with each fence, so that no transaction decides without it.
ASKED = ("is_cancel_requested", "cancel_reason")

_LIVE = ", ".join(f"'{state}'" for state in sorted(LIVE_RUN_STATES))
_DUE = f"state IN ({_LIVE}) AND wake_at <= {{now}} AND (owner IS NULL OR lease_expires_at < {{now}})"

_HOLD = f"SELECT {', '.join(ASKED)} FROM journal_workflowrun WHERE id = %s AND fencing_token = %s {{for update}}"
_IS_DUE = f"SELECT 1 FROM journal_workflowrun WHERE uuid = %s AND {_DUE}"
_GRANT = (
    "INSERT INTO journal_leasegrant (run_id, owner, reason, granted_at) "
    "SELECT id, %s, CASE WHEN owner IS NULL THEN %s ELSE %s END, {now} "
    f"FROM journal_workflowrun WHERE uuid = %s AND {_DUE} {{for update skip locked}} RETURNING id"
)
_OWN = (
    "UPDATE journal_workflowrun SET owner = %s, fencing_token = %s, lease_expires_at = {later}, waits_for = NULL, "
    f"state = CASE WHEN direction = 'undo' THEN '{RunState.UNDOING}' ELSE '{RunState.RUNNING}' END "
    "WHERE uuid = %s RETURNING "
)
_WAITS = f"step_key = %s AND state = '{StepState.WAITING}' AND answer IS NULL"
_WAKE = (
    f"UPDATE journal_workflowrun SET wake_at = {{now}} WHERE uuid = %s AND state IN ({_LIVE}) "
    f"AND id IN (SELECT run_id FROM journal_steprecord WHERE {_WAITS}) RETURNING id"
)
_ANSWER = f"UPDATE journal_steprecord SET answer = %s WHERE {_WAITS}"
_LAST_FAILURE = (
    "SELECT error FROM journal_steprecord WHERE run_id = %s AND attempt = %s AND direction = 'do' "
    f"AND state = '{StepState.FAILED}' ORDER BY id DESC LIMIT 1"
)
MOST_EVENTS = 100  # of one statement: databases bound its parameters, and each count is a text of its own
CLAIMED = "claim"
TAKEN_OVER = "takeover: the lease ran out"

_STEP_COLUMNS = (
    *("run_id", "index", "direction", "attempt", "try_number"),
    *("name", "worker", "step_key", "fencing_token", "state", "host"),
)
# What of a new record is not a default, from anything that has it.
step_row = attrgetter(*_STEP_COLUMNS)

RECORDS = Rows(StepRecord, "id")
RECORDS_BY_KEY = Rows(StepRecord, "step_key")
NEWEST_RECORDS = Rows(StepRecord, "run_id", "direction", "index", "attempt", end="ORDER BY try_number DESC LIMIT 1")
RUNS = Rows(WorkflowRun, "id")
COMMANDS = Rows(OutboxMessage, "id")
STEPS = Insert(StepRecord, *_STEP_COLUMNS, now=("started_at",))
ENDED_STEPS = Insert(StepRecord, *_STEP_COLUMNS, "result", now=("started_at", "finished_at"))
EVENTS = Insert(Event, "topic", "kind", "run_uuid", "instance_uuid", "project_id", "data", now=("created_at",))


# A command that is not answered rings again, and the agent answers a repeated one from its journal.
FIRST_RESEND_SECONDS = 5.0
_COMMANDS = Insert(
    OutboxMessage,
    *("step_key", "run_uuid", "queue", "host", "body", "is_owed", "times_sent"),
    now=("created_at",),
    later={"send_again_at": FIRST_RESEND_SECONDS},
)

_OF_INSTANCE = "body->'body'->>'instance_uuid'"
_DROP_COMMAND = f"DELETE FROM journal_outboxmessage WHERE step_key = %s RETURNING is_owed, host, {_OF_INSTANCE}"
_HAS_DEFERRED = f"SELECT 1 FROM journal_outboxmessage WHERE is_owed AND host = %s AND {_OF_INSTANCE} = %s LIMIT 1"

_LOCKS = Insert(
    ResourceLock,
    *("resource", "run_id"),
    now=("granted_at",),
    end="ON CONFLICT (resource) DO NOTHING RETURNING resource",
)


def create_run(connection: BaseDatabaseWrapper, made: WorkflowRun) -> WorkflowRun:
    """Insert a run that is due at once, as it was made."""
    row = []
    for name, convert in _given_columns():
        value = getattr(made, name)
        row.append(value if convert is None or value is None else convert(value))
    ((made.pk,),) = _runs().run(connection, [row])
    made._state.adding, made._state.db = False, connection.alias
    return made


def take_locks(connection: BaseDatabaseWrapper, run_id: int, resources: Sequence[str]) -> list[str]:
    """Those of `resources` that were free, and are the run's now. Waits for whoever is just taking or freeing one."""
    if not resources:
        return []
    return [resource for (resource,) in _LOCKS.run(connection, [(resource, run_id) for resource in resources])]


def drop_locks(connection: BaseDatabaseWrapper, run_id: int) -> list[str]:
    """Take all locks, and all places in queues for locks, from a run; those resources, if anybody may wait for one.

    In order, as those who want to wait for one hold them: they have either written so, or find it gone.
    """
    if connection.vendor == "sqlite":  # where nobody else writes now
        gone = run(connection, "DELETE FROM journal_resourcelock WHERE run_id = %s RETURNING resource", (run_id,))
        if not is_any_waiting(connection):
            return []
        return [*(resource for (resource,) in gone), *leave_queues(connection, run_id)]
    return [resource for (resource,) in run(connection, _DROP_LOCKS, (run_id, run_id))]


_DROP_LOCKS = """
    WITH mine AS (
        SELECT resource FROM journal_resourcelock WHERE run_id = %s ORDER BY resource FOR UPDATE
    ), freed AS (
        DELETE FROM journal_resourcelock held USING mine WHERE held.resource = mine.resource RETURNING held.resource
    ), left_queues AS (
        DELETE FROM journal_lockwait WHERE run_id = %s RETURNING resource
    )
    SELECT resource FROM freed UNION ALL SELECT resource FROM left_queues"""


def is_any_held(connection: BaseDatabaseWrapper, resources: Sequence[str]) -> bool:
    """Whether a run holds one of `resources`, or waits for one, as far as one can see."""
    looks = [f"SELECT 1 FROM {table} WHERE resource IN ({places(resources)})" for table in _LOCK_TABLES]
    return bool(resources) and bool(run(connection, f"{' UNION ALL '.join(looks)} LIMIT 1", (*resources, *resources)))


def is_any_waiting(connection: BaseDatabaseWrapper) -> bool:
    """Whether any run waits for a lock."""
    return bool(run(connection, "SELECT 1 FROM journal_lockwait LIMIT 1"))


_LOCK_TABLES = ("journal_resourcelock", "journal_lockwait")


def waiting_for(connection: BaseDatabaseWrapper, resources: Sequence[str]) -> list[int]:
    """Ids of the runs that wait for any of `resources`, the oldest first."""
    if not resources:
        return []
    text = f"SELECT DISTINCT run_id FROM journal_lockwait WHERE resource IN ({places(resources)}) ORDER BY run_id"
    return [run_id for (run_id,) in run(connection, text, resources)]


def queued_for(connection: BaseDatabaseWrapper, run_id: int) -> list[str]:
    """What a run waits for, in order."""
    text = "SELECT resource FROM journal_lockwait WHERE run_id = %s ORDER BY resource"
    return [resource for (resource,) in run(connection, text, (run_id,))]


def is_taken_for(connection: BaseDatabaseWrapper, run_id: int, resources: Sequence[str]) -> bool:
    """Whether any of `resources` is held, or was asked for by a run that came before."""
    text = (
        f"SELECT 1 FROM journal_resourcelock WHERE resource IN ({places(resources)}) "
        f"UNION ALL SELECT 1 FROM journal_lockwait WHERE resource IN ({places(resources)}) AND run_id < %s LIMIT 1"
    )
    return bool(run(connection, text, (*resources, *resources, run_id)))


def leave_queues(connection: BaseDatabaseWrapper, run_id: int) -> list[str]:
    """Let a run wait for no lock any more; what it waited for."""
    gone = run(connection, "DELETE FROM journal_lockwait WHERE run_id = %s RETURNING resource", (run_id,))
    return [resource for (resource,) in gone]


def hold(connection: BaseDatabaseWrapper, run_id: int, token: int) -> tuple[Any, ...] | None:
    """The fence: hold the run's row if `token` is still its newest; what was ASKED, or None for a stale owner."""
    rows = run(connection, _HOLD, (run_id, token))
    return rows[0] if rows else None


def save(connection: BaseDatabaseWrapper, run_id: int, values: Mapping[str, Any]) -> None:
    """Write columns of a run; times may be `Later`."""
    prepared = [(name, as_column(name, value)) for name, value in values.items()]
    text, params = update("journal_workflowrun", prepared, "id = %s")
    run(connection, text, [*params, run_id])


def open_steps(connection: BaseDatabaseWrapper, rows: Sequence[Sequence[Any]]) -> list[int]:
    """Insert step records; each row is made by `step_row`. Returns their ids."""
    return [pk for (pk,) in STEPS.run(connection, rows)]


def open_ended_steps(connection: BaseDatabaseWrapper, ended: Sequence[Any]) -> None:
    """Insert records of steps that were begun and ended by the same transaction."""
    ENDED_STEPS.run(connection, [(*step_row(record), json.dumps(record.result)) for record in ended])


def last_failure(connection: BaseDatabaseWrapper, run_id: int, attempt: int) -> dict[str, Any]:
    """The error of the newest step that failed in this attempt on the way forward; empty when none did."""
    rows = run(connection, _LAST_FAILURE, (run_id, attempt))
    return json.loads(rows[0][0]) if rows and rows[0][0] else {}


def close_step(connection: BaseDatabaseWrapper, step_key: str, state: str, values: Mapping[str, Any]) -> None:
    """End a step record; `values` are its JSON columns."""
    encoded = [(name, None if value is None else json.dumps(value)) for name, value in values.items()]
    columns = [("state", str(state)), ("finished_at", NOW), *encoded]
    text, params = update("journal_steprecord", columns, "step_key = %s")
    run(connection, text, [*params, step_key])


def append_events(connection: BaseDatabaseWrapper, rows: Sequence[Sequence[Any]]) -> list[int]:
    """Insert events in their order; rows hold the given columns of `EVENTS`. Returns their numbers."""
    if len(rows) <= MOST_EVENTS:
        return [number for (number,) in EVENTS.run(connection, rows)]
    parts = [rows[begin : begin + MOST_EVENTS] for begin in range(0, len(rows), MOST_EVENTS)]
    return [number for part in parts for (number,) in EVENTS.run(connection, part)]


def is_due(connection: BaseDatabaseWrapper, run_uuid: UUID | str) -> bool:
    """Whether the run waits for an owner now."""
    return bool(run(connection, _IS_DUE, (uuid_param(run_uuid),)))


def claim(connection: BaseDatabaseWrapper, run_uuid: UUID | str, owner: str, lease: float) -> WorkflowRun | None:
    """Make `owner` the owner of a run that is due; None when it is not, or when another is just claiming it."""
    uuid = uuid_param(run_uuid)
    granted = run(connection, _GRANT, (owner, CLAIMED, TAKEN_OVER, uuid))
    if not granted:
        return None
    attributes, converters, text = _loaded()
    (row,) = run(connection, text, (owner, granted[0][0], lease, uuid))
    values = [
        value if convert is None or value is None else convert(value)
        for convert, value in zip(converters, row, strict=True)
    ]
    return loaded(WorkflowRun, connection.alias, dict(zip(attributes, values, strict=True)))


def keep_answer(
    connection: BaseDatabaseWrapper, run_uuid: UUID | str, step_key: str, answer: Mapping[str, Any]
) -> bool:
    """Write down what a host answered, once; the run is due then. False when nobody waits for it (any more).

    The run's row is held first, as its owners do: else the two would wait for each other.
    """
    if not run(connection, _WAKE, (uuid_param(run_uuid), step_key)):
        return False
    return bool(run(connection, f"{_ANSWER} RETURNING id", (json.dumps(answer), step_key)))


def add_command(
    connection: BaseDatabaseWrapper, run_uuid: UUID | str, command: Any, *, queue: str, body: Any, is_owed: bool
) -> None:
    """Put a command for a host, encoded as `body`, into the outbox as sent once."""
    uuid = uuid_param(run_uuid)
    _COMMANDS.run(connection, [(command.step_key, uuid, queue, command.host, json.dumps(body), is_owed, 1)])


def drop_command(connection: BaseDatabaseWrapper, step_key: str) -> tuple[str, str] | None:
    """Take an answered command out of the outbox; of a deferred one its host and instance, else None."""
    gone = run(connection, _DROP_COMMAND, (step_key,))
    return (gone[0][1], gone[0][2]) if gone and gone[0][0] else None


def has_deferred(connection: BaseDatabaseWrapper, host: str, instance_uuid: str) -> bool:
    """Whether the host has a deferred command about the instance that it has not answered."""
    return bool(run(connection, _HAS_DEFERRED, (host, instance_uuid)))


def uuid_param(value: UUID | str | None) -> str | None:
    """A uuid as both databases take it."""
    return None if value is None else (value if isinstance(value, UUID) else UUID(value)).hex


def as_column(name: str, value: Any) -> Any:
    """A value of a run's column as the database takes it; `Later` stays as it is."""
    if isinstance(value, Later) or value is None:
        return value
    return json.dumps(value) if name in _json_columns() else str(value) if isinstance(value, str) else value


@cache
def _json_columns() -> frozenset[str]:
    return frozenset(str(field.column) for field in WorkflowRun._meta.concrete_fields if isinstance(field, JSONField))


@cache
def _given_fields() -> tuple[Field[Any, Any], ...]:
    fields = WorkflowRun._meta.concrete_fields
    return tuple(field for field in fields if not field.primary_key and not isinstance(field, DateTimeField))


@cache
def _runs() -> Insert:
    return Insert(WorkflowRun, *(str(field.column) for field in _given_fields()), now=("wake_at", "created_at"))


@cache
def _given_columns() -> tuple[tuple[str, Convert], ...]:
    """The attributes of a new run, each with what makes a value of its column of it."""
    return tuple((str(field.attname), _chosen(field, json.dumps, uuid_param)) for field in _given_fields())


@cache
def _loaded() -> tuple[list[str], list[Convert], str]:
    """The attributes of a run, what makes them of their columns, and the statement that claims it and returns these.

    All but its times, which a turn does not read: they are fetched when somebody asks.
    """
    fields = [field for field in WorkflowRun._meta.concrete_fields if not isinstance(field, DateTimeField)]
    converters = [
        _chosen(field, json.loads, field.to_python, bool if isinstance(field, BooleanField) else None)
        for field in fields
    ]
    return [str(field.attname) for field in fields], converters, _OWN + names(field.column for field in fields)


def _chosen(field: Field[Any, Any], for_json: Convert, for_uuid: Convert, for_rest: Convert = None) -> Convert:
    if isinstance(field, UUIDField):
        return for_uuid
    return for_json if isinstance(field, JSONField) else for_rest
