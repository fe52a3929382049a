"""Every flow, by name and version: a run ends on the version that it began with."""

from __future__ import annotations

from conductor.core.errors import NotFound
from conductor.journal.models import WorkflowRun
from conductor.workflows.abort_live_migration import ABORT_LIVE_MIGRATION
from conductor.workflows.attach_interface import ATTACH_INTERFACE
from conductor.workflows.attach_volume import ATTACH_VOLUME
from conductor.workflows.backup_volume import BACKUP_VOLUME
from conductor.workflows.build_from_volumes import BUILD_FROM_VOLUMES
from conductor.workflows.build_in_cell import BUILD_IN_CELL
from conductor.workflows.build_instances import BUILD_INSTANCES
from conductor.workflows.change_password import CHANGE_PASSWORD
from conductor.workflows.confirm_resize import CONFIRM_RESIZE
from conductor.workflows.create_backup import CREATE_BACKUP
from conductor.workflows.create_image import CREATE_IMAGE
from conductor.workflows.create_image_of_volumes import CREATE_IMAGE_OF_VOLUMES
from conductor.workflows.create_snapshot import CREATE_SNAPSHOT
from conductor.workflows.create_volume import CREATE_VOLUME
from conductor.workflows.delete_instance import DELETE_INSTANCE
from conductor.workflows.delete_when_cell_is_back import DELETE_WHEN_CELL_IS_BACK
from conductor.workflows.detach_interface import DETACH_INTERFACE
from conductor.workflows.detach_volume import DETACH_VOLUME
from conductor.workflows.drain_host import DRAIN_HOST
from conductor.workflows.evacuate_instance import EVACUATE_INSTANCE
from conductor.workflows.extend_volume import EXTEND_VOLUME
from conductor.workflows.flow import Flow, RemoteStep
from conductor.workflows.force_live_migration import FORCE_LIVE_MIGRATION
from conductor.workflows.hard_reboot_instance import HARD_REBOOT_INSTANCE
from conductor.workflows.live_migrate_instance import LIVE_MIGRATE_INSTANCE
from conductor.workflows.offload_instance import OFFLOAD_INSTANCE
from conductor.workflows.pause_instance import PAUSE_INSTANCE
from conductor.workflows.reboot_instance import REBOOT_INSTANCE
from conductor.workflows.rebuild_instance import REBUILD_INSTANCE
from conductor.workflows.rebuild_root_volume import REBUILD_ROOT_VOLUME
from conductor.workflows.reimage_volume import REIMAGE_VOLUME
from conductor.workflows.rescue_instance import RESCUE_INSTANCE
from conductor.workflows.resize_instance import RESIZE_INSTANCE
from conductor.workflows.restore_backup import RESTORE_BACKUP
from conductor.workflows.restore_instance import RESTORE_INSTANCE
from conductor.workflows.resume_instance import RESUME_INSTANCE
from conductor.workflows.revert_resize import REVERT_RESIZE
from conductor.workflows.revert_volume import REVERT_VOLUME
from conductor.workflows.shelve_instance import SHELVE_INSTANCE
from conductor.workflows.shelve_with_root_volume import SHELVE_WITH_ROOT_VOLUME
from conductor.workflows.soft_delete_instance import SOFT_DELETE_INSTANCE
from conductor.workflows.start_instance import START_INSTANCE
from conductor.workflows.steer_live_migration import STEER_LIVE_MIGRATION
from conductor.workflows.stop_instance import STOP_INSTANCE
from conductor.workflows.suspend_instance import SUSPEND_INSTANCE
from conductor.workflows.swap_volume import SWAP_VOLUME
from conductor.workflows.trigger_crash_dump import TRIGGER_CRASH_DUMP
from conductor.workflows.try_again import TRY_AGAIN
from conductor.workflows.try_host import TRY_HOST
from conductor.workflows.unpause_instance import UNPAUSE_INSTANCE
from conductor.workflows.unrescue_instance import UNRESCUE_INSTANCE
from conductor.workflows.unshelve_instance import UNSHELVE_INSTANCE
from conductor.workflows.upload_volume import UPLOAD_VOLUME

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

# Flows as earlier releases knew them: each stays until no run that began on it is left anywhere (`manage.py
# upgrade_check`). A flow whose steps change gets the next version; what it was comes here.
PREVIOUS: tuple[Flow, ...] = ()

_by_version = {(flow.name, flow.version): flow for flow in (*FLOWS, *PREVIOUS)}


class UnknownFlow(NotFound):
    """The run began on a version that this process does not have: it is left to one that has it."""


_left: set[str] = set()


def is_news(run_uuid: object) -> bool:
    """Whether this process leaves that run for the first time: the sweep asks again and again."""
    is_first = str(run_uuid) not in _left
    _left.add(str(run_uuid))
    return is_first


def is_known(name: str, version: int) -> bool:
    """Whether this process can go on with a run of that flow; version 0 has not begun."""
    return any(name == known and version in (0, number) for known, number in _by_version)


def flow_of(run: WorkflowRun) -> Flow:
    """The flow that `run` follows: the version it began with, or the newest for one that has not begun.

    Raises UnknownFlow.
    """
    version = run.flow_version or _newest(run.flow)
    flow = _by_version.get((run.flow, version))
    if flow is None:
        raise UnknownFlow(f"This conductor has no flow {run.flow} version {version}.")
    return flow


def _newest(name: str) -> int:
    return max((version for known, version in _by_version if known == name), default=0)


def failpoints(flow: Flow, direction: str = "do") -> list[str]:
    """Every place of a flow's way forward ("do") or back ("undo") at which `crash_at` can end the process, in order."""
    steps = flow.steps if direction == "do" else tuple(step for step in reversed(flow.steps) if step.has_revert)
    places = []
    for step in steps:
        if isinstance(step, RemoteStep):
            moments: tuple[str, ...] = ("before", "sent", "answered", "after")
        else:
            moments = () if step.is_local and direction == "do" else ("before", "effect", "after")
        places += [f"{flow.name}.{direction}.{step.name}.{moment}" for moment in moments]
    return places
