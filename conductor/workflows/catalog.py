"""Every flow, by name and version: a run ends on the version that it began with."""

from __future__ import annotations

from conductor.core.errors import NotFound
from conductor.journal.models import WorkflowRun
from conductor.workflows.build_in_cell import BUILD_IN_CELL
from conductor.workflows.build_instances import BUILD_INSTANCES
from conductor.workflows.delete_instance import DELETE_INSTANCE
from conductor.workflows.flow import Flow, RemoteStep

FLOWS: tuple[Flow, ...] = (BUILD_INSTANCES, BUILD_IN_CELL, DELETE_INSTANCE)

_by_version = {(flow.name, flow.version): flow for flow in FLOWS}


def flow_of(run: WorkflowRun) -> Flow:
    """The flow that `run` follows: the version it began with, or the newest for one that has not begun."""
    versions = [version for name, version in _by_version if name == run.flow]
    version = run.flow_version or max(versions, default=0)
    flow = _by_version.get((run.flow, version))
    if flow is None:
        raise NotFound(f"This conductor has no flow {run.flow} version {version}.")
    return flow


def failpoints(flow: Flow) -> list[str]:
    """Every place of a flow's way forward at which `crash_at` can end the process, in order."""
    places = []
    for step in flow.steps:
        if isinstance(step, RemoteStep):
            moments: tuple[str, ...] = ("before", "sent", "answered", "after")
        else:
            moments = () if step.is_local else ("before", "effect", "after")
        places += [f"{flow.name}.do.{step.name}.{moment}" for moment in moments]
    return places
