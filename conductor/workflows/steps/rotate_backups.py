"""Remove the server's oldest backups, so that no more than asked for are kept."""

from __future__ import annotations

from conductor.image import snapshots
from conductor.workflows.flow import Result, Retry, Step, Work
from conductor.workflows.steps.reserve_image import discard


class RotateBackups(Step):
    """No revert: from here the backup is kept, and an image that is gone cannot come back.

    One that its owner protected stays, and counts.
    """

    title = "Rotate backups"
    lane = "Cell conductor"
    retry = Retry(tries=5)

    def execute(self, work: Work) -> Result:
        old = snapshots.backups_beyond(
            work.run.project_id, work.instance_uuid, work.inputs["backup_type"], work.inputs["rotation"]
        )
        removed = [image_id for image_id in old if discard(work, image_id)]
        return {"removed": removed, "kept": sorted(set(old) - set(removed))}
