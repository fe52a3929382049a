"""Try a host that was closed, before others come to it: with a server that is built there, looked at and deleted.

The server is launched and deleted by `services.canaries`, as a person would do it; the steps wait, and say what came
of it. A canary that failed is removed too before the workflow fails: so there is nothing to undo.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from conductor.api_db.models import InstanceMapping
from conductor.cell_db.models import Instance
from conductor.core.canaries import launch_uuid
from conductor.core.errors import CanaryFailed
from conductor.core.states import FINAL_RUN_STATES, RunState, VmState, WaitCause
from conductor.journal.models import WorkflowRun
from conductor.workflows.flow import NotYet, Result, Step, Work
from conductor.workflows.steps.close_host import is_closed, set_service

LOOK_AGAIN_SECONDS = 2.0


class BuildCanary(Step):
    """Done when the server is active, or will never be: then the result says why."""

    title = "Build canary"
    lane = "Cell conductor"

    def execute(self, work: Work) -> Result:
        build = _launched(work)
        if build is None:
            raise NotYet(WaitCause.CHILDREN, "its server is about to be launched", LOOK_AGAIN_SECONDS)
        uuid = UUID(build.inputs["instance_uuids"][0])
        child = WorkflowRun.objects.using(work.alias).filter(parent_uuid=build.uuid, instance_uuid=uuid).first()
        for run in (build, child):
            if run is not None and run.state in FINAL_RUN_STATES and run.state != RunState.DONE:
                return {"instance_uuid": str(uuid), "run_uuid": str(run.uuid), "why": _why(run)}
        if child is None or child.state != RunState.DONE:
            raise NotYet(WaitCause.CHILDREN, "its server is being built", LOOK_AGAIN_SECONDS)
        row = Instance.objects.using(work.alias).alive().filter(uuid=uuid).first()
        is_good = row is not None and row.vm_state == VmState.ACTIVE
        why = "" if is_good else f"its server is {row.vm_state if row else 'gone'}"
        return {"instance_uuid": str(uuid), "run_uuid": str(child.uuid), "why": why}


class RemoveCanary(Step):
    """Done when nothing is left of the server."""

    title = "Remove canary"
    lane = "Cell conductor"

    def execute(self, work: Work) -> Result:
        _wait_until_gone(work)
        return {}


class OpenTriedHost(Step):
    """The host takes new work, if its canary lived. Raises CanaryFailed."""

    title = "Open host"
    lane = "Cell conductor"

    def execute(self, work: Work) -> Result:
        tried = work.result_of(BuildCanary)
        if tried["why"]:
            raise CanaryFailed(f"The canary failed: {tried['why']}", run_uuid=tried["run_uuid"])
        return {}

    def apply(self, work: Work, result: Result) -> None:
        set_service(work, work.inputs["host"], is_disabled=False, disabled_reason=None)


class KeepHostClosed(Step):
    """The host stays as it is, and its reason says what came of the try; the server of one that was cancelled goes.

    Somebody may have opened it by hand meanwhile.
    """

    title = "Keep host closed"
    lane = "Cell conductor"

    def execute(self, work: Work) -> Result:
        _wait_until_gone(work)
        return {}

    def apply(self, work: Work, result: Result) -> None:
        host = work.inputs["host"]
        if is_closed(work, host):
            why = work.run.cancel_reason or (work.run.error or {}).get("message", "")
            set_service(work, host, disabled_reason=f"{why} (workflow {work.run.uuid})"[-255:])


def _launched(work: Work) -> WorkflowRun | None:
    """The workflow that launches the canary, once it is asked for."""
    return WorkflowRun.objects.using("default").filter(uuid=launch_uuid(work.run.uuid)).first()


def _wait_until_gone(work: Work) -> None:
    build = _launched(work)
    uuids = build.inputs["instance_uuids"] if build else []
    if InstanceMapping.objects.filter(instance_uuid__in=uuids, is_deleted=False).exists():
        raise NotYet(WaitCause.CHILDREN, "its server is being deleted", LOOK_AGAIN_SECONDS)


def _why(run: WorkflowRun) -> str:
    error: dict[str, Any] = run.error or {}
    return str(error.get("message") or f"its workflow ended as {run.state}")[:500]
