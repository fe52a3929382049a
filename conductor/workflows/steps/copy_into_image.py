"""Have a volume's data as those of an image."""

from __future__ import annotations

from conductor.volume import store as volume_store
from conductor.workflows.flow import Result, Retry, Step, Work
from conductor.workflows.steps import volume_data


class CopyIntoImage(Step):
    """No revert: what was copied goes with the image."""

    title = "Copy data into image"
    retry = Retry(tries=2)

    def execute(self, work: Work) -> Result:
        volume = volume_data.existing(work.inputs["volume_id"])
        with volume_store.exported(volume.uuid, work.inputs["disk_format"]) as data:
            volume_data.store_as_image(work.inputs["image_id"], work.inputs["disk_format"], data)
        return {}
