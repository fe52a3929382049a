"""The event log's writer: what happened is appended with the change, and announced once it is true."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction

from conductor.journal.models import Event, WorkflowRun
from conductor.transactions import database_now

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Announcement:
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


@dataclass(frozen=True, slots=True)
class Subject:
    """What an event is about: its topic, and whom it concerns."""

    topic: str
    project_id: str = ""
    run_uuid: UUID | str | None = None
    instance_uuid: UUID | str | None = None


def about_run(run: WorkflowRun) -> Subject:
    return Subject(f"wf:{run.uuid}", run.project_id, run.uuid, run.instance_uuid)


def about_instance(instance_uuid: UUID | str, project_id: str, run_uuid: UUID | str | None = None) -> Subject:
    return Subject(f"server:{instance_uuid}", project_id, run_uuid, instance_uuid)


def about_host(host: str, instance_uuid: UUID | str | None = None) -> Subject:
    return Subject(f"host:{host}", instance_uuid=instance_uuid)


def append(alias: str, subject: Subject, kind: str, data: Mapping[str, Any] | None = None) -> None:
    """Append one event to the log in `alias`, inside the transaction of the change that it tells of."""
    event = Event.objects.using(alias).create(
        topic=subject.topic,
        kind=kind,
        run_uuid=subject.run_uuid,
        instance_uuid=subject.instance_uuid,
        project_id=subject.project_id,
        data=dict(data or {}),
        created_at=database_now(),
    )
    announcement = Announcement(
        alias=alias,
        cursor=event.pk,
        topic=subject.topic,
        kind=kind,
        project_id=subject.project_id,
        run_uuid=str(subject.run_uuid or ""),
        instance_uuid=str(subject.instance_uuid or ""),
    )
    transaction.on_commit(partial(_announce, announcement), using=alias)


def _announce(announcement: Announcement) -> None:
    for listener in _listeners:
        try:
            listener(announcement)
        except Exception:  # a page that cannot be told must not undo work that is done
            log.exception("event listener failed: topic=%s", announcement.topic)
