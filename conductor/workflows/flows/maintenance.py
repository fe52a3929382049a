"""Flows for maintenance of hosts: drain them, and test them with a canary server before they are enabled."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from conductor import events
from conductor.api_db.models import InstanceMapping
from conductor.cell_db.models import ComputeNode, Drain, Instance, Service
from conductor.cells.hosts import HostLoad, load_of
from conductor.core.canaries import launch_uuid
from conductor.core.errors import CanaryFailed
from conductor.core.messages import message, pack, text_of, unpack, word
from conductor.core.states import FINAL_RUN_STATES, RunState, VmState, WaitCause
from conductor.journal.models import WorkflowRun
from conductor.placement import traits
from conductor.workflows.flow import Flow, Result, Step, StepContext, Suspend


class CloseHost(Step):
    """Keeps the host disabled for new servers: the request has already disabled it.

    No revert: a cancelled drain ends with OpenHost, also before this step.
    """

    title = "Disable host"
    lane = "Cell conductor"

    def commit(self, work: StepContext, result: Result) -> None:
        reason = f"is being emptied by workflow {work.run.uuid}"
        set_service(work, work.inputs["host"], is_disabled=True, disabled_reason=reason)


class OpenHost(Step):
    """Restores the host's state from before the drain, unless it is to stay disabled."""

    name = "OpenHost"
    title = "Enable host again"
    lane = "Cell conductor"

    def commit(self, work: StepContext, result: Result) -> None:
        drain = Drain.objects.using(work.alias).filter(run_uuid=work.run.uuid).first()
        if drain is not None and not drain.stays_closed:
            set_service(work, drain.host, is_disabled=drain.was_disabled, disabled_reason=drain.reason_before)


def is_closed(work: StepContext, host: str) -> bool:
    """Whether a host is disabled."""
    return Service.objects.using(work.alias).filter(binary="nova-compute", host=host, is_disabled=True).exists()


def set_service(work: StepContext, host: str, **values: Any) -> None:
    """Change a host's compute service, and notify its subscribers and placement; inside a fenced transaction."""
    if values.get("is_disabled") is False:
        values["maintenance_note"] = ""
    Service.objects.using(work.alias).filter(binary="nova-compute", host=host).update(**values)
    events.append(work.alias, events.about_host(host), "host.updated", values)
    if "is_disabled" in values:
        nodes = ComputeNode.objects.using(work.alias).filter(host=host).values_list("uuid", flat=True)
        traits.mark(nodes, traits.DISABLED, is_on=values["is_disabled"])  # if lost, the next host report repairs it


DRAIN_POLL_SECONDS = 30.0  # the run that moves the last server notifies it earlier


class EmptyHost(Step):
    """Waits until the host is empty: no server, no unconfirmed move, no lock, no allocation.

    No revert: servers that have left stay where they are.
    """

    title = "Drain host"
    lane = "Cell conductor"

    def execute(self, work: StepContext) -> Result:
        load = load_of(work.alias, work.inputs["host"])
        if load.is_empty:
            return {}
        drain = Drain.objects.using(work.alias).get(run_uuid=work.run.uuid)
        raise Suspend(WaitCause.CHILDREN, _words(load, drain), DRAIN_POLL_SECONDS)

    def commit(self, work: StepContext, result: Result) -> None:
        host = work.inputs["host"]
        Drain.objects.using(work.alias).filter(run_uuid=work.run.uuid).update(refused={})
        set_service(work, host, disabled_reason=f"in maintenance: emptied by workflow {work.run.uuid}")
        events.append(work.alias, events.about_host(host), "host.emptied")


def _words(load: HostLoad, drain: Drain) -> str:
    words = f"left: {load}"
    if drain.is_paused:
        words = f"paused with {load}"
    elif drain.is_late:
        words = f"deadline passed, {load} left"
    return f"{words}; {len(drain.refused)} cannot leave" if drain.refused else words


CANARY_POLL_SECONDS = 2.0


class BuildCanary(Step):
    """Waits until the small server that another workflow builds on the host is active, or its build has failed.

    After a failure the result has the reason.

    No revert: the next step removes the server.
    """

    title = "Build canary"
    lane = "Cell conductor"

    def execute(self, work: StepContext) -> Result:
        build = _launched(work)
        if build is None:
            raise Suspend(WaitCause.CHILDREN, message("canary.to_be_launched"), CANARY_POLL_SECONDS)
        uuid = UUID(build.inputs["instance_uuids"][0])
        child = WorkflowRun.objects.using(work.alias).filter(parent_uuid=build.uuid, instance_uuid=uuid).first()
        for run in (build, child):
            if run is not None and run.state in FINAL_RUN_STATES and run.state != RunState.DONE:
                return {"instance_uuid": str(uuid), "run_uuid": str(run.uuid), "why": pack(_why(run))}
        if child is None or child.state != RunState.DONE:
            raise Suspend(WaitCause.CHILDREN, message("canary.building"), CANARY_POLL_SECONDS)
        row = Instance.objects.using(work.alias).alive().filter(uuid=uuid).first()
        is_good = row is not None and row.vm_state == VmState.ACTIVE
        state = word(row.vm_state if row else "gone")
        why = "" if is_good else pack(message("canary.server_state", state=state))
        return {"instance_uuid": str(uuid), "run_uuid": str(child.uuid), "why": why}


class RemoveCanary(Step):
    """Waits until nothing of the server is left, whether its build succeeded or not."""

    title = "Remove canary"
    lane = "Cell conductor"

    def execute(self, work: StepContext) -> Result:
        _wait_until_gone(work)
        return {}


class OpenTriedHost(Step):
    """Enables the host, or fails with the build's cause if the server did not become active.

    Raises CanaryFailed.
    """

    title = "Enable host"
    lane = "Cell conductor"

    def execute(self, work: StepContext) -> Result:
        tried = work.result_of(BuildCanary)
        if tried["why"]:
            raise CanaryFailed(message("canary.failed", reason=unpack(tried["why"])), run_uuid=tried["run_uuid"])
        return {}

    def commit(self, work: StepContext, result: Result) -> None:
        set_service(work, work.inputs["host"], is_disabled=False, disabled_reason=None)


class KeepHostClosed(Step):
    """Records the result as the host's disabled reason, and deletes the server of a cancelled test.

    An operator may have enabled the host meanwhile.
    """

    title = "Keep host disabled"
    lane = "Cell conductor"

    def execute(self, work: StepContext) -> Result:
        _wait_until_gone(work)
        return {}

    def commit(self, work: StepContext, result: Result) -> None:
        host = work.inputs["host"]
        if is_closed(work, host):
            why = work.run.cancel_reason or text_of(work.run.error)
            set_service(work, host, disabled_reason=f"{why} (workflow {work.run.uuid})"[-255:])


def _launched(work: StepContext) -> WorkflowRun | None:
    """Return the workflow that launches the canary, once it exists."""
    return WorkflowRun.objects.using("default").filter(uuid=launch_uuid(work.run.uuid)).first()


def _wait_until_gone(work: StepContext) -> None:
    build = _launched(work)
    uuids = build.inputs["instance_uuids"] if build else []
    if InstanceMapping.objects.filter(instance_uuid__in=uuids, is_deleted=False).exists():
        raise Suspend(WaitCause.CHILDREN, message("canary.deleting"), CANARY_POLL_SECONDS)


def _why(run: WorkflowRun) -> str:
    return text_of(run.error) or message("canary.ended", state=word(run.state))


DRAIN_HOST = Flow(
    "drain_host",
    version=1,
    steps=(
        CloseHost(),  # disabled for new servers
        EmptyHost(),  # suspends while other workflows move its servers; no undo: moved servers stay away
    ),
    on_failure=OpenHost(),  # as before, unless it is to stay disabled
    on_cancel=OpenHost(),
)


TRY_HOST = Flow(
    "try_host",
    version=1,
    steps=(
        BuildCanary(),  # suspends while another workflow builds it on this host
        RemoveCanary(),  # suspends until it is gone, also when it failed: there is nothing to undo
        OpenTriedHost(),  # fails if the canary failed
    ),
    on_failure=KeepHostClosed(),
    on_cancel=KeepHostClosed(),
    cancellable_until="OpenTriedHost",
)
