"""Writer of the event log: events are appended with the change, and announced after its commit."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from conductor.core.states import RunState
from conductor.db.transactions import before_commit, gathered_by
from conductor.journal import statements
from conductor.journal.models import WorkflowRun

log = logging.getLogger(__name__)


class EventNotification(NamedTuple):
    """Notification of a committed event. `cursor` is the event's number in the log of `alias`."""

    alias: str
    cursor: int
    topic: str
    kind: str
    project_id: str
    run_uuid: str
    instance_uuid: str


Listener = Callable[[EventNotification], None]
_listeners: list[Listener] = []


def subscribe(listener: Listener) -> None:
    """Call `listener` after each commit that appended an event. It must return at once and never raise."""
    if listener not in _listeners:
        _listeners.append(listener)


@dataclass(frozen=True)
class EventSubject:
    """Subject of an event: its topic, project, run and instance."""

    topic: str
    project_id: str = ""
    run_uuid: UUID | str | None = None
    instance_uuid: UUID | str | None = None

    @cached_property
    def uuids(self) -> tuple[str | None, str | None]:
        """Uuids of run and instance, as columns take them."""
        return statements.uuid_param(self.run_uuid), statements.uuid_param(self.instance_uuid)

    @cached_property
    def texts(self) -> tuple[str, str]:
        """Uuids of run and instance as texts; "" for none."""
        return str(self.run_uuid or ""), str(self.instance_uuid or "")


def about_run(run: WorkflowRun) -> EventSubject:
    return _kept(run, "_about", lambda: EventSubject(f"wf:{run.uuid}", run.project_id, run.uuid, run.instance_uuid))


def kind_of_end(run: WorkflowRun, state: str) -> str:
    """Return the kind of the event for the end of a run in `state`.

    A run ends once. One that is undone again has ended before: its event says whether it is cleaned up now.
    """
    if (run.orders or {}).get("kind") != "undo":
        return "run.ended"
    return "run.cleaned" if state in (RunState.FAILED_UNDONE, RunState.CANCELLED) else "run.cleanup_failed"


def about_instance_of(run: WorkflowRun) -> EventSubject:
    """Return the subject of the instance that a run works on."""
    return _kept(run, "_about_instance", lambda: about_instance(str(run.instance_uuid), run.project_id, run.uuid))


def _kept(run: WorkflowRun, name: str, make: Callable[[], EventSubject]) -> EventSubject:
    """Cache a subject on the run's object: a worker emits many events, and a run's subject never changes."""
    known: EventSubject | None = run.__dict__.get(name)
    if known is None:
        known = run.__dict__[name] = make()
    return known


def about_instance(instance_uuid: UUID | str, project_id: str, run_uuid: UUID | str | None = None) -> EventSubject:
    return EventSubject(f"server:{instance_uuid}", project_id, run_uuid, instance_uuid)


def about_host(host: str, instance_uuid: UUID | str | None = None) -> EventSubject:
    return EventSubject(f"host:{host}", instance_uuid=instance_uuid)


def about_cell(name: str) -> EventSubject:
    return EventSubject(f"cell:{name}")


@dataclass(frozen=True, slots=True)
class NewEvent:
    """One event, without its number."""

    subject: EventSubject
    kind: str
    data: Mapping[str, Any]

    def row(self) -> tuple[Any, ...]:
        """Return values for statements.append_events."""
        subject = self.subject
        return (subject.topic, self.kind, *subject.uuids, subject.project_id, json.dumps(dict(self.data)))


def append(alias: str, subject: EventSubject, kind: str, data: Mapping[str, Any] | None = None) -> None:
    """Append one event to the log in `alias`, inside the transaction of its change."""
    append_event(alias, NewEvent(subject, kind, data or {}))


def append_event(alias: str, event: NewEvent) -> None:
    """Append an event, inside the transaction of its change.

    All events of a transaction are written at its end, in order and in one statement.
    """
    connection, pending = connections[alias], _PendingEvent(alias, event)
    gathered = gathered_by(connection)
    if gathered is None:
        _write(connection, [pending])
    else:
        gathered.append(pending)


@dataclass(slots=True, eq=False)
class _PendingEvent:
    """A gathered event, announced once it is committed."""

    alias: str
    event: NewEvent
    number: int = 0

    def __call__(self) -> None:
        announce(self.alias, (self.event,), (self.number,))


def _write_gathered(connection: BaseDatabaseWrapper, gathered: list[Any]) -> None:
    pending = [one for one in gathered if isinstance(one, _PendingEvent)]
    if pending:
        _write(connection, _coalesced(pending))


def _coalesced(pending: Sequence[_PendingEvent]) -> list[_PendingEvent]:
    """Drop events without data that the same transaction repeats later."""
    last = {(one.event.subject.topic, one.event.kind, one.event.subject.run_uuid): one for one in pending}
    kept = set(last.values())
    return [one for one in pending if one.event.data or one in kept]


def _write(connection: BaseDatabaseWrapper, pending: Sequence[_PendingEvent]) -> None:
    numbers = statements.append_events(connection, [one.event.row() for one in pending])
    for one, number in zip(pending, numbers, strict=True):
        one.number = number
        connection.on_commit(one)


before_commit.append(_write_gathered)


def announce(alias: str, new_events: Sequence[NewEvent], numbers: Sequence[int]) -> None:
    """Notify the listeners of events that are committed under these numbers."""
    if not _listeners:
        return
    for event, number in zip(new_events, numbers, strict=True):
        subject = event.subject
        announcement = EventNotification(
            alias=alias,
            cursor=number,
            topic=subject.topic,
            kind=event.kind,
            project_id=subject.project_id,
            run_uuid=subject.texts[0],
            instance_uuid=subject.texts[1],
        )
        for listener in _listeners:
            try:
                listener(announcement)
            except Exception:  # a failed notification must not undo committed work
                log.exception("event listener failed: topic=%s", announcement.topic)
