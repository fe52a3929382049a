"""Give the root volume the data of another image."""

from __future__ import annotations

from conductor.cell_db.models import BlockDevice
from conductor.core.errors import NotFound
from conductor.core.request_spec import ImageSpec
from conductor.core.states import TaskState
from conductor.volume import operations, refills
from conductor.volume.models import Volume
from conductor.workflows.flow import Result, Retry, Step, Work
from conductor.workflows.steps import instance_rows, volume_data


class RefillRootVolume(Step):
    """Made beside the old data and put into their place at once: a copy that is cut short begins anew."""

    title = "Refill the root volume"
    lane = "Cell conductor"
    event = "compute_rebuild_volume_backed_instance"
    retry = Retry(tries=3)

    def apply_start(self, work: Work) -> None:
        instance_rows.update(work, task_state=TaskState.REBUILD_BLOCK_DEVICE_MAPPING)

    def execute(self, work: Work) -> Result:
        wanted = work.inputs["values"].get("volume_image")
        if wanted is None:  # the same image, asked for in a version that keeps the data then
            return {}
        image = ImageSpec(**wanted)
        volume = _root_volume(work)
        path = volume_data.readable_file(work.context, volume, image)
        refills.refill(volume.uuid, volume.size_gb, path, image.disk_format)
        with work.fenced("default"):
            operations.describe(volume, image_metadata=work.inputs["values"]["volume_image_metadata"])
        return {"volume_id": str(volume.uuid)}


def _root_volume(work: Work) -> Volume:
    devices = BlockDevice.objects.using(work.alias).filter(instance_uuid=work.instance_uuid, boot_index=0)
    uuid = devices.values_list("volume_uuid", flat=True).first()
    volume = Volume.objects.filter(uuid=uuid).first() if uuid else None
    if volume is None:
        raise NotFound(f"The root volume of instance {work.instance_uuid} is gone.")
    return volume
