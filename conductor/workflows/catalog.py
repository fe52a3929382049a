"""Catalog of flows by name and version. A run ends with the version that it began with."""

from __future__ import annotations

from conductor.core.errors import NotFound
from conductor.journal.models import WorkflowRun
from conductor.workflows.flow import Flow, RemoteStep, SetStep
from conductor.workflows.flows.attachments import (
    ATTACH_INTERFACE,
    ATTACH_VOLUME,
    DETACH_INTERFACE,
    DETACH_VOLUME,
    EXTEND_VOLUME,
    SWAP_VOLUME,
)
from conductor.workflows.flows.build import BUILD_IN_CELL, BUILD_INSTANCES
from conductor.workflows.flows.build_from_volumes import BUILD_FROM_VOLUMES
from conductor.workflows.flows.build_retries import TRY_AGAIN
from conductor.workflows.flows.delete import (
    DELETE_INSTANCE,
    DELETE_WHEN_CELL_IS_BACK,
    RESTORE_INSTANCE,
    SOFT_DELETE_INSTANCE,
)
from conductor.workflows.flows.evacuation import EVACUATE_INSTANCE
from conductor.workflows.flows.live_migration import (
    ABORT_LIVE_MIGRATION,
    FORCE_LIVE_MIGRATION,
    LIVE_MIGRATE_INSTANCE,
    STEER_LIVE_MIGRATION,
)
from conductor.workflows.flows.maintenance import DRAIN_HOST, TRY_HOST
from conductor.workflows.flows.power import (
    CHANGE_PASSWORD,
    HARD_REBOOT_INSTANCE,
    PAUSE_INSTANCE,
    REBOOT_INSTANCE,
    RESUME_INSTANCE,
    START_INSTANCE,
    STOP_INSTANCE,
    SUSPEND_INSTANCE,
    TRIGGER_CRASH_DUMP,
    UNPAUSE_INSTANCE,
)
from conductor.workflows.flows.rebuild import REBUILD_INSTANCE, REBUILD_ROOT_VOLUME
from conductor.workflows.flows.rescue import RESCUE_INSTANCE, UNRESCUE_INSTANCE
from conductor.workflows.flows.resize import CONFIRM_RESIZE, RESIZE_INSTANCE, REVERT_RESIZE
from conductor.workflows.flows.server_images import CREATE_BACKUP, CREATE_IMAGE, CREATE_IMAGE_OF_VOLUMES
from conductor.workflows.flows.shelving import (
    OFFLOAD_INSTANCE,
    SHELVE_INSTANCE,
    SHELVE_WITH_ROOT_VOLUME,
    UNSHELVE_INSTANCE,
)
from conductor.workflows.flows.volumes import (
    BACKUP_VOLUME,
    CREATE_SNAPSHOT,
    CREATE_VOLUME,
    REIMAGE_VOLUME,
    RESTORE_BACKUP,
    REVERT_VOLUME,
    UPLOAD_VOLUME,
)

FLOWS: tuple[Flow, ...] = (
    BUILD_INSTANCES,
    BUILD_IN_CELL,
    BUILD_FROM_VOLUMES,
    TRY_AGAIN,
    DELETE_INSTANCE,
    DELETE_WHEN_CELL_IS_BACK,
    START_INSTANCE,
    STOP_INSTANCE,
    REBOOT_INSTANCE,
    HARD_REBOOT_INSTANCE,
    PAUSE_INSTANCE,
    UNPAUSE_INSTANCE,
    SUSPEND_INSTANCE,
    RESUME_INSTANCE,
    CHANGE_PASSWORD,
    RESCUE_INSTANCE,
    UNRESCUE_INSTANCE,
    REBUILD_INSTANCE,
    REBUILD_ROOT_VOLUME,
    TRIGGER_CRASH_DUMP,
    SOFT_DELETE_INSTANCE,
    RESTORE_INSTANCE,
    RESIZE_INSTANCE,
    CONFIRM_RESIZE,
    REVERT_RESIZE,
    EVACUATE_INSTANCE,
    FORCE_LIVE_MIGRATION,
    ABORT_LIVE_MIGRATION,
    STEER_LIVE_MIGRATION,
    LIVE_MIGRATE_INSTANCE,
    DRAIN_HOST,
    TRY_HOST,
    CREATE_IMAGE,
    CREATE_IMAGE_OF_VOLUMES,
    CREATE_BACKUP,
    SHELVE_INSTANCE,
    SHELVE_WITH_ROOT_VOLUME,
    OFFLOAD_INSTANCE,
    UNSHELVE_INSTANCE,
    ATTACH_VOLUME,
    DETACH_VOLUME,
    EXTEND_VOLUME,
    SWAP_VOLUME,
    ATTACH_INTERFACE,
    DETACH_INTERFACE,
    CREATE_VOLUME,
    CREATE_SNAPSHOT,
    REVERT_VOLUME,
    REIMAGE_VOLUME,
    UPLOAD_VOLUME,
    BACKUP_VOLUME,
    RESTORE_BACKUP,
)

# Flows of earlier releases. Each stays until no database has a run with that version (`novella upgrade_check`). A flow
# whose steps change gets the next version, and its previous one moves here.
PREVIOUS: tuple[Flow, ...] = ()

_by_version = {(flow.name, flow.version): flow for flow in (*FLOWS, *PREVIOUS)}


class UnknownFlow(NotFound):
    """The run began with a version that this process does not have: it is left to one that has it."""


_left: set[str] = set()


def is_news(run_uuid: object) -> bool:
    """Whether this process skips that run for the first time. The sweep tries it again and again."""
    is_first = str(run_uuid) not in _left
    _left.add(str(run_uuid))
    return is_first


def is_known(name: str, version: int) -> bool:
    """Whether this process can execute a run of that flow. A run with version 0 has not begun."""
    return any(name == known and version in (0, number) for known, number in _by_version)


def flow_of(run: WorkflowRun) -> Flow:
    """Return the flow of `run`, in the version that it began with. A run that has not begun gets the newest.

    Raises UnknownFlow.
    """
    version = run.flow_version or _newest(run.flow)
    flow = _by_version.get((run.flow, version))
    if flow is None:
        raise UnknownFlow(f"This conductor has no flow {run.flow} version {version}.")
    return flow


def takes_sets(name: str, version: int, position: int) -> bool:
    """Whether runs that are due at this position of a flow are executed together. A run with version 0 has not
    begun.
    """
    flow = _by_version.get((name, version or _newest(name)))
    if flow is None or position >= len(flow.steps):
        return False
    return isinstance(flow.steps[position], SetStep) or (version == 0 and flow.takes_sets)


def _newest(name: str) -> int:
    return max((version for known, version in _by_version if known == name), default=0)


def failpoints(flow: Flow, direction: str = "do") -> list[str]:
    """Return every point of a flow at which `crash_at` can end the process, in order. The direction is "do" or
    "undo".
    """
    steps = flow.steps if direction == "do" else tuple(step for step in reversed(flow.steps) if step.has_revert)
    places = []
    for step in steps:
        if isinstance(step, RemoteStep):
            moments: tuple[str, ...] = ("before", "sent", "answered", "after")
        else:
            moments = () if step.is_local and direction == "do" else ("before", "effect", "after")
        places += [f"{flow.name}.{direction}.{step.name}.{moment}" for moment in moments]
    return places
