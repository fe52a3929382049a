"""A shelved server's image was made for its return: it goes with the server."""

from __future__ import annotations

from conductor.workflows.flow import UNTIL_DONE, Result, Step, Work
from conductor.workflows.steps import instance_rows
from conductor.workflows.steps.reserve_image import discard


class RemoveShelvedImage(Step):
    """An image that its owner has protected since is left to its owner."""

    title = "Remove the shelved image"
    lane = "Cell conductor"
    retry = UNTIL_DONE

    def execute(self, work: Work) -> Result:
        image_id = instance_rows.read(work).shelved_image_id
        return {"is_gone": discard(work, image_id)} if image_id else {}
