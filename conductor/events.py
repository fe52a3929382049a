"""The event log's writer: what happened is appended with the change, and announced once it is true."""

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

from conductor.journal import checkpoints
from conductor.journal.models import WorkflowRun
from conductor.transactions import before_commit, is_gathering

log = logging.getLogger(__name__)


class Announcement(NamedTuple):
    """Something changed: where to look. `cursor` is the event's number in the log of `alias`."""

    alias: str
    cursor: int
    topic: str
    kind: str
    project_id: str
    run_uuid: str
    instance_uuid: str


Listener = Callable[[Announcement], None]
_listeners: list[Listener] = []


def subscribe(listener: Listener) -> None:
    """Call `listener` after each commit that appended an event. It must return at once and never raise."""
    if listener not in _listeners:
        _listeners.append(listener)


@dataclass(frozen=True)
class Subject:
    """What an event is about: its topic, and whom it concerns."""

    topic: str
    project_id: str = ""
    run_uuid: UUID | str | None = None
    instance_uuid: UUID | str | None = None

    @cached_property
    def uuids(self) -> tuple[str | None, str | None]:
        """Of run and instance, as columns take them."""
        return checkpoints.uuid_param(self.run_uuid), checkpoints.uuid_param(self.instance_uuid)

    @cached_property
    def texts(self) -> tuple[str, str]:
        """The same as people read them; "" for none."""
        return str(self.run_uuid or ""), str(self.instance_uuid or "")


def about_run(run: WorkflowRun) -> Subject:
    return _kept(run, "_about", lambda: Subject(f"wf:{run.uuid}", run.project_id, run.uuid, run.instance_uuid))


def about_instance_of(run: WorkflowRun) -> Subject:
    """Of the instance that a run works on."""
    return _kept(run, "_about_instance", lambda: about_instance(str(run.instance_uuid), run.project_id, run.uuid))


def _kept(run: WorkflowRun, name: str, make: Callable[[], Subject]) -> Subject:
    """Kept with the object of the run: its worker tells many, and a run is about the same for ever."""
    known: Subject | None = run.__dict__.get(name)
    if known is None:
        known = run.__dict__[name] = make()
    return known


def about_instance(instance_uuid: UUID | str, project_id: str, run_uuid: UUID | str | None = None) -> Subject:
    return Subject(f"server:{instance_uuid}", project_id, run_uuid, instance_uuid)


def about_host(host: str, instance_uuid: UUID | str | None = None) -> Subject:
    return Subject(f"host:{host}", instance_uuid=instance_uuid)


def about_cell(name: str) -> Subject:
    return Subject(f"cell:{name}")


@dataclass(frozen=True, slots=True)
class Told:
    """One event before it has its number."""

    subject: Subject
    kind: str
    data: Mapping[str, Any]

    def row(self) -> tuple[Any, ...]:
        """Values for checkpoints.append_events."""
        subject = self.subject
        return (subject.topic, self.kind, *subject.uuids, subject.project_id, json.dumps(dict(self.data)))


def append(alias: str, subject: Subject, kind: str, data: Mapping[str, Any] | None = None) -> None:
    """Append one event to the log in `alias`, inside the transaction of the change that it tells of."""
    append_told(alias, Told(subject, kind, data or {}))


def append_told(alias: str, told: Told) -> None:
    """Append an event, inside the transaction of the change that it tells of.

    All of a transaction are written with its end, in order and in one statement.
    """
    connection, telling = connections[alias], _Telling(alias, told)
    if not is_gathering(connection):
        _write(connection, [telling])
    connection.on_commit(telling)


@dataclass(slots=True, eq=False)
class _Telling:
    """An event on its way into the log. As a hook of the commit it goes with a savepoint that is rolled back."""

    alias: str
    told: Told
    number: int = 0

    def __call__(self) -> None:
        if self.number:
            announce(self.alias, (self.told,), (self.number,))


def _write_gathered(connection: BaseDatabaseWrapper) -> None:
    hooks = (entry[1] for entry in connection.run_on_commit)
    gathered = [hook for hook in hooks if isinstance(hook, _Telling) and not hook.number]
    if gathered:
        _write(connection, _said_once(gathered))


def _said_once(gathered: Sequence[_Telling]) -> list[_Telling]:
    """Without those that say only what the same transaction says again, which is that something has changed."""
    last = {(one.told.subject.topic, one.told.kind, one.told.subject.run_uuid): one for one in gathered}
    kept = set(last.values())
    return [one for one in gathered if one.told.data or one in kept]


def _write(connection: BaseDatabaseWrapper, tellings: Sequence[_Telling]) -> None:
    numbers = checkpoints.append_events(connection, [telling.told.row() for telling in tellings])
    for telling, number in zip(tellings, numbers, strict=True):
        telling.number = number


before_commit.append(_write_gathered)


def announce(alias: str, told: Sequence[Told], numbers: Sequence[int]) -> None:
    """Tell who listens of events that are committed under these numbers."""
    if not _listeners:
        return
    for event, number in zip(told, numbers, strict=True):
        subject = event.subject
        announcement = Announcement(
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
            except Exception:  # a page that cannot be told must not undo work that is done
                log.exception("event listener failed: topic=%s", announcement.topic)
