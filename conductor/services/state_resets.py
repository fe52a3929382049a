"""The operator's last resort: say what state a server is in, whatever the product believes."""

from __future__ import annotations

from conductor import events
from conductor.cell_db.models import Instance
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid
from conductor.core.states import VmState
from conductor.journal.models import WorkflowRun
from conductor.services import instant_runs
from conductor.services.instance_queries import missing
from conductor.services.instant_runs import Deed
from conductor.services.server_actions import cell_of
from conductor.transactions import database_now, write_tx

STATES = {"active": VmState.ACTIVE, "error": VmState.ERROR}


def reset(context: RequestContext, instance_uuid: str, state: str) -> str:
    """Set the server's state and say that nothing is under way; the uuid of the record, which the audit log has too.

    No guest, port or claim is touched. Raises Conflict while a workflow is at work on the server: that one is to be
    cancelled first, so that nothing is cancelled behind anybody's back.
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
        deed = Deed(action="resetState", event="api_reset_state", title=f"Reset the state to {state}", details=details)
        run = instant_runs.record(alias, context, instance, deed)
        events.append(alias, events.about_instance(instance.uuid, instance.project_id, run.uuid), "instance.updated")
    return str(run.uuid)


def _refuse_under_work(alias: str, instance: Instance) -> None:
    run = WorkflowRun.objects.using(alias).live().filter(instance_uuid=instance.uuid).order_by("pk").first()
    if run is not None:
        raise Conflict(
            f"Cannot 'resetState' instance {instance.uuid} while the workflow {run.uuid} ({run.action}) is at work on "
            "it: cancel that first."
        )
