"""Take over what the host has stored: the image is ready."""

from __future__ import annotations

from conductor.image import snapshots
from conductor.workflows.flow import Result, Retry, Step, Work


class ActivateImage(Step):
    """No revert: the reservation's takes the image away, with data or without."""

    title = "Activate image"
    lane = "Cell conductor"
    retry = Retry(tries=3)

    def execute(self, work: Work) -> Result:
        with work.fenced("default"):
            return snapshots.activate(work.inputs["image_id"])
