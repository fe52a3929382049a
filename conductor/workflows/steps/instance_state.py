"""Steps that set the state of an instance when an action ends, in success or failure."""

from __future__ import annotations

from typing import Any

from conductor.cell_db.models import InstanceFault
from conductor.core.messages import message, sentences, text_of, to_json_text
from conductor.core.states import PowerState, StepState, VmState
from conductor.db.transactions import database_now
from conductor.journal.models import StepRecord
from conductor.workflows.flow import Result, Step, StepContext
from conductor.workflows.steps import instance_rows


class SetState(Step):
    """Sets the server's state at the end of an action, and clears the task state.

    `launches` renews the launch time; the power state holds until the host's next report.
    """

    title = "Set state"
    lane = "Cell conductor"

    def __init__(self, vm_state: VmState | None = None, power: PowerState | None = None, *, launches: bool = False):
        self.vm_state = vm_state
        self.power = power
        self.launches = launches

    def commit(self, work: StepContext, result: Result) -> None:
        values: dict[str, Any] = {"task_state": None}
        if self.vm_state is not None:
            values["vm_state"] = self.vm_state
        if self.power is not None:
            values["power_state"] = self.power
        if self.launches:
            values["launched_at"] = database_now()
        instance_rows.update(work, **values | self.more(work))

    def more(self, work: StepContext) -> dict[str, Any]:
        """Return further columns of the instance that change with its state."""
        return {}


class EndAction(Step):
    """Ends a failed action; the instance keeps its state, as the guest has.

    Columns that the request changed at once are restored from the run's input `before`.

    `breaks_at` names the step that may leave the guest broken. Unless its host has undone it, the instance is set to
    error.
    """

    title = "End action"
    lane = "Cell conductor"

    def __init__(self, breaks_at: str = "") -> None:
        self.breaks_at = breaks_at

    def commit(self, work: StepContext, result: Result) -> None:
        error = work.run.error or {}
        is_broken = self._is_broken(work)
        if is_broken or error.get("class") != "Cancelled":
            keep_first_cause(work)
        changes = {"vm_state": VmState.ERROR} if is_broken else work.inputs.get("before", {})
        instance_rows.update(work, task_state=None, **changes)

    def _is_broken(self, work: StepContext) -> bool:
        records = StepRecord.objects.using(work.alias).filter(run=work.run, name=self.breaks_at)
        if not self.breaks_at or not records.filter(direction="do").exists():
            return False
        undone = records.filter(direction="undo", state=StepState.UNDONE).exclude(host="")
        return not undone.exists()


class NoteFailure(Step):
    """Records a failure; the guest's state is unchanged, only the task state is cleared."""

    title = "Record failure"
    lane = "Cell conductor"

    def commit(self, work: StepContext, result: Result) -> None:
        error = work.run.error or {}
        if error.get("class") != "Cancelled":
            keep_first_cause(work)
        instance_rows.update(work, task_state=None)


LONGEST_MESSAGE = 255


def keep_first_cause(work: StepContext) -> None:
    """Store the run's root cause and uncompensated effects as the instance's newest fault; in a fenced transaction."""
    error = work.run.error or {}
    left = message("fault.left", uncompensated="; ".join(work.run.uncompensated)) if work.run.uncompensated else ""
    at = f"step {error.get('step')} of {work.run.action}, attempt {error.get('attempt')}"
    add(
        work,
        sentences(text_of(error), left),
        f"{error.get('class')} at {at}",
        decision_uuid=(error.get("details") or {}).get("decision_uuid"),
    )


def add(work: StepContext, text: str, details: str, *, decision_uuid: str | None = None) -> None:
    """Add a fault to the run's instance, its message shortened for clients; inside a fenced transaction."""
    InstanceFault.objects.using(work.alias).create(
        instance_uuid=work.instance_uuid,
        message=text[:LONGEST_MESSAGE],
        wording=to_json_text(text),
        details=details,
        decision_uuid=decision_uuid,
        created_at=database_now(),
    )
