"""Flows that rebuild a server from another image, on its host or on its root volume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from conductor.api_db.models import RequestSpecRecord
from conductor.cell_db.models import BlockDevice
from conductor.core.errors import NotFound
from conductor.core.request_spec import FlavorSpec, ImageSpec, RequestSpec
from conductor.core.states import PowerState, TaskState, VmState
from conductor.scheduler import manager
from conductor.volume import operations, refills
from conductor.volume.models import Volume
from conductor.workflows.flow import Flow, Result, RetryPolicy, Step, StepContext
from conductor.workflows.steps import instance_rows, volume_data
from conductor.workflows.steps.instance_state import EndAction, SetState
from conductor.workflows.steps.on_guest import GuestCommandStep


class CheckRebuild(Step):
    """Asks the scheduler whether the server's host can run another image; a rejection changes nothing.

    Only filters that run on rebuild judge it, and nothing is claimed. The same image fits already.
    """

    title = "Check host"
    lane = "Scheduler"
    event = "rebuild_server"

    def execute(self, work: StepContext) -> Result:
        instance = instance_rows.read(work)
        values = work.inputs["values"]
        image = ImageSpec(**(values.get("volume_image") or values["image"]))
        before = work.inputs.get("before", {}).get("image", instance.image)
        if image.image_id == before.get("image_id"):
            return {"is_asked": False}
        spec = RequestSpec(
            project_id=instance.project_id,
            user_id=instance.user_id,
            flavor=FlavorSpec(**instance.flavor),
            image=image,
            scheduler_hints=instance.scheduler_hints,
            requested_host=instance.host or "",
            requested_node=instance.node or "",
            is_rebuild=True,
        )
        manager.call_one(manager.DestinationRequest.of(work, spec, [work.instance_uuid]))
        return {"is_asked": True}


class KeepRebuiltSpec(Step):
    """Stores the new image for later moves of the server.

    No revert: the disks are new.
    """

    title = "Record new image"
    retry = RetryPolicy(max_attempts=None)
    lane = "Cell conductor"

    def execute(self, work: StepContext) -> Result:
        image = ImageSpec(**work.inputs["values"]["image"])
        with work.fenced("default"):
            record = RequestSpecRecord.objects.select_for_update().filter(instance_uuid=work.instance_uuid).first()
            if record is not None:
                spec = replace(RequestSpec.from_json(record.spec), image=image)
                RequestSpecRecord.objects.filter(pk=record.pk).update(spec=spec.to_json())
        return {}


class RefillRootVolume(Step):
    """Copies the image beside the root volume's old data, and replaces these when complete.

    An interrupted copy starts again.

    No revert: the old data are gone, so a failure from here on sets the server to error.
    """

    title = "Rebuild root volume"
    lane = "Cell conductor"
    event = "compute_rebuild_volume_backed_instance"
    retry = RetryPolicy(max_attempts=3)

    def on_start(self, work: StepContext) -> None:
        instance_rows.update(work, task_state=TaskState.REBUILD_BLOCK_DEVICE_MAPPING)

    def execute(self, work: StepContext) -> Result:
        wanted = work.inputs["values"].get("volume_image")
        if wanted is None:  # the same image, requested with an API version that then keeps the data
            return {}
        image = ImageSpec(**wanted)
        volume = _root_volume(work)
        path = volume_data.readable_file(work.context, volume, image)
        refills.refill(volume.uuid, volume.size_gb, path, image.disk_format)
        with work.fenced("default"):
            operations.describe(volume, image_metadata=work.inputs["values"]["volume_image_metadata"])
        return {"volume_id": str(volume.uuid)}


def _root_volume(work: StepContext) -> Volume:
    devices = BlockDevice.objects.using(work.alias).filter(instance_uuid=work.instance_uuid, boot_index=0)
    uuid = devices.values_list("volume_uuid", flat=True).first()
    volume = Volume.objects.filter(uuid=uuid).first() if uuid else None
    if volume is None:
        raise NotFound(f"The root volume of instance {work.instance_uuid} is gone.")
    return volume


# Values for the root volume only.
OF_VOLUME = ("volume_image", "volume_image_metadata")


class SetRebuilt(SetState):
    """Sets image, name, metadata and other requested values; a guest that was off stays off.

    Until here the row has the old name and metadata.
    """

    def __init__(self) -> None:
        super().__init__(launches=True)

    def more(self, work: StepContext) -> dict[str, Any]:
        is_off = instance_rows.read(work).vm_state == VmState.STOPPED
        values = {name: value for name, value in work.inputs["values"].items() if name not in OF_VOLUME}
        if "user_data" in work.secrets:
            values["user_data"] = work.secrets["user_data"]
        if "injected_files" in work.secrets:
            values["injected_files"] = work.secrets["injected_files"] or None
        return {
            **values,
            "vm_state": VmState.STOPPED if is_off else VmState.ACTIVE,
            "power_state": PowerState.SHUTDOWN if is_off else PowerState.RUNNING,
        }


_REBUILD_END = EndAction(breaks_at="RebuildGuest")


class EndGuestIfThere(GuestCommandStep):
    """Powers the guest off, so that nothing writes to the volume; a guest that its host has lost counts as off."""

    name = "EndGuest"

    def __init__(self) -> None:
        super().__init__("EndGuest")

    def on_error(self, work: StepContext, error: Mapping[str, Any]) -> Result | None:
        return {"is_lost": True} if error.get("class") == "GuestMissing" else None

    def revert_command(self, work: StepContext) -> Any:
        """Start a guest that was running; for a lost one, do nothing."""
        is_lost = work.run.variables.get(self.name, {}).get("is_lost", False)
        return None if is_lost else super().revert_command(work)


REBUILD_INSTANCE = Flow(
    "rebuild_instance",
    version=1,
    steps=(
        CheckRebuild(),  # another image must suit the host; nothing is lost when it does not
        GuestCommandStep("RebuildGuest"),  # no revert: the old disks are gone, so a failure from here on is an error
        KeepRebuiltSpec(),  # no revert: the request spec has the new image now
        SetRebuilt(),
    ),
    on_failure=_REBUILD_END,
    on_cancel=_REBUILD_END,
)


_ROOT_VOLUME_END = EndAction(breaks_at="RefillRootVolume")

REBUILD_ROOT_VOLUME = Flow(
    "rebuild_root_volume",
    version=1,
    steps=(
        CheckRebuild(),  # another image must suit the host; nothing is lost when it does not
        EndGuestIfThere(),  # no guest may write to the volume; revert starts a guest that ran
        RefillRootVolume(),  # no revert: the old data are gone, so a failure from here on is an error
        GuestCommandStep("RebuildGuest"),  # local disks are new too; a guest that the host has lost is built
        SetRebuilt(),
    ),
    on_failure=_ROOT_VOLUME_END,
    on_cancel=_ROOT_VOLUME_END,
)
