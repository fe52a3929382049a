"""Instances: launch, lookup, deletion, and console output."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from django.db import connections

from conductor import events
from conductor.api_db.models import BuildRequest, InstanceGroupMember, InstanceMapping, RequestSpecRecord
from conductor.cell_db.models import ConsoleLog
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.errors import CellUnavailable, Conflict
from conductor.core.identifiers import new_run_uuid
from conductor.core.states import PowerState, TaskState, VmState
from conductor.db.rows import Rows
from conductor.db.transactions import database_time, one_at_a_time, retried, write_tx
from conductor.failpoints import reach
from conductor.journal.models import WorkflowRun
from conductor.network import ports
from conductor.rpc import outbox
from conductor.services.audit import audit
from conductor.services.quotas import quotas
from conductor.services.servers import block_devices, create_requests
from conductor.services.servers.action_history import list_actions as history
from conductor.services.servers.create_requests import CheckedCreate
from conductor.services.servers.deletions import delete
from conductor.services.servers.queries import get, list_page
from conductor.services.servers.types import InstanceCreate, LaunchResult

__all__ = ["console_output", "create", "delete", "get", "history", "list_page"]

API = "default"
BUILD_FLOW = "build_instances"

# A launch may have hundreds of instances, each with one of these.
REQUESTS = Rows(BuildRequest, "instance_uuid")
MAPPINGS = Rows(InstanceMapping, "instance_uuid")
SPECS = Rows(RequestSpecRecord, "instance_uuid")


@retried
def create(context: RequestContext, requested: InstanceCreate) -> LaunchResult:
    """Store a launch and its workflow in one transaction.

    Raises Invalid or Conflict for an impossible request, QuotaExceeded when not even `min_count` fit.
    """
    again = _launched_before(context, requested.run_uuid)
    if again:
        return again
    checked = create_requests.check(context, requested)
    with write_tx(API):
        if requested.run_uuid:
            one_at_a_time(API, f"launch:{requested.run_uuid}")
        launched = _launched_before(context, requested.run_uuid) or _launch(context, checked)
    reach("accept.create.committed")
    return launched


def console_output(context: RequestContext, instance_uuid: str, length: int | None = None) -> str:
    """Return the last `length` lines of the serial console; None or a negative number for all that is stored.

    Raises NotFound, Conflict while there is no host, CellUnavailable.
    """
    view = get(context, instance_uuid)
    if view.is_partial:
        raise CellUnavailable(f"The cell of instance {instance_uuid} does not answer.")
    if not view.host:
        raise Conflict(f"Instance {instance_uuid} is not ready: it has no host yet.")
    found = scatter_gather(lambda alias: _console_text(alias, view.uuid), [view.cell])
    if found.failures:
        raise CellUnavailable(f"The cell of instance {instance_uuid} does not answer.")
    text = found.answers[view.cell]
    if length is None or length < 0:
        return text
    return "\n".join(text.splitlines()[-length:]) if length else ""


def _console_text(alias: str, instance_uuid: str) -> str:
    texts = ConsoleLog.objects.using(alias).filter(instance_uuid=instance_uuid).values_list("text", flat=True)
    return next(iter(texts), "")


def _launched_before(context: RequestContext, run_uuid: str) -> LaunchResult | None:
    """Return the result of an earlier launch with the same run uuid. Raises Conflict when it was another caller's."""
    run = WorkflowRun.objects.using(API).filter(uuid=run_uuid).first() if run_uuid else None
    if run is None:
        return None
    if run.flow != BUILD_FLOW or run.project_id != context.project_id or run.user_id != context.user_id:
        raise Conflict(f"A workflow {run_uuid} exists already.")
    return LaunchResult(tuple(run.inputs["instance_uuids"]), run.inputs["reservation_id"], str(run.uuid))


def _launch(context: RequestContext, checked: CheckedCreate) -> LaunchResult:
    """Create everything that a build needs, in the caller's transaction."""
    requested = checked.requested
    count = quotas.check_launch(
        context.project_id,
        checked.spec.flavor,
        at_least=requested.min_count,
        at_most=max(requested.min_count, requested.max_count),
        user_id=context.user_id,
    )
    networks = ports.resolve_requests(context, requested.networks)
    instance_uuids = [uuid4() for _ in range(count)]
    run_uuid = UUID(requested.run_uuid) if requested.run_uuid else new_run_uuid()
    reservation_id = f"r-{secrets.token_hex(4)}"
    created_at = database_time(API)
    common = _common_values(checked) | {
        "networks": networks,
        "security_groups": create_requests.security_group_names(context, requested),
        "reservation_id": reservation_id,
    }
    names = [requested.name] if count == 1 else [f"{requested.name}-{number}" for number in range(1, count + 1)]
    requests = [
        {
            "instance_uuid": uuid,
            "project_id": context.project_id,
            "run_uuid": run_uuid,
            "instance": common
            | {
                "name": name,
                "hostname": create_requests.hostname_of(requested, name, str(uuid)),
                "launch_index": index,
            },
            "created_at": created_at,
        }
        for index, (uuid, name) in enumerate(zip(instance_uuids, names, strict=True))
    ]
    REQUESTS.insert_all(connections[API], requests)
    _record(context, checked, instance_uuids, run_uuid, created_at)
    devices = {str(uuid): block_devices.take(context, checked.devices, uuid) for uuid in instance_uuids}
    launched = LaunchResult(tuple(str(uuid) for uuid in instance_uuids), reservation_id, str(run_uuid))
    _open_build(context, checked, launched=launched, networks=networks, devices=devices)
    named = dict(zip(launched.instance_uuids, names, strict=True))
    audit.record_server_action(API, context, "create", named, run_uuid=run_uuid)
    return launched


def _open_build(
    context: RequestContext,
    checked: CheckedCreate,
    *,
    launched: LaunchResult,
    networks: Sequence[dict[str, str]],
    devices: Mapping[str, Sequence[dict[str, Any]]],
) -> None:
    """Open the build's run; it locks the instances, and their ports and volumes."""
    uuids = list(launched.instance_uuids)
    ports_held = [f"port:{network['port_id']}" for network in networks if network["port_id"]]
    volumes_held = [f"volume:{device['volume_id']}" for mine in devices.values() for device in mine]
    run_uuid = UUID(launched.run_uuid)
    run = outbox.NewRun(
        flow=BUILD_FLOW,
        action="create",
        context=context,
        resources=[*(f"instance:{uuid}" for uuid in uuids), *ports_held, *volumes_held],
        instance_uuid=uuids[0] if len(uuids) == 1 else None,
        instance_name=checked.requested.name,
        inputs={
            "instance_uuids": uuids,
            "reservation_id": launched.reservation_id,
            "spec": replace(checked.spec, num_instances=len(uuids)).to_json(),
            **({"devices": devices} if checked.devices else {}),
        },
        run_uuid=run_uuid,
    )
    outbox.open_run(API, run)
    for uuid in uuids:
        _emit(API, uuid, "instance.created", context.project_id, run_uuid)


def _record(
    context: RequestContext,
    checked: CheckedCreate,
    instance_uuids: Sequence[UUID],
    run_uuid: UUID,
    created_at: datetime,
) -> None:
    """Store each instance's mapping (without a cell yet), its request spec, and its group membership."""
    spec = checked.spec
    mapping = {
        "project_id": context.project_id,
        "user_id": context.user_id,
        "vcpus": spec.flavor.vcpus,
        "memory_mb": spec.flavor.memory_mb,
        "build_run_uuid": run_uuid,
        "created_at": created_at,
    }
    MAPPINGS.insert_all(connections[API], [{"instance_uuid": uuid, **mapping} for uuid in instance_uuids])
    as_json = spec.to_json()
    SPECS.insert_all(connections[API], [{"instance_uuid": uuid, "spec": as_json} for uuid in instance_uuids])
    if checked.group:
        members = checked.group.members.values_list("instance_uuid", flat=True)
        there = InstanceMapping.objects.filter(instance_uuid__in=list(members), is_deleted=False).count()
        quotas.check_quota(context.project_id, "server_group_members", in_use=there, wanted=len(instance_uuids))
        InstanceGroupMember.objects.bulk_create(
            InstanceGroupMember(group=checked.group, instance_uuid=uuid) for uuid in instance_uuids
        )


def _common_values(checked: CheckedCreate) -> dict[str, Any]:
    """Return values of cell_db.Instance that all instances of a launch share."""
    requested, spec = checked.requested, checked.spec
    return {
        "project_id": spec.project_id,
        "user_id": spec.user_id,
        "description": requested.description,
        "vm_state": VmState.BUILDING,
        "task_state": TaskState.SCHEDULING,
        "power_state": PowerState.NOSTATE,
        "availability_zone": requested.availability_zone,
        "pinned_availability_zone": requested.availability_zone,
        "flavor": asdict(spec.flavor),
        "image": asdict(spec.image),
        "metadata": dict(requested.metadata),
        "tags": list(requested.tags),
        "scheduler_hints": dict(spec.scheduler_hints),
        "key_name": requested.key_name,
        "public_key": checked.public_key,
        "user_data": requested.user_data,
        **({"injected_files": [asdict(file) for file in requested.files]} if requested.files else {}),
        "config_drive": "True" if requested.config_drive else "",
        "disk_config": requested.disk_config,
        "access_ip_v4": requested.access_ip_v4,
        "access_ip_v6": requested.access_ip_v6,
        "is_locked": False,
    }


def _emit(alias: str, instance_uuid: str, kind: str, project_id: str, run_uuid: UUID) -> None:
    events.append(alias, events.about_instance(instance_uuid, project_id, run_uuid), kind)
