"""Build retries: a server whose build has failed is scheduled again with its uuid and name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from conductor import events
from conductor.api_db.models import BuildRequest, InstanceMapping, RequestSpecRecord
from conductor.cell_db.models import Instance
from conductor.cells.lookup import API_ALIAS
from conductor.cells.targeting import target_cell
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid
from conductor.core.identifiers import new_run_uuid
from conductor.core.states import PowerState, RunState, TaskState, VmState
from conductor.db.transactions import write_tx
from conductor.journal.models import WorkflowRun
from conductor.network import ports
from conductor.rpc import outbox
from conductor.rpc.deletes import UNFINISHED
from conductor.services.audit import audit
from conductor.services.servers import create_requests
from conductor.services.servers.actions import cell_of
from conductor.services.servers.queries import missing
from conductor.services.servers.types import NetworkRequest
from conductor.services.workflows import workflows

FLOW = "try_again"
# Fields that the build request copies from the instance.
KEPT = (
    "project_id",
    "user_id",
    "name",
    "hostname",
    "description",
    "pinned_availability_zone",
    "flavor",
    "image",
    "metadata",
    "tags",
    "scheduler_hints",
    "security_groups",
    "key_name",
    "public_key",
    "user_data",
    "injected_files",
    "config_drive",
    "disk_config",
    "access_ip_v4",
    "access_ip_v6",
    "reservation_id",
    "launch_index",
    "is_locked",
    "locked_by",
    "locked_reason",
)


def try_again(context: RequestContext, instance_uuid: str) -> str:
    """Build a server again whose build failed. Return the uuid of the workflow. The server still counts against the
    quota.

    One transaction of the API database turns its mapping back into a request. The workflow first deletes the row in the
    old cell. Raises NotFound, and Conflict where the server once ran, has a task under way, or cannot be built as
    requested.
    """
    alias = cell_of(context, instance_uuid)
    with target_cell(alias):
        row = Instance.objects.using(alias).alive().filter(uuid=instance_uuid).first()
    if row is None:
        raise missing(instance_uuid)
    _refuse_what_cannot(context, alias, row)
    owner = replace(context, project_id=row.project_id)
    with write_tx(API_ALIAS):
        mapping = InstanceMapping.objects.select_for_update().filter(instance_uuid=row.uuid, cell__name=alias).first()
        if mapping is None or mapping.is_deleted:
            raise _refused(row, "it has moved on meanwhile")
        run, names = _request(owner, alias, row), {str(row.uuid): row.name}
        audit.record_server_action(API_ALIAS, context, "tryAgain", names, project_id=row.project_id, run_uuid=run.uuid)
        return str(run.uuid)


def _refuse_what_cannot(context: RequestContext, alias: str, row: Instance) -> None:
    if row.is_locked and not context.is_admin:
        raise Conflict(f"Instance {row.uuid} is locked")
    if row.vm_state != VmState.ERROR:
        raise _refused(row, f"it is in vm_state {row.vm_state}")
    if row.task_state is not None:
        raise _refused(row, f"it is in task_state {row.task_state}")
    if row.launched_at is not None or row.host:
        raise _refused(row, "it has been built before: rebuild it instead")
    runs = WorkflowRun.objects.using(alias).filter(instance_uuid=row.uuid)
    if runs.filter(state__in=UNFINISHED).exists():
        raise _refused(row, "a workflow is at work on it")
    last = runs.filter(flow__in=("build_in_cell", "build_from_volumes")).order_by("-pk").first()
    if last is not None and last.state == RunState.FAILED_NOT_CLEAN:
        raise _refused(row, "its build has left something behind: delete it")
    requested = WorkflowRun.objects.using(API_ALIAS).filter(
        flow="build_instances", inputs__devices__has_key=str(row.uuid)
    )
    if row.is_volume_backed or requested.exists():
        raise _refused(row, "it was to boot from volumes: launch another")


def _request(owner: RequestContext, alias: str, row: Instance) -> WorkflowRun:
    """Create the request, its workflow and its locks; inside the API database's transaction."""
    run_uuid = new_run_uuid()
    record = RequestSpecRecord.objects.filter(instance_uuid=row.uuid).first()
    if record is None:
        raise _refused(row, "what was asked for it is not kept any more")
    networks = _checked(owner, row)
    BuildRequest.objects.create(
        instance_uuid=row.uuid,
        project_id=row.project_id,
        run_uuid=run_uuid,
        instance=_values(row) | {"networks": networks},
        created_at=row.created_at,
    )
    mappings = InstanceMapping.objects.filter(instance_uuid=row.uuid)
    before = str(mappings.values_list("build_run_uuid", flat=True).get())
    mappings.update(cell=None, build_run_uuid=run_uuid)
    port_ids = [network["port_id"] for network in networks if network["port_id"]]
    inputs = {"spec": record.spec, "from_cell": alias, workflows.BUILT_BEFORE_BY: before}
    run = outbox.open_run(API_ALIAS, _wanted(owner, row, run_uuid, inputs=inputs, port_ids=port_ids))
    events.append(API_ALIAS, events.about_instance(row.uuid, row.project_id, run_uuid), "instance.updated")
    return run


def _checked(owner: RequestContext, row: Instance) -> list[dict[str, str]]:
    """Return the requested networks, if they and the image are still available."""
    requests = [
        NetworkRequest(
            network_id="" if wanted.get("port_id") else wanted.get("network_id", ""),
            port_id=wanted.get("port_id", ""),
            fixed_ip="" if wanted.get("port_id") else wanted.get("fixed_ip", ""),
            tag=wanted.get("tag"),
        )
        for wanted in row.networks
    ]
    try:
        create_requests.bootable_image(owner, row.image["image_id"])
        return ports.resolve_requests(owner, requests)
    except (Invalid, Conflict) as error:
        raise _refused(row, error.message) from None


def _values(row: Instance) -> dict[str, Any]:
    return {name: getattr(row, name) for name in KEPT} | {
        "vm_state": VmState.BUILDING,
        "task_state": TaskState.SCHEDULING,
        "power_state": PowerState.NOSTATE,
        "availability_zone": row.pinned_availability_zone,
    }


def _wanted(
    owner: RequestContext, row: Instance, run_uuid: UUID, *, inputs: dict[str, Any], port_ids: list[str]
) -> outbox.NewRun:
    uuid = str(row.uuid)
    return outbox.NewRun(
        flow=FLOW,
        action="tryAgain",
        context=owner,
        resources=[f"instance:{uuid}", *(f"port:{port_id}" for port_id in port_ids)],
        instance_uuid=row.uuid,
        instance_name=row.name,
        inputs={"instance_uuids": [uuid], "reservation_id": row.reservation_id, **inputs},
        run_uuid=run_uuid,
        is_cancellable=False,
    )


def _refused(row: Instance, why: str) -> Conflict:
    return Conflict(f"Cannot 'tryAgain' instance {row.uuid}: {why.rstrip('.')}.")
