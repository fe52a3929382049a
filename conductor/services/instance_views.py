"""What becomes an InstanceView beside a row of a cell: a build request, or what is known while a cell is silent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conductor.api_db.models import BuildRequest, CellMapping, InstanceMapping, RequestSpecRecord
from conductor.core.request_spec import FlavorSpec, ImageSpec
from conductor.core.states import PowerState, TaskState, status_of
from conductor.services.values import InstanceView

# Fields that a build request's JSON and a view call by the same name.
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
