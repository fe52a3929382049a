"""Conversion of a cell's rows to InstanceData from plain values: model objects would slow down long pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

import orjson
from django.conf import settings
from django.core.exceptions import EmptyResultSet
from django.db.models import Case, Exists, F, IntegerField, OuterRef, QuerySet, Subquery, TextField, Value, When

from conductor.api_db.models import BuildRequest, CellMapping, InstanceMapping, RequestSpecRecord
from conductor.cell_db.models import BlockDevice, Instance, InstanceFault
from conductor.core.messages import of_json_text
from conductor.core.request_spec import FlavorSpec, ImageSpec
from conductor.core.states import PowerState, TaskState, VmState, status_of
from conductor.db import compiled
from conductor.db.compiled import CompiledQuery, uuid_text
from conductor.journal.models import WorkflowRun
from conductor.services.hosts import hosts
from conductor.services.servers.types import InstanceData, ServerFault

FAULTY_STATES = (VmState.ERROR, VmState.DELETED)
# Columns with the same name in a view.
CELL_COLUMNS_AS_THEY_ARE = (
    "uuid",
    "project_id",
    "user_id",
    "name",
    "hostname",
    "description",
    "vm_state",
    "task_state",
    "power_state",
    "host",
    "node",
    "availability_zone",
    "pinned_availability_zone",
    "key_name",
    "user_data",
    "config_drive",
    "disk_config",
    "access_ip_v4",
    "access_ip_v6",
    "reservation_id",
    "launch_index",
    "is_locked",
    "locked_by",
    "locked_reason",
    "flavor",
    "image",
    "addresses",
    "metadata",
    "tags",
    "scheduler_hints",
    "security_groups",
    "created_at",
    "updated_at",
    "launched_at",
    "terminated_at",
    "deleted_at",
)
COLUMNS = (*CELL_COLUMNS_AS_THEY_ARE, "newest_run", "host_flags", "has_volumes")
_OTHERS = {
    field.name: field.default if field.default is not MISSING else None
    for field in fields(InstanceData)
    if field.name not in CELL_COLUMNS_AS_THEY_ARE
}
_SOME = (("", False),)  # volumes that `complete` has to add
_EXTRAS = ("is_fault", "pk", "instance_uuid", "other_uuid", "number", "message", "wording", "details", "created_at")


Statement = tuple[str, Sequence[Any]]


def read(alias: str, rows: QuerySet[Instance], *, with_runs: bool = True) -> list[InstanceData]:
    """Return rows of one cell, each with its newest workflow if requested, in one query. `complete` adds the rest."""
    return fetch(alias, statement(alias, rows, with_runs=with_runs))


def statement(alias: str, rows: QuerySet[Instance], *, with_runs: bool) -> Statement | None:
    """Return the query's SQL for the cell's kind of database; None for a filter that nothing can match."""
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


_one = CompiledQuery(_alive, given=lambda: settings.NOVELLA_HOST_DOWN_SECONDS)


def one(alias: str, instance_uuid: UUID) -> list[InstanceData]:
    """Return the instance, if it is in this cell, as `read` does, but with a compiled query."""
    return [_view(alias, row) for row in _one.ask(alias, instance_uuid)]


def with_values(view: InstanceData, **values: Any) -> InstanceData:
    """Copy a view with other values. This is faster than `replace`, which sets each field by a call."""
    other = InstanceData.__new__(InstanceData)
    other.__dict__.update(view.__dict__, **values)
    return other


def fetch(alias: str, requested: Statement | None) -> list[InstanceData]:
    """Execute a `statement` in a cell and return its views."""
    if requested is None:
        return []
    return [_view(alias, row) for row in compiled.rows(alias, *requested)]


def complete(alias: str, views: Sequence[InstanceData]) -> list[InstanceData]:
    """Add faults and volumes to views of `read`: no query when there are none, else one."""
    found: dict[str, dict[str, Any]] = {}
    for is_fault, _, instance_uuid, other, number, message, wording, details, created_at in _extras(alias, views):
        extra = found.setdefault(str(instance_uuid), {})
        if is_fault:
            extra["fault"] = ServerFault(number, of_json_text(wording, message), created_at, details, str(other or ""))
        else:
            extra["volumes"] = (*extra.get("volumes", ()), (str(other), bool(number)))
    return [_whole(view, found.get(view.uuid)) for view in views]


def _whole(view: InstanceData, extra: dict[str, Any] | None) -> InstanceData:
    if view.volumes is _SOME:
        return replace(view, **({"volumes": ()} | (extra or {})))
    return replace(view, **extra) if extra else view


def _newest_run(alias: str) -> Subquery:
    runs = WorkflowRun.objects.using(alias).filter(instance_uuid=OuterRef("uuid")).order_by("-pk")
    return Subquery(runs.values("uuid")[:1])


def _extras(alias: str, views: Sequence[InstanceData]) -> list[tuple[Any, ...]]:
    """Return volumes and then faults, oldest first, with the same columns so that one query returns both."""
    with_volumes = [view.uuid for view in views if view.volumes is _SOME]
    faulty = [view.uuid for view in views if view.vm_state in FAULTY_STATES]
    requested: list[QuerySet[Any, tuple[Any, ...]]] = []
    if with_volumes:
        is_kept = Case(When(delete_on_termination=True, then=1), default=0, output_field=IntegerField())
        empty = Value("", output_field=TextField())
        requested.append(
            BlockDevice.objects.using(alias)
            .filter(instance_uuid__in=with_volumes)
            .annotate(
                is_fault=Value(0),
                other_uuid=F("volume_uuid"),
                number=is_kept,
                message=empty,
                wording=empty,
                details=empty,
            )
            .values_list(*_EXTRAS)
        )
    if faulty:
        requested.append(
            InstanceFault.objects.using(alias)
            .filter(instance_uuid__in=faulty)
            .annotate(is_fault=Value(1), other_uuid=F("decision_uuid"), number=F("code"))
            .values_list(*_EXTRAS)
        )
    if not requested:
        return []
    both = requested[0].union(*requested[1:], all=True) if len(requested) > 1 else requested[0]
    return sorted(both, key=lambda row: row[:2])


def _view(alias: str, row: Sequence[Any]) -> InstanceData:
    values = dict(zip(COLUMNS, row, strict=True))
    for name, convert in _CONVERTED:
        values[name] = convert(values[name])
    status = status_of(values["vm_state"], values["task_state"])
    host_status, is_simulated = hosts.trait_of_flags(values.pop("host_flags")) if values["host"] else ("", False)
    run_uuid, has_volumes = values.pop("newest_run"), values.pop("has_volumes")
    # a frozen dataclass sets each field by a call, which took a third of the time
    view = InstanceData.__new__(InstanceData)
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


# Most rows have one of a few texts. Each is parsed once, into values that are never changed.
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


# Fields with the same name in a build request's JSON and a view.
REQUEST_FIELDS = (
    "name",
    "project_id",
    "user_id",
    "vm_state",
    "task_state",
    "power_state",
    "hostname",
    "description",
    "availability_zone",
    "pinned_availability_zone",
    "metadata",
    "scheduler_hints",
    "key_name",
    "user_data",
    "config_drive",
    "disk_config",
    "access_ip_v4",
    "access_ip_v6",
    "reservation_id",
    "launch_index",
    "is_locked",
)


def of_request(row: BuildRequest) -> InstanceData:
    """Return the view of a build request without a cell. A deleted one is shown as deleted until its workflow has
    ended.
    """
    values = {name: row.instance[name] for name in REQUEST_FIELDS}
    if row.is_deleting:
        values["task_state"] = TaskState.DELETING
    return InstanceData(
        uuid=str(row.instance_uuid),
        status=status_of(values["vm_state"], values["task_state"]),
        flavor=FlavorSpec(**row.instance["flavor"]),
        image=ImageSpec(**row.instance["image"]),
        tags=tuple(row.instance["tags"]),
        security_groups=tuple(row.instance["security_groups"]),
        created_at=row.created_at,
        updated_at=row.created_at,
        run_uuid=str(row.run_uuid),
        **values,
    )


def of_mappings(rows: Sequence[InstanceMapping]) -> list[InstanceData]:
    """Return views of instances whose cells are down, from the API database."""
    records = RequestSpecRecord.objects.filter(instance_uuid__in=[row.instance_uuid for row in rows])
    specs = {record.instance_uuid: record.spec for record in records}
    cells = dict(CellMapping.objects.values_list("pk", "name"))
    return [_of_mapping(row, cells.get(row.cell_id or 0, ""), specs.get(row.instance_uuid)) for row in rows]


def _of_mapping(row: InstanceMapping, cell: str, spec: Mapping[str, Any] | None) -> InstanceData:
    nothing = FlavorSpec(flavor_id="", name="", vcpus=row.vcpus, memory_mb=row.memory_mb)
    return InstanceData(
        uuid=str(row.instance_uuid),
        name="",
        project_id=row.project_id,
        user_id=row.user_id,
        status="UNKNOWN",
        vm_state="",
        task_state=None,
        power_state=PowerState.NOSTATE,
        flavor=FlavorSpec(**spec["flavor"]) if spec else nothing,
        image=ImageSpec(**spec["image"]) if spec else ImageSpec(),
        availability_zone=spec["availability_zone"] if spec else "",
        created_at=row.created_at,
        updated_at=row.created_at,
        cell=cell,
        run_uuid=str(row.build_run_uuid),
        is_partial=True,
    )
