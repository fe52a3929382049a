"""Raw SQL statements of the journal: those of every step of every run, and those of the sweep each second.

Each names its index, and why the ORM is not used. Writes run inside the caller's transaction, which
begins with `fence`; only a `Transition` contains the fence itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, DateTimeField, Field, JSONField, UUIDField

from conductor.core.states import LIVE_RUN_STATES, RunState, StepState
from conductor.db.dialect import NOW, Insert, Row, SecondsFromNow, names, places, run, run_each, run_many, update
from conductor.db.rows import Rows, loaded
from conductor.journal.models import Event, LeaseGrant, OutboxMessage, ResourceLock, StepRecord, WorkflowRun

Convert = Callable[[Any], Any] | None
Statement = tuple[str, list[Any]]  # a text and its parameters

# Requests to a running run: read with each fence, so that no transaction decides without them.
ASKED = ("is_cancel_requested", "cancel_reason")

_LIVE = ", ".join(f"'{state}'" for state in sorted(LIVE_RUN_STATES))
_DUE = f"state IN ({_LIVE}) AND wake_at <= {{now}} AND (owner IS NULL OR lease_expires_at < {{now}})"

_HOLD = f"SELECT {', '.join(ASKED)} FROM journal_workflowrun WHERE id = %s AND fencing_token = %s {{for update}}"
_NEXT_STEP = ("flow", "flow_version", "position")
_ORDINARY = "direction = 'do' AND orders IS NULL AND NOT is_cancel_requested"
_DUE_AT = f"SELECT {names(_NEXT_STEP)}, {_ORDINARY} FROM journal_workflowrun WHERE uuid = %s AND {_DUE}"
_OTHERS_DUE = (
    f"SELECT uuid FROM journal_workflowrun WHERE state IN ({_LIVE}) AND wake_at <= {{now}} AND owner IS NULL AND "
    f"{_ORDINARY} AND flow = %s AND flow_version = %s AND position = %s AND uuid <> %s ORDER BY wake_at LIMIT %s"
)
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
MOST_EVENTS = 100  # per statement: databases limit its parameters, and each count is a text of its own
CLAIMED = "claim"
TAKEN_OVER = "takeover: the lease ran out"

_STEP_COLUMNS = (
    *("run_id", "index", "direction", "attempt", "try_number"),
    *("name", "worker", "step_key", "fencing_token", "state", "host"),
)
# The columns of a new record without a default, from any object that has them.
step_row = attrgetter(*_STEP_COLUMNS)

RECORDS = Rows(StepRecord, "id")
RECORDS_BY_KEY = Rows(StepRecord, "step_key")
NEWEST_RECORDS = Rows(StepRecord, "run_id", "direction", "index", "attempt", end="ORDER BY try_number DESC LIMIT 1")
RUNS = Rows(WorkflowRun, "id")
RUNS_BY_UUID = Rows(WorkflowRun, "uuid")
COMMANDS = Rows(OutboxMessage, "id")
LOCKED_COMMANDS = Rows(OutboxMessage, "step_key", end="{for update}")
GRANTS = Insert(LeaseGrant, "run_id", "owner", "reason", now=("granted_at",))
STEPS = Insert(StepRecord, *_STEP_COLUMNS, now=("started_at",))
ENDED_STEPS = Insert(StepRecord, *_STEP_COLUMNS, "result", now=("started_at", "finished_at"))
EVENTS = Insert(Event, "topic", "kind", "run_uuid", "instance_uuid", "project_id", "data", now=("created_at",))


# An unanswered command is sent again, and the agent answers a repeated one from its journal.
FIRST_RESEND_SECONDS = 5.0
_COMMANDS = Insert(
    OutboxMessage,
    *("step_key", "run_uuid", "queue", "host", "body", "is_deferred", "times_sent"),
    now=("created_at",),
    later={"send_again_at": FIRST_RESEND_SECONDS},
)

_OF_INSTANCE = "body->'body'->>'instance_uuid'"
_DROP_COMMAND = f"DELETE FROM journal_outboxmessage WHERE step_key = %s RETURNING is_deferred, host, {_OF_INSTANCE}"
_HAS_COMMAND = f"SELECT 1 FROM journal_outboxmessage WHERE host = %s AND {_OF_INSTANCE} = %s LIMIT 1"
_HAS_DEFERRED = f"SELECT 1 FROM journal_outboxmessage WHERE is_deferred AND host = %s AND {_OF_INSTANCE} = %s LIMIT 1"

_LOCKS = Insert(
    ResourceLock,
    *("resource", "run_id"),
    now=("granted_at",),
    end="ON CONFLICT (resource) DO NOTHING RETURNING resource",
)


def create_runs(connection: BaseDatabaseWrapper, made: Sequence[WorkflowRun]) -> None:
    """Insert runs, tens at most, that are due at once; each gets its id. Raw SQL: the ORM takes ten times as long."""
    rows = [
        [
            value if convert is None or value is None else convert(value)
            for value, convert in ((getattr(one, name), convert) for name, convert in _given_columns())
        ]
        for one in made
    ]
    for one, (pk,) in zip(made, _runs().run(connection, rows) if rows else (), strict=True):
        one.pk, one._state.adding, one._state.db = pk, False, connection.alias


def take_locks(connection: BaseDatabaseWrapper, wanted: Sequence[tuple[str, int]]) -> list[str]:
    """Lock the free ones of these resources, each for the run with its id, and return them.

    Waits for a run that is taking or freeing one. Index: the primary key, which also decides. Raw SQL for `RETURNING`
    after `ON CONFLICT DO NOTHING`.
    """
    return [resource for (resource,) in _LOCKS.run(connection, wanted)] if wanted else []


def drop_locks(connection: BaseDatabaseWrapper, run_id: int) -> list[str]:
    """Free all locks and queue places of a run. Return their resources, if any run may wait for one.

    In order, as waiting runs lock them: those have either written so, or find the lock gone.
    Indexes: `run_id` of both tables. Raw SQL, as one statement frees locks and queues and returns them.
    """
    if connection.vendor == "sqlite":  # where no other transaction writes now
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
    """Whether a run holds one of `resources`, or waits for one, as far as this transaction can see.

    Indexes: the primary key of locks, `resource` of waits. Raw SQL for the UNION over two tables.
    """
    looks = [f"SELECT 1 FROM {table} WHERE resource IN ({places(resources)})" for table in _LOCK_TABLES]
    return bool(resources) and bool(run(connection, f"{' UNION ALL '.join(looks)} LIMIT 1", (*resources, *resources)))


def is_any_waiting(connection: BaseDatabaseWrapper) -> bool:
    """Whether any run waits for a lock. Index: none, it reads one row. Raw SQL: each end of a run asks."""
    return bool(run(connection, "SELECT 1 FROM journal_lockwait LIMIT 1"))


_LOCK_TABLES = ("journal_resourcelock", "journal_lockwait")


def waiting_for(connection: BaseDatabaseWrapper, resources: Sequence[str]) -> list[int]:
    """Return ids of the runs that wait for any of `resources`, the oldest first.

    Index: `resource`. Raw SQL: each end of a run asks, mostly without a result.
    """
    if not resources:
        return []
    text = f"SELECT DISTINCT run_id FROM journal_lockwait WHERE resource IN ({places(resources)}) ORDER BY run_id"
    return [run_id for (run_id,) in run(connection, text, resources)]


def queued_for(connection: BaseDatabaseWrapper, run_id: int) -> list[str]:
    """Return the resources that a run waits for, in order. Index: `run_id`; reason as for `waiting_for`."""
    text = "SELECT resource FROM journal_lockwait WHERE run_id = %s ORDER BY resource"
    return [resource for (resource,) in run(connection, text, (run_id,))]


def is_taken_for(connection: BaseDatabaseWrapper, run_id: int, resources: Sequence[str]) -> bool:
    """Whether any of `resources` is held, or was requested by a run that came before.

    Indexes as for `is_any_held`. Raw SQL for the UNION.
    """
    text = (
        f"SELECT 1 FROM journal_resourcelock WHERE resource IN ({places(resources)}) "
        f"UNION ALL SELECT 1 FROM journal_lockwait WHERE resource IN ({places(resources)}) AND run_id < %s LIMIT 1"
    )
    return bool(run(connection, text, (*resources, *resources, run_id)))


def is_held_by_other(connection: BaseDatabaseWrapper, resource: str, run_id: int) -> bool:
    """Whether `resource` is held, but not by this run. Index: the primary key. Raw SQL: each build asks."""
    return bool(run(connection, _HELD_BY_OTHER, (resource, run_id)))


_HELD_BY_OTHER = "SELECT 1 FROM journal_resourcelock WHERE resource = %s AND (run_id IS NULL OR run_id <> %s)"


def leave_queues(connection: BaseDatabaseWrapper, run_id: int) -> list[str]:
    """Remove a run from all queues of locks. Return those resources. Index: `run_id`; raw SQL for `RETURNING`."""
    gone = run(connection, "DELETE FROM journal_lockwait WHERE run_id = %s RETURNING resource", (run_id,))
    return [resource for (resource,) in gone]


def fence(connection: BaseDatabaseWrapper, run_id: int, token: int) -> tuple[Any, ...] | None:
    """Lock the run's row if `token` is still its newest. Return the values of ASKED, or None for a stale owner.

    Index: the primary key. Raw SQL, since each fenced transaction begins with it.
    """
    rows = run(connection, _HOLD, (run_id, token))
    return rows[0] if rows else None


_FENCE_IN_OTHER_DATABASE = (
    "INSERT INTO journal_foreignfence (run_uuid, fencing_token) VALUES (%s, %s) ON CONFLICT (run_uuid) DO UPDATE "
    "SET fencing_token = excluded.fencing_token "
    "WHERE journal_foreignfence.fencing_token <= excluded.fencing_token RETURNING fencing_token"
)


def fence_in_other_database(connection: BaseDatabaseWrapper, run_uuid: UUID, token: int) -> bool:
    """Store the highest token of a run of another database that has written here; False for a stale owner.

    Index: the primary key. Raw SQL, as the ORM cannot compare the stored row with the conflicting one: of two
    concurrent owners the second waits for the first, and the higher token stays.
    """
    return bool(run(connection, _FENCE_IN_OTHER_DATABASE, (run_uuid.hex, token)))


def save_run(connection: BaseDatabaseWrapper, run_id: int, values: Mapping[str, Any]) -> None:
    """Update columns of a run; times may be `SecondsFromNow`.

    Index: the primary key. Raw SQL, since each transaction of each step does it, and the ORM composes it each time.
    """
    run(connection, *_update_of_run(values, "id = %s", run_id))


def _update_of_run(values: Mapping[str, Any], where: str, *keys: Any) -> Statement:
    text, params = update(
        "journal_workflowrun", [(name, as_column(name, value)) for name, value in values.items()], where
    )
    return text, [*params, *keys]


def open_steps(connection: BaseDatabaseWrapper, rows: Sequence[Sequence[Any]]) -> list[int]:
    """Insert step records; each row is made by `step_row`. Return their ids. Raw SQL: each step does it."""
    return [pk for (pk,) in STEPS.run(connection, rows)]


def open_ended_steps(connection: BaseDatabaseWrapper, ended: Sequence[Any]) -> None:
    """Insert records of steps that began and ended in the same transaction. Raw SQL as for `open_steps`."""
    ENDED_STEPS.run(connection, [(*step_row(record), json.dumps(record.result)) for record in ended])


def last_failure(connection: BaseDatabaseWrapper, run_id: int, attempt: int) -> dict[str, Any]:
    """Return the error of the newest forward step that failed in this attempt; empty when none did.

    Index: `one_record_per_try`, by its first column. Raw SQL: each rollback of a flow with several attempts does it.
    """
    rows = run(connection, _LAST_FAILURE, (run_id, attempt))
    return json.loads(rows[0][0]) if rows and rows[0][0] else {}


def close_step(connection: BaseDatabaseWrapper, step_key: str, state: str, values: Mapping[str, Any]) -> None:
    """End a step record; `values` are its JSON columns.

    Index: the unique one of `step_key`. Raw SQL, as each step does it once.
    """
    run(connection, *end_of_step(step_key, state, values))


def end_of_step(step_key: str, state: str, values: Mapping[str, Any]) -> Statement:
    """Return the statement of `close_step`, as a part of a `Transition`."""
    encoded = [(name, None if value is None else json.dumps(value)) for name, value in values.items()]
    columns = [("state", str(state)), ("finished_at", NOW), *encoded]
    text, params = update("journal_steprecord", columns, "step_key = %s")
    return text, [*params, step_key]


# The fence, with the state that the owner knows: a run with a cancel request needs an explicit transaction.
AS_KNOWN = "id = %s AND fencing_token = %s AND NOT is_cancel_requested"
_FREE_LOCKS = "DELETE FROM journal_resourcelock WHERE run_id = %s"


@dataclass(slots=True)
class Transition:
    """One change of a run that consists of rows only, committed in one write behind the fence.

    `run` and `closed` are statements with their parameters, `opened` and `events` rows; `frees_locks_of` names a run
    that ends. Its results are set by the write.
    """

    run: Statement
    closed: Statement
    opened: Row | None
    events: Sequence[Row]
    frees_locks_of: int | None = None
    is_written: bool = False
    opened_id: int = 0
    numbers: list[int] = field(default_factory=list)


class StaleTransition(Exception):
    """A run has another owner, or a cancel request: nothing of its transition is written."""


def change_of_run(run_id: int, token: int, values: Mapping[str, Any]) -> Statement:
    """Return the statement that changes a run only in the state that its owner knows: the fence of a `Transition`."""
    return _update_of_run(values, AS_KNOWN, run_id, token)


def write_transition(connection: BaseDatabaseWrapper, transition: Transition) -> bool:
    """Write a transition on PostgreSQL: one statement, which is a transaction by itself. False, and nothing, if stale.

    Indexes: the primary key of the run, `step_key` of the record. Raw SQL, as the ORM has no statement that updates two
    tables and inserts into two others: four round trips and a commit become one.
    """
    assert transition.frees_locks_of is None, "somebody may begin to wait for a lock while it is freed here"
    move, moved = transition.run
    close, closed = transition.closed
    parts, params = (
        [f"held AS ({move} RETURNING id)", f"closed AS ({close} AND EXISTS (SELECT 1 FROM held))"],
        [*moved, *closed],
    )
    opened_id = "0"
    if transition.opened is not None:
        text, given = STEPS.selected(connection, [transition.opened], "held")
        parts.append(f"opened AS ({text})")
        params += given
        opened_id = "(SELECT id FROM opened)"
    text, given = EVENTS.selected(connection, transition.events, "held")
    parts.append(f"told AS ({text})")
    params += given
    query = f"WITH {', '.join(parts)} SELECT {opened_id}, (SELECT array_agg(id ORDER BY id) FROM told) FROM held"
    rows = run(connection, query, params)
    if rows:
        ((transition.opened_id, transition.numbers),) = rows
    transition.is_written = bool(rows)
    return transition.is_written


def write_transitions(connection: BaseDatabaseWrapper, batch: Sequence[Transition]) -> None:
    """Write transitions of several runs in one transaction of SQLite, which is open. Raises StaleTransition for any.

    The end of a run is left out while any run waits for a lock, as it may free that lock.
    Indexes and reason as for `write_transition`; equal statements are executed as one for all their rows.
    """
    is_blocked = any(one.frees_locks_of for one in batch) and is_any_waiting(connection)
    written = [one for one in batch if not (one.frees_locks_of and is_blocked)]
    if run_each(connection, [one.run for one in written]) != len(written):
        raise StaleTransition
    run_each(connection, [one.closed for one in written])
    if ended := [(one.frees_locks_of,) for one in written if one.frees_locks_of]:
        run_many(connection, _FREE_LOCKS, ended)
    steps = [one.opened for one in written if one.opened]
    ids = iter(open_steps(connection, steps) if steps else ())
    numbers = iter(append_events(connection, [row for one in written for row in one.events]) if written else ())
    for one in written:
        one.opened_id = next(ids) if one.opened else 0
        one.numbers = list(islice(numbers, len(one.events)))
        one.is_written = True


def append_events(connection: BaseDatabaseWrapper, rows: Sequence[Sequence[Any]]) -> list[int]:
    """Insert events in their order; rows hold the given columns of `EVENTS`. Return their numbers.

    Raw SQL: each step appends two, and `bulk_create` makes objects and composes the statement each time.
    """
    if len(rows) <= MOST_EVENTS:
        return [number for (number,) in EVENTS.run(connection, rows)]
    parts = [rows[begin : begin + MOST_EVENTS] for begin in range(0, len(rows), MOST_EVENTS)]
    return [number for part in parts for (number,) in EVENTS.run(connection, part)]


_EVENTS_AFTER = (
    "SELECT id, created_at, topic, kind, project_id, run_uuid, instance_uuid "
    "FROM journal_event WHERE id > %s AND id <= %s ORDER BY id LIMIT %s"
)


def events_after(connection: BaseDatabaseWrapper, number: int, last: int, limit: int) -> list[Row]:
    """Return events after `number` up to `last`, without their data, in order.

    Index: the primary key. Raw SQL, as publishers read every event, many times a second.
    """
    return run(connection, _EVENTS_AFTER, (number, last, limit))


def settled_number(connection: BaseDatabaseWrapper) -> int:
    """Return the number up to which the event log is settled, on PostgreSQL; see `conductor.journal.event_order`.

    Reads no table. Raw SQL, as the ORM calls no function of the database without one.
    """
    ((number,),) = run(connection, "SELECT journal_event_settled()")
    return int(number)


class NextStep(NamedTuple):
    """Next step of a run, by its index in its flow; `is_ordinary`: it goes forward, and nothing was requested of it."""

    flow: str
    flow_version: int
    position: int
    is_ordinary: bool


def next_step_if_due(connection: BaseDatabaseWrapper, run_uuid: UUID | str) -> NextStep | None:
    """Return where a run stands that is due and without an owner; None for any other.

    Index: the unique one of `uuid`. Raw SQL: each message of a run begins with it.
    """
    found = run(connection, _DUE_AT, (uuid_param(run_uuid),))
    return NextStep(*found[0]) if found else None


def others_due_at(connection: BaseDatabaseWrapper, step: NextStep, run_uuid: UUID | str, limit: int) -> list[UUID]:
    """Return the runs, except this one, that are due at the same place, the oldest first.

    Index: `run_due`. Raw SQL as for `next_step_if_due`.
    """
    found = run(connection, _OTHERS_DUE, (*step[:3], uuid_param(run_uuid), limit))
    return [uuid if isinstance(uuid, UUID) else UUID(uuid) for (uuid,) in found]


def claim(connection: BaseDatabaseWrapper, run_uuid: UUID | str, owner: str, lease: float) -> WorkflowRun | None:
    """Make `owner` the owner of a run that is due; None when it is not, or when another worker is claiming it.

    Index: the unique one of `uuid`. Raw SQL: the grant is inserted from the locked row (`SKIP LOCKED`), and the update
    returns the whole run.
    """
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
    """Store a host's answer, once; the run is due then. False when no step waits for it (any more).

    The run's row is locked first, as its owners do: otherwise both would deadlock.
    Indexes: the unique ones of `uuid` and `step_key`. Raw SQL for the condition over both tables.
    """
    if not run(connection, _WAKE, (uuid_param(run_uuid), step_key)):
        return False
    return bool(run(connection, f"{_ANSWER} RETURNING id", (json.dumps(answer), step_key)))


def add_command(
    connection: BaseDatabaseWrapper, run_uuid: UUID | str, command: Any, *, queue: str, body: Any, is_deferred: bool
) -> None:
    """Put a command for a host, encoded as `body`, into the outbox as sent once. Raw SQL: each command does it."""
    uuid = uuid_param(run_uuid)
    _COMMANDS.run(connection, [(command.step_key, uuid, queue, command.host, json.dumps(body), is_deferred, 1)])


def drop_command(connection: BaseDatabaseWrapper, step_key: str) -> tuple[str, str] | None:
    """Remove an answered command from the outbox. Return host and instance of a deferred one, else None.

    Index: the unique one of `step_key`. Raw SQL for `RETURNING`.
    """
    gone = run(connection, _DROP_COMMAND, (step_key,))
    return (gone[0][1], gone[0][2]) if gone and gone[0][0] else None


_HOSTS_OF_STEP = (
    "SELECT host, run_uuid FROM journal_outboxmessage WHERE step_key = %s UNION ALL "
    "SELECT s.host, r.uuid FROM journal_steprecord s JOIN journal_workflowrun r ON r.id = s.run_id "
    "WHERE s.step_key = %s"
)


def hosts_of_step(connection: BaseDatabaseWrapper, step_key: str) -> list[Row]:
    """Return the host and run of a step, from its command and from its record.

    Indexes: the unique ones of `step_key`. Raw SQL for the UNION of both tables: each answer of a host needs it.
    """
    return run(connection, _HOSTS_OF_STEP, (step_key, step_key))


def has_deferred(connection: BaseDatabaseWrapper, host: str, instance_uuid: str) -> bool:
    """Whether the host has an unanswered deferred command about the instance.

    Index: `outbox_deferred`. Raw SQL: each command to a host asks, mostly without a result.
    """
    return bool(run(connection, _HAS_DEFERRED, (host, instance_uuid)))


def has_command(connection: BaseDatabaseWrapper, host: str, instance_uuid: str) -> bool:
    """Whether the host has an unanswered command about the instance. Index: `host`; reason as for `has_deferred`."""
    return bool(run(connection, _HAS_COMMAND, (host, instance_uuid)))


def uuid_param(value: UUID | str | None) -> str | None:
    """Return a uuid as both databases take it."""
    return None if value is None else (value if isinstance(value, UUID) else UUID(value)).hex


def as_column(name: str, value: Any) -> Any:
    """Return a value of a run's column as the database takes it; `SecondsFromNow` stays as it is."""
    if isinstance(value, SecondsFromNow) or value is None:
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
    """Return the attributes of a new run, each with the converter to its column."""
    return tuple((str(field.attname), _chosen(field, json.dumps, uuid_param)) for field in _given_fields())


@cache
def _loaded() -> tuple[list[str], list[Convert], str]:
    """Return the attributes of a run, their converters, and the statement that claims it and returns these.

    All but its times, which a worker does not read: they are fetched on access.
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


_RUNS = (
    f"SELECT queue, uuid FROM journal_workflowrun WHERE state IN ({_LIVE}) AND ("
    "(owner IS NULL AND wake_at <= {later}) OR (owner IS NOT NULL AND lease_expires_at < {now})"
    ") ORDER BY wake_at LIMIT %s"
)
# PostgreSQL compares an index with a clock that it reads once, not with one that it reads for each row.
_COMMAND = "SELECT 1 FROM journal_outboxmessage WHERE send_again_at <= (SELECT {now}) LIMIT 1"
_WAITING = "SELECT DISTINCT run_id FROM journal_lockwait ORDER BY run_id"
# Not "IS NOT NULL": SQLite uses an index only for a range.
_FOREIGN = f"SELECT 1 FROM journal_resourcelock WHERE holder_uuid >= '{'0' * 32}' AND holder_alias = %s LIMIT 1"


def runs_due(connection: BaseDatabaseWrapper, grace_seconds: float, limit: int) -> list[tuple[str, str]]:
    """Return queue and uuid of runs that are due for so long without an owner, or whose lease expired; oldest first.

    Index: `run_due`. Raw SQL, as are all queries of the sweep each second: the result is mostly empty.
    """
    found = run(connection, _RUNS, (-grace_seconds, limit))
    return [(queue, str(uuid if isinstance(uuid, UUID) else UUID(uuid))) for queue, uuid in found]


def has_commands_due(connection: BaseDatabaseWrapper) -> bool:
    """Whether a command is due to be sent again. Index: `send_again_at`; reason as for `runs_due`."""
    return bool(run(connection, _COMMAND))


def runs_in_queues(connection: BaseDatabaseWrapper) -> list[int]:
    """Return ids of the runs that wait for any lock, the oldest first. Index: `run_id`; reason as for `runs_due`."""
    return [run_id for (run_id,) in run(connection, _WAITING)]


def has_foreign_locks(connection: BaseDatabaseWrapper, holder_alias: str) -> bool:
    """Whether runs of another database hold locks in this one. Index: `holder_uuid`; reason as for `runs_due`."""
    return bool(run(connection, _FOREIGN, (holder_alias,)))
