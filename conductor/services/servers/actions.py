"""Acceptance of server actions: checks, then stores the workflow and its locks; conductors execute it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from conductor import events
from conductor.cell_db.models import BlockDevice, ComputeNode, Instance
from conductor.cells import quarantine
from conductor.cells.hosts import is_unresponsive
from conductor.cells.lookup import CELL0
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, NotSupported, ResourceLocked
from conductor.core.identifiers import new_run_uuid
from conductor.core.messages import message
from conductor.core.server_actions import ACTIONS, ServerAction
from conductor.core.states import FINAL_RUN_STATES, LIVE_RUN_STATES, VmState
from conductor.db.transactions import database_now, retried, write_tx
from conductor.failpoints import reach
from conductor.journal import locks
from conductor.journal.models import WorkflowRun
from conductor.rpc import outbox
from conductor.services.audit import audit
from conductor.services.servers.queries import mapping_of, missing
from conductor.volume.models import Volume

# Reads the needed columns of the row, writes the values of the action, and may refuse. Called in the accepting
# transaction.
Prepare = Callable[[str, Instance, UUID], None]


@dataclass(frozen=True, kw_only=True)
class ActionRequest:
    """Arguments of an action: inputs of its flow, secrets that no page may show, and additional locks.

    `reserve` writes to the API database what the run is about to use, in the transaction that takes the locks in that
    database. So what is reserved is always locked, and nothing that is reserved without a lock is in use. `release`
    undoes it when the run cannot be opened. `run_uuid` may be given to make a repeated request idempotent.
    `parent_uuid` names the requesting run.
    """

    inputs: Mapping[str, Any] = field(default_factory=dict)
    secrets: Mapping[str, Any] = field(default_factory=dict)
    resources: Iterable[str] = ()
    prepare: Prepare = lambda alias, instance, run_uuid: None
    reserve: Callable[[], None] | None = None
    release: Callable[[], None] = lambda: None
    run_uuid: UUID | None = None
    parent_uuid: UUID | None = None


@retried
def begin(context: RequestContext, instance_uuid: str, name: str, action_request: ActionRequest | None = None) -> str:
    """Accept the action `name` (a row of core.server_actions) on an instance; returns the uuid of its workflow.

    Checks, task state, workflow and locks are one transaction of the instance's cell. Raises NotFound, Conflict for a
    wrong state, a locked server or a locked resource, NotSupported where the host's driver cannot.
    """
    action, action_request = ACTIONS[name], action_request or ActionRequest()
    alias = cell_of(context, instance_uuid)
    run_uuid = action_request.run_uuid or new_run_uuid()
    action_request = _lock_parts(
        context, alias, action, instance_uuid=instance_uuid, action_request=action_request, run_uuid=run_uuid
    )
    reach(f"accept.{name}.locked")
    try:
        with write_tx(alias):
            _accept(
                context, alias, action, instance_uuid=instance_uuid, action_request=action_request, run_uuid=run_uuid
            )
    except BaseException:
        with write_tx() if action_request.reserve else nullcontext():
            action_request.release()
            locks.free_cross_database(run_uuid)
        raise
    return str(run_uuid)


def _parts(alias: str, instance_uuid: str) -> list[str]:
    """Return the locks of the instance's ports and volumes, which every action on it uses."""
    rows = Instance.objects.using(alias).filter(uuid=instance_uuid).values_list("addresses", flat=True)
    ports = [f"port:{port['port_uuid']}" for addresses in rows for port in addresses]
    devices = BlockDevice.objects.using(alias).filter(instance_uuid=instance_uuid)
    uuids = list(devices.values_list("volume_uuid", flat=True))
    return ports + (volume_locks(uuids, instance_uuid) if uuids else [])


def volume_locks(volume_uuids: Sequence[UUID], instance_uuid: str) -> list[str]:
    """Return an instance's locks for volumes: the whole volume, or for a multi-attach volume the instance's share."""
    shared = set(Volume.objects.filter(uuid__in=volume_uuids, is_multiattach=True).values_list("uuid", flat=True))
    return [f"volume:{uuid}:{instance_uuid}" if uuid in shared else f"volume:{uuid}" for uuid in volume_uuids]


def _lock_parts(
    context: RequestContext,
    alias: str,
    action: ServerAction,
    *,
    instance_uuid: str,
    action_request: ActionRequest,
    run_uuid: UUID,
) -> ActionRequest:
    """Lock the requested resources and the instance's own in the API database; return `action_request` with both.

    For an instance with a task under way the error names the instance, not its ports or volumes.
    """
    # An interrupting action must not wait for the other one. A queued action would wait for each part of the one before
    # it.
    parts = () if action.interrupts or action.lines_up else _parts(alias, instance_uuid)
    whole = replace(action_request, resources=sorted({*action_request.resources, *parts}))
    wanted = locks.cross_database(alias, whole.resources)
    try:
        with write_tx() if action_request.reserve else nullcontext():
            locks.take_cross_database(wanted, holder_uuid=run_uuid, holder_alias=alias, action=action.name)
            if action_request.reserve:
                action_request.reserve()
    except ResourceLocked as error:
        instance = Instance.objects.using(alias).alive().filter(uuid=instance_uuid).first()
        if instance is not None and error.details["resource"] not in set(action_request.resources):
            guard(context, alias, action, instance)
        message = f"Cannot '{action.name}' instance {instance_uuid}: {error.message}"
        raise ResourceLocked(message, **error.details) from None
    return whole


def cell_of(context: RequestContext, instance_uuid: str) -> str:
    """Return the database of an instance's cell, for a change there.

    Raises NotFound, Conflict while it has none, CellUnavailable while that is in quarantine.
    """
    mapping = mapping_of(context, instance_uuid)
    if mapping.cell is None:
        if mapping.is_deleted:
            raise missing(instance_uuid)
        raise Conflict(f"Instance {instance_uuid} is still being scheduled; try again in a moment.")
    quarantine.refuse(mapping.cell.name)
    return str(mapping.cell.name)


def _accept(
    context: RequestContext,
    alias: str,
    action: ServerAction,
    *,
    instance_uuid: str,
    action_request: ActionRequest,
    run_uuid: UUID,
) -> None:
    if action.interrupts:  # conductors lock a run before its instance: same order here
        outbox.hold(alias, instance_uuid=instance_uuid, state__in=LIVE_RUN_STATES)
    rows = Instance.objects.using(alias).alive().filter(uuid=instance_uuid)
    instance = rows.select_for_update().first()
    if instance is None:
        raise missing(instance_uuid)
    guard(context, alias, action, instance)
    action_request.prepare(alias, instance, run_uuid)
    may_wait = _may_line_up(alias, action, instance)
    if instance.task_state is not None:
        may_wait = True
        _interrupt(alias, instance, f"{action.name} was asked for")
    if action.task_state is not None:
        rows.update(task_state=action.task_state, updated_at=database_now())
    wanted = outbox.NewRun(
        flow=action.volume_flow if action.volume_flow and instance.is_volume_backed else action.flow,
        action=action.name,
        context=replace(context, project_id=instance.project_id),
        resources=[f"instance:{instance.uuid}", *action_request.resources],
        instance_uuid=instance.uuid,
        instance_name=instance.name,
        inputs=action_request.inputs,
        secrets=action_request.secrets,
        parent_uuid=action_request.parent_uuid,
        run_uuid=run_uuid,
    )
    try:
        outbox.open_run(alias, wanted, may_wait=may_wait)
    except ResourceLocked as error:
        message = f"Cannot '{action.name}' instance {instance.uuid}: {error.message}"
        raise ResourceLocked(message, **error.details) from None
    if action_request.parent_uuid is None:  # the workflow has the record of its own requests
        names = {str(instance.uuid): instance.name}
        audit.record_server_action(
            alias, context, action.name, names, project_id=instance.project_id, run_uuid=run_uuid
        )
    events.append(alias, events.about_instance(instance.uuid, instance.project_id, run_uuid), "instance.updated")


def _may_line_up(alias: str, action: ServerAction, instance: Instance) -> bool:
    """Whether the action and all current work on the instance may queue: they run one after another."""
    if not action.lines_up:
        return False
    rows = WorkflowRun.objects.using(alias).filter(instance_uuid=instance.uuid).exclude(state__in=FINAL_RUN_STATES)
    before = list(rows.values_list("action", "state"))
    may_end_soon = all(state in LIVE_RUN_STATES for _, state in before)  # it is unknown when an operator acts
    return bool(before) and may_end_soon and all(name in ACTIONS and ACTIONS[name].lines_up for name, _ in before)


def _interrupt(alias: str, instance: Instance, reason: str) -> None:
    """Cancel and roll back current work on the instance. The interrupting action waits for its locks."""
    runs = WorkflowRun.objects.using(alias).filter(instance_uuid=instance.uuid)
    for run in runs.exclude(state__in=FINAL_RUN_STATES).order_by("pk"):
        if not run.is_cancel_requested:
            outbox.request_cancel(alias, run, reason)


def guard(context: RequestContext, alias: str, action: ServerAction, instance: Instance) -> None:
    """Raise the Compute API's error when the action is not allowed now: first for locks, then the state, then the
    host.
    """
    if action.respects_lock and instance.is_locked and not context.is_admin:
        raise Conflict(f"Instance {instance.uuid} is locked")
    if action.must_have_launched and instance.launched_at is None:
        raise _refused(action, instance, "launched_at", None)
    if VmState(instance.vm_state) not in action.vm_states:
        raise _refused(action, instance, "vm_state", instance.vm_state)
    if instance.task_state is not None and instance.task_state not in action.interrupts:
        raise _refused(action, instance, "task_state", instance.task_state)
    if action.needs_host and (not instance.host or alias == CELL0):
        raise Conflict(message("console.no_host", server=str(instance.uuid)))
    if action.needs_live_host and is_unresponsive(alias, instance.host or ""):
        raise Conflict(f"Cannot '{action.name}' instance {instance.uuid}: its host does not answer.")
    if action.capability and instance.host and action.capability not in capabilities(alias, instance.host):
        raise NotSupported(f"The driver of the instance's host cannot do '{action.name}'.")


def capabilities(alias: str, host: str) -> frozenset[str]:
    """Return the capabilities that the driver of `host` reported (names of core.compute_driver.CAPABILITIES)."""
    reports = ComputeNode.objects.using(alias).filter(host=host).values_list("report", flat=True)
    return frozenset(name for report in reports for name in report.get("capabilities", {}).get("actions", ()))


def _refused(action: ServerAction, instance: Instance, what: str, value: object) -> Conflict:
    return Conflict(f"Cannot '{action.name}' instance {instance.uuid} while it is in {what} {value}")
