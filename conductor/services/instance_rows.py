"""Rows of a cell as InstanceView, made from plain values: the ORM's objects would cost most of a long page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

import orjson
from django.conf import settings
from django.core.exceptions import EmptyResultSet
from django.db import connections
from django.db.models import Case, Exists, F, IntegerField, OuterRef, QuerySet, Subquery, TextField, Value, When

from conductor.cell_db.models import BlockDevice, Instance, InstanceFault
from conductor.core.request_spec import FlavorSpec, ImageSpec
from conductor.core.states import VmState, status_of
from conductor.journal.models import WorkflowRun
from conductor.services import hosts
from conductor.services.values import Fault, InstanceView
from conductor.sql.worded import AboutOne, uuid_text

FAULTY_STATES = (VmState.ERROR, VmState.DELETED)
# Columns that a view calls by the same name.
SAME = (
    *("uuid", "project_id", "user_id", "name", "hostname", "description", "vm_state", "task_state", "power_state"),
    *("host", "node", "availability_zone", "pinned_availability_zone", "key_name", "user_data", "config_drive"),
    *("disk_config", "access_ip_v4", "access_ip_v6", "reservation_id", "launch_index"),
    *("is_locked", "locked_by", "locked_reason"),
    *("flavor", "image", "addresses", "metadata", "tags", "scheduler_hints", "security_groups"),
    *("created_at", "updated_at", "launched_at", "terminated_at", "deleted_at"),
)
COLUMNS = (*SAME, "newest_run", "host_flags", "has_volumes")
_OTHERS = {
    field.name: field.default if field.default is not MISSING else None
    for field in fields(InstanceView)
    if field.name not in SAME
}
_SOME = (("", False),)  # volumes that `complete` has yet to name
_EXTRAS = ("is_fault", "pk", "instance_uuid", "other_uuid", "number", "message", "details", "created_at")


Statement = tuple[str, Sequence[Any]]


def read(alias: str, rows: QuerySet[Instance], *, with_runs: bool = True) -> list[InstanceView]:
    """Rows of one cell, each with the newest workflow on it if wanted: one statement. `complete` adds the rest."""
    return fetch(alias, statement(alias, rows, with_runs=with_runs))


def statement(alias: str, rows: QuerySet[Instance], *, with_runs: bool) -> Statement | None:
    """What asks for the rows, in the words of the cell's kind of database; None for a filter that nothing can pass."""
    try:
        sql, parameters = _shown(alias, rows, with_runs=with_runs).query.get_compiler(alias).as_sql()
    except EmptyResultSet:
        return None
    return sql, parameters


def _shown(alias: str, rows: QuerySet[Instance], *, with_runs: bool) -> QuerySet[Instance, tuple[Any, ...]]:
    return rows.annotate(
        newest_run=_newest_run(alias) if with_runs else Value(""),
        host_flags=Subquery(hosts.flags_in(alias).filter(host=OuterRef("host")).values("flags")[:1]),
        has_volumes=Exists(BlockDevice.objects.using(alias).filter(instance_uuid=OuterRef("uuid"))),
    ).values_list(*COLUMNS)


def _alive(alias: str, instance_uuid: UUID) -> QuerySet[Instance, tuple[Any, ...]]:
    return _shown(alias, Instance.objects.using(alias).alive().filter(uuid=instance_uuid), with_runs=True)


_one = AboutOne(_alive, given=lambda: settings.NOVELLA_HOST_DOWN_SECONDS)


def one(alias: str, instance_uuid: UUID) -> list[InstanceView]:
    """The instance, if it lives in this cell: as `read` answers, without composing the statement each time."""
    return [_view(alias, row) for row in _one.ask(alias, instance_uuid)]


def with_values(view: InstanceView, **values: Any) -> InstanceView:
    """`replace` for what is made of every answer: it sets no field by a call."""
    other = InstanceView.__new__(InstanceView)
    other.__dict__.update(view.__dict__, **values)
    return other


def fetch(alias: str, asked: Statement | None) -> list[InstanceView]:
    """What a cell answers to `statement`."""
    if asked is None:
        return []
    with connections[alias].cursor() as cursor:
        cursor.execute(*asked)
        return [_view(alias, row) for row in cursor.fetchall()]


def complete(alias: str, views: Sequence[InstanceView]) -> list[InstanceView]:
    """Views of `read` with their faults and volumes: no statement when none has any, else one."""
    found: dict[str, dict[str, Any]] = {}
    for is_fault, _, instance_uuid, other, number, message, details, created_at in _extras(alias, views):
        extra = found.setdefault(str(instance_uuid), {})
        if is_fault:
            extra["fault"] = Fault(number, message, created_at, details, str(other or ""))
        else:
            extra["volumes"] = (*extra.get("volumes", ()), (str(other), bool(number)))
    return [_whole(view, found.get(view.uuid)) for view in views]


def _whole(view: InstanceView, extra: dict[str, Any] | None) -> InstanceView:
    if view.volumes is _SOME:
        return replace(view, **({"volumes": ()} | (extra or {})))
    return replace(view, **extra) if extra else view


def _newest_run(alias: str) -> Subquery:
    runs = WorkflowRun.objects.using(alias).filter(instance_uuid=OuterRef("uuid")).order_by("-pk")
    return Subquery(runs.values("uuid")[:1])


def _extras(alias: str, views: Sequence[InstanceView]) -> list[tuple[Any, ...]]:
    """Volumes and then faults, oldest first, in one form so that one statement brings both."""
    with_volumes = [view.uuid for view in views if view.volumes is _SOME]
    faulty = [view.uuid for view in views if view.vm_state in FAULTY_STATES]
    asked: list[QuerySet[Any, tuple[Any, ...]]] = []
    if with_volumes:
        is_kept = Case(When(delete_on_termination=True, then=1), default=0, output_field=IntegerField())
        empty = Value("", output_field=TextField())
        asked.append(
            BlockDevice.objects.using(alias)
            .filter(instance_uuid__in=with_volumes)
            .annotate(is_fault=Value(0), other_uuid=F("volume_uuid"), number=is_kept, message=empty, details=empty)
            .values_list(*_EXTRAS)
        )
    if faulty:
        asked.append(
            InstanceFault.objects.using(alias)
            .filter(instance_uuid__in=faulty)
            .annotate(is_fault=Value(1), other_uuid=F("decision_uuid"), number=F("code"))
            .values_list(*_EXTRAS)
        )
    if not asked:
        return []
    both = asked[0].union(*asked[1:], all=True) if len(asked) > 1 else asked[0]
    return sorted(both, key=lambda row: row[:2])


def _view(alias: str, row: Sequence[Any]) -> InstanceView:
    values = dict(zip(COLUMNS, row, strict=True))
    for name, convert in _CONVERTED:
        values[name] = convert(values[name])
    status = status_of(values["vm_state"], values["task_state"])
    host_status, is_simulated = hosts.told_by(values.pop("host_flags")) if values["host"] else ("", False)
    run_uuid, has_volumes = values.pop("newest_run"), values.pop("has_volumes")
    view = InstanceView.__new__(InstanceView)  # what is frozen sets each field by a call: a third of all the time
    view.__dict__.update(
        _OTHERS,
        **values,
        status=status,
        cell=alias,
        host_status=host_status,
        is_simulated=is_simulated,
        run_uuid=uuid_text(run_uuid),
        volumes=_SOME if has_volumes else (),
    )
    return view


def _time(value: datetime | None) -> datetime | None:
    return value if value is None or value.tzinfo is not None else value.replace(tzinfo=UTC)


def _mapping(text: str) -> dict[str, Any]:
    return {} if text == "{}" else orjson.loads(text)


def _list(text: str) -> list[Any]:
    return [] if text == "[]" else orjson.loads(text)


# A few texts stand in most rows: they are read once, into values that nobody changes.
@lru_cache(maxsize=1024)
def _flavor(text: str) -> FlavorSpec:
    return FlavorSpec(**orjson.loads(text))


@lru_cache(maxsize=1024)
def _image(text: str) -> ImageSpec:
    return ImageSpec(**orjson.loads(text))


@lru_cache(maxsize=1024)
def _words(text: str) -> tuple[str, ...]:
    return tuple(orjson.loads(text))


def _text(value: str | None) -> str:
    return value or ""


_CONVERTED: Sequence[tuple[str, Callable[[Any], Any]]] = (
    ("uuid", uuid_text),
    ("host", _text),
    ("node", _text),
    ("is_locked", bool),
    ("flavor", _flavor),
    ("image", _image),
    ("addresses", _list),
    ("metadata", _mapping),
    ("scheduler_hints", _mapping),
    ("tags", _words),
    ("security_groups", _words),
    *((name, _time) for name in ("created_at", "updated_at", "launched_at", "terminated_at", "deleted_at")),
)
