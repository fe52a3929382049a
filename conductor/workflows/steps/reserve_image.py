"""Have an image that waits for the server's data."""

from __future__ import annotations

from conductor.image import snapshots
from conductor.workflows.flow import Result, Step, Work


class ReserveImage(Step):
    """Whoever asked for it made it already, unless they died before: its uuid was chosen then."""

    title = "Reserve image"
    lane = "Cell conductor"

    def execute(self, work: Work) -> Result:
        with work.fenced("default"):
            snapshots.reserve(work.inputs["image_id"], work.run.project_id, work.inputs["image"])
        return {"image_id": work.inputs["image_id"]}

    def revert(self, work: Work, result: Result) -> None:
        discard(work, work.inputs["image_id"])


def discard(work: Work, image_id: str) -> bool:
    """Remove an image with its data; False for one that its owner protected."""
    with work.fenced("default"):
        is_gone = snapshots.discard(image_id)
    if is_gone:
        snapshots.drop_data(image_id)
    return is_gone
