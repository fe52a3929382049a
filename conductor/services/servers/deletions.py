"""Deletions of instances: at once, soft, or deferred until their cell is back."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import InterfaceError, OperationalError

from conductor import events
from conductor.api_db.models import BuildRequest, InstanceMapping
from conductor.cell_db.models import Instance
from conductor.cells import quarantine
from conductor.cells.lookup import API_ALIAS, CELL0
from conductor.core.context import RequestContext, system_context
from conductor.core.states import TaskState, VmState
from conductor.db.transactions import database_now, one_at_a_time, retried, write_tx
from conductor.rpc import deletes, outbox
from conductor.services.audit import audit
from conductor.services.servers import actions
from conductor.services.servers.actions import ActionRequest
from conductor.services.servers.queries import ROUNDS, mapping_of, missing

WAITING_FLOW = "delete_when_cell_is_back"
CELL_IS_DOWN = (OperationalError, InterfaceError)
GOING = (TaskState.DELETING, TaskState.SOFT_DELETING)


def delete(context: RequestContext, instance_uuid: str, *, is_forced: bool = False) -> None:
    """Delete an instance, in any state. Idempotent while the delete is under way.

    With NOVELLA_RECLAIM_SECONDS it is only soft-deleted for that time, unless `is_forced`. While its cell is down or in
    quarantine the request is stored, and executed when the cell is back. Raises NotFound, and Conflict for one that is
    locked against the caller.
    """
    for _ in range(ROUNDS):
        mapping = mapping_of(context, instance_uuid)
        if mapping.cell is None:
            if _delete_request(context, mapping):
                return None
            if mapping.is_deleted:
                break
            continue
        if quarantine.holds(mapping.cell.name):
            return _delete_later(context, mapping)
        try:
            if _delete_in_cell(context, mapping, mapping.cell.name, is_forced=is_forced):
                return None
        except CELL_IS_DOWN:
            return _delete_later(context, mapping)
        if mapping.is_deleted:
            break
    raise missing(instance_uuid)


def reclaim(alias: str) -> int:
    """Delete instances of the cell whose reclaim time is over. Return how many. Does nothing where that is off."""
    seconds = settings.NOVELLA_RECLAIM_SECONDS
    if not seconds:
        return 0
    over = (
        Instance.objects.using(alias)
        .alive()
        .filter(vm_state=VmState.SOFT_DELETED, task_state=None, soft_deleted_at__lt=database_now(-seconds))
    )
    reclaimed = 0
    for uuid in list(over.order_by("soft_deleted_at").values_list("uuid", flat=True)[:100]):
        with write_tx(alias):
            if over.filter(uuid=uuid).select_for_update().exists():  # not restored meanwhile
                reclaimed += deletes.open_delete(alias, system_context(), uuid)
    return reclaimed


@retried
def _delete_in_cell(context: RequestContext, mapping: InstanceMapping, cell: str, *, is_forced: bool) -> bool:
    """Delete an instance in its cell. False when it is not there (any more), as it may have moved meanwhile."""
    instance_uuid = mapping.instance_uuid
    if settings.NOVELLA_RECLAIM_SECONDS and not is_forced and cell != CELL0:
        row = Instance.objects.using(cell).alive().filter(uuid=instance_uuid).first()
        if row is not None and _can_be_kept(row):
            return _soft_delete(context, row)
    with write_tx(cell):
        is_there = deletes.open_delete(cell, context, instance_uuid)
        if is_there:
            name = Instance.objects.using(cell).filter(uuid=instance_uuid).values_list("name", flat=True).first() or ""
            _put_on_record(cell, context, mapping, name)
        return is_there


def _put_on_record(alias: str, context: RequestContext, mapping: InstanceMapping, name: str = "") -> None:
    names = {str(mapping.instance_uuid): name}
    audit.record_server_action(alias, context, "delete", names, project_id=mapping.project_id)


def _can_be_kept(row: Instance) -> bool:
    """Whether a delete can be soft: the instance was launched, is on a host, and is not being deleted."""
    return row.launched_at is not None and bool(row.host) and row.task_state != TaskState.DELETING


def _soft_delete(context: RequestContext, row: Instance) -> bool:
    if row.vm_state == VmState.SOFT_DELETED or row.task_state == TaskState.SOFT_DELETING:
        return True

    def refuse_what_goes(alias: str, instance: Instance, run_uuid: UUID) -> None:
        if instance.task_state in GOING or instance.vm_state == VmState.SOFT_DELETED:
            raise _AlreadyDeleting

    with suppress(_AlreadyDeleting):
        actions.begin(context, str(row.uuid), "soft_delete", ActionRequest(prepare=refuse_what_goes))
    return True


class _AlreadyDeleting(Exception):
    """Another request was first."""


@retried
def _delete_request(context: RequestContext, mapping: InstanceMapping) -> bool:
    """Mark a build request as deleted while it has no cell. Its workflow sees that and ends.

    False when it has a cell by now.
    """
    instance_uuid = mapping.instance_uuid
    waiting = BuildRequest.objects.filter(instance_uuid=instance_uuid, instance_uuid__in=_without_cell())
    with write_tx(API_ALIAS):
        run_uuid = waiting.values_list("run_uuid", flat=True).first()
        if run_uuid is None or not outbox.hold(API_ALIAS, uuid=run_uuid):
            return False
        request = waiting.first()  # read again, as it could get a cell until its workflow was locked
        if request is None:
            return False
        if not request.is_deleting:
            BuildRequest.objects.filter(pk=request.pk).update(is_deleting=True)
            topic = events.about_instance(instance_uuid, mapping.project_id, request.run_uuid)
            events.append(API_ALIAS, topic, "instance.updated")
            _put_on_record(API_ALIAS, context, mapping, str(request.instance.get("name", "")))
        outbox.wake(API_ALIAS, request.run_uuid)
    return True


def _without_cell() -> Any:
    return InstanceMapping.objects.filter(cell__isnull=True, is_deleted=False).values("instance_uuid")


def _delete_later(context: RequestContext, mapping: InstanceMapping) -> None:
    """Store the delete at the API level: one workflow per instance, which retries until the cell responds."""
    uuid = mapping.instance_uuid
    assert mapping.cell is not None
    with write_tx(API_ALIAS):
        one_at_a_time(API_ALIAS, f"delete:{uuid}")
        if outbox.hold(API_ALIAS, flow=WAITING_FLOW, instance_uuid=uuid, state__in=deletes.UNFINISHED):
            return
        inputs: Mapping[str, Any] = {"cell": mapping.cell.name}
        wanted = outbox.NewRun(
            flow=WAITING_FLOW,
            action="delete",
            context=replace(context, project_id=mapping.project_id),
            resources=[f"instance:{uuid}"],
            instance_uuid=uuid,
            inputs=inputs,
            is_cancellable=False,
        )
        run = outbox.open_run(API_ALIAS, wanted, may_wait=True)
        _put_on_record(API_ALIAS, context, mapping)
        events.append(API_ALIAS, events.about_instance(uuid, mapping.project_id, run.uuid), "instance.updated")
