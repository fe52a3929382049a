"""Give a free volume the data of an image."""

from __future__ import annotations

from conductor.core.request_spec import ImageSpec
from conductor.volume import operations, refills
from conductor.workflows.flow import Result, Retry, Step, Work
from conductor.workflows.steps import volume_data


class RefillVolume(Step):
    """Made beside the old data and put into their place at once: a copy that is cut short begins anew."""

    title = "Refill the volume"
    retry = Retry(tries=3)

    def execute(self, work: Work) -> Result:
        image = ImageSpec(**work.inputs["image"])
        volume = volume_data.existing(work.inputs["volume_id"])
        path = volume_data.readable_file(work.context, volume, image)
        refills.refill(volume.uuid, volume.size_gb, path, image.disk_format)
        return {}

    def apply(self, work: Work, result: Result) -> None:
        volume = volume_data.existing(work.inputs["volume_id"])
        operations.describe(volume, image_metadata=work.inputs["image_metadata"], is_bootable=True)
