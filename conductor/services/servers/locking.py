"""Server locks: an owner's, or an administrator's that the owner cannot unlock; and state resets."""

from __future__ import annotations

from typing import Any

from conductor import events
from conductor.cell_db.models import Instance
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Forbidden, Invalid
from conductor.core.states import VmState
from conductor.db.transactions import database_now, write_tx
from conductor.journal.models import WorkflowRun
from conductor.services.servers.actions import cell_of
from conductor.services.servers.queries import missing
from conductor.services.workflows import immediate_runs
from conductor.services.workflows.immediate_runs import InstantAction

OWNER, ADMIN = "owner", "admin"
LOCK = InstantAction(action="lock", event="api_lock", title="Lock")
UNLOCK = InstantAction(action="unlock", event="api_unlock", title="Unlock")


def lock(context: RequestContext, instance_uuid: str, reason: str | None = None) -> str:
    """Lock the server. Return the uuid of the record. An owner's request on a locked server changes nothing."""
    alias = cell_of(context, instance_uuid)
    with write_tx(alias):
        instance = _hold(alias, instance_uuid)
        if not (instance.is_locked and _who(context, instance) == OWNER):
            _change(alias, instance, is_locked=True, locked_by=_who(context, instance), locked_reason=reason)
        return str(immediate_runs.record(alias, context, instance, LOCK).uuid)


def unlock(context: RequestContext, instance_uuid: str, *, may_override: bool) -> str:
    """Unlock the server; returns the uuid of the record. `may_override`: whether the caller may remove another's lock.

    Raises Forbidden for another's lock that the caller may not remove.
    """
    alias = cell_of(context, instance_uuid)
    with write_tx(alias):
        instance = _hold(alias, instance_uuid)
        is_anothers = instance.locked_by not in ("", _who(context, instance))
        if instance.is_locked and is_anothers and not may_override:
            rule = "os_compute_api:os-lock-server:unlock:unlock_override"
            raise Forbidden(f"Policy doesn't allow {rule} to be performed.", rule=rule)
        _change(alias, instance, is_locked=False, locked_by="", locked_reason=None)
        return str(immediate_runs.record(alias, context, instance, UNLOCK).uuid)


def _hold(alias: str, instance_uuid: str) -> Instance:
    instance = Instance.objects.using(alias).alive().filter(uuid=instance_uuid).select_for_update().first()
    if instance is None:
        raise missing(instance_uuid)
    return instance


def _who(context: RequestContext, instance: Instance) -> str:
    return OWNER if context.project_id == instance.project_id else ADMIN


def _change(alias: str, instance: Instance, **values: Any) -> None:
    Instance.objects.using(alias).filter(pk=instance.pk).update(**values, updated_at=database_now())
    events.append(
        alias, events.about_instance(instance.uuid, instance.project_id), "instance.updated", {"changed": ["is_locked"]}
    )


STATES = {"active": VmState.ACTIVE, "error": VmState.ERROR}


def reset(context: RequestContext, instance_uuid: str, state: str) -> str:
    """Set the server's state and clear its task state. Return the uuid of the record, which is audited too.

    No guest, port or claim is changed. Raises Conflict while a workflow is under way on the server; cancel that first.
    """
    if state not in STATES:
        raise Invalid(f"A server's state can be reset to {' or '.join(STATES)}.", field="os-resetState.state")
    alias = cell_of(context, instance_uuid)
    with write_tx(alias):
        instance = Instance.objects.using(alias).alive().filter(uuid=instance_uuid).select_for_update().first()
        if instance is None:
            raise missing(instance_uuid)
        _refuse_under_work(alias, instance)
        before = {"vm_state": instance.vm_state, "task_state": instance.task_state}
        Instance.objects.using(alias).filter(pk=instance.pk).update(
            vm_state=STATES[state], task_state=None, updated_at=database_now()
        )
        details = {"before": before, "after": state}
        action = InstantAction(
            action="resetState", event="api_reset_state", title=f"Reset the state to {state}", details=details
        )
        run = immediate_runs.record(alias, context, instance, action)
        events.append(alias, events.about_instance(instance.uuid, instance.project_id, run.uuid), "instance.updated")
    return str(run.uuid)


def _refuse_under_work(alias: str, instance: Instance) -> None:
    run = WorkflowRun.objects.using(alias).live().filter(instance_uuid=instance.uuid).order_by("pk").first()
    if run is not None:
        raise Conflict(
            f"Cannot 'resetState' instance {instance.uuid} while the workflow {run.uuid} ({run.action}) is at work on "
            "it: cancel that first."
        )
