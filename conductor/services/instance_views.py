"""From rows to InstanceView: a build request, a row of a cell, or what is known while a cell is silent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery

from conductor.api_db.models import BuildRequest, CellMapping, InstanceMapping, RequestSpecRecord
from conductor.cell_db.models import BlockDevice, Instance, InstanceFault
from conductor.core.request_spec import FlavorSpec, ImageSpec
from conductor.core.states import PowerState, TaskState, VmState, status_of
from conductor.journal.models import WorkflowRun
from conductor.services import hosts
from conductor.services.values import Fault, InstanceView, ServiceView

FAULTY_STATES = (VmState.ERROR, VmState.DELETED)
# Fields that a build request's JSON, a row and a view call by the same name.
SAME = (
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


def with_runs(rows: QuerySet[Instance], alias: str) -> QuerySet[Instance]:
    """Rows of one cell, each with `newest_run`: the uuid of the last workflow on it, if its cell had any."""
    runs = WorkflowRun.objects.using(alias).filter(instance_uuid=OuterRef("uuid")).order_by("-pk")
    return rows.annotate(newest_run=Subquery(runs.values("uuid")[:1]))


def of_rows(alias: str, rows: Sequence[Any]) -> list[InstanceView]:
    """Rows of `with_runs` as callers see them: at most four queries, however many rows."""
    faults = _faults(alias, [row.uuid for row in rows if row.vm_state in FAULTY_STATES])
    services = _services(alias, {row.host for row in rows if row.host})
    views = [_of_row(alias, row, faults.get(str(row.uuid)), services.get(row.host or "")) for row in rows]
    volumes = _volumes(alias, [row.uuid for row in rows])
    return [replace(view, volumes=tuple(volumes[view.uuid])) if view.uuid in volumes else view for view in views]


def of_request(row: BuildRequest) -> InstanceView:
    """A boot that has no cell yet. One that is being deleted says so until its workflow has let go of it."""
    values = {name: row.instance[name] for name in SAME}
    if row.is_deleting:
        values["task_state"] = TaskState.DELETING
    return InstanceView(
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


def of_mappings(rows: Sequence[InstanceMapping]) -> list[InstanceView]:
    """Instances whose cells do not answer, from what the API database knows."""
    records = RequestSpecRecord.objects.filter(instance_uuid__in=[row.instance_uuid for row in rows])
    specs = {record.instance_uuid: record.spec for record in records}
    cells = dict(CellMapping.objects.values_list("pk", "name"))
    return [_of_mapping(row, cells.get(row.cell_id or 0, ""), specs.get(row.instance_uuid)) for row in rows]


def _of_row(alias: str, row: Any, fault: Fault | None, service: ServiceView | None) -> InstanceView:
    return InstanceView(
        uuid=str(row.uuid),
        status=status_of(row.vm_state, row.task_state),
        flavor=FlavorSpec(**row.flavor),
        image=ImageSpec(**row.image),
        tags=tuple(row.tags),
        security_groups=tuple(row.security_groups),
        cell=alias,
        locked_reason=row.locked_reason,
        host=row.host or "",
        node=row.node or "",
        addresses=list(row.addresses),
        is_simulated=service is not None and service.is_simulated,
        host_status=hosts.host_status(service) if row.host else "",
        created_at=row.created_at,
        updated_at=row.updated_at,
        launched_at=row.launched_at,
        terminated_at=row.terminated_at,
        deleted_at=row.deleted_at,
        fault=fault,
        run_uuid=str(row.newest_run or ""),
        **{name: getattr(row, name) for name in SAME},
    )


def _of_mapping(row: InstanceMapping, cell: str, spec: Mapping[str, Any] | None) -> InstanceView:
    nothing = FlavorSpec(flavor_id="", name="", vcpus=row.vcpus, memory_mb=row.memory_mb)
    return InstanceView(
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


def _faults(alias: str, uuids: Sequence[Any]) -> dict[str, Fault]:
    if not uuids:
        return {}
    rows = InstanceFault.objects.using(alias).filter(instance_uuid__in=uuids).order_by("pk")
    return {
        str(row.instance_uuid): Fault(
            code=row.code,
            message=row.message,
            created_at=row.created_at,
            details=row.details,
            decision_uuid=str(row.decision_uuid or ""),
        )
        for row in rows
    }


def _volumes(alias: str, uuids: Sequence[Any]) -> dict[str, list[tuple[str, bool]]]:
    found: dict[str, list[tuple[str, bool]]] = {}
    rows = BlockDevice.objects.using(alias).filter(instance_uuid__in=uuids).order_by("pk")
    for uuid, volume, is_deleted in rows.values_list("instance_uuid", "volume_uuid", "delete_on_termination"):
        found.setdefault(str(uuid), []).append((str(volume), is_deleted))
    return found


def _services(alias: str, names: set[str]) -> dict[str, ServiceView]:
    if not names:
        return {}
    rows = hosts.services_in(alias).filter(host__in=names, binary=hosts.COMPUTE)
    return {row.host: hosts.service_view(row, alias, 0) for row in rows}
