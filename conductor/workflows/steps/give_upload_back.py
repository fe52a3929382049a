"""The upload of a volume has ended: the volume is what it was before."""

from __future__ import annotations

from conductor.volume import messages, operations
from conductor.volume.states import UPLOADING
from conductor.workflows.flow import UNTIL_DONE, Result, Step, Work
from conductor.workflows.steps.reserve_image import discard


class GiveVolumeBack(Step):
    title = "Give volume back"

    def apply(self, work: Work, result: Result) -> None:
        _give_back(work)


class GiveUploadUp(Step):
    """No image comes of it; its asker reads why."""

    title = "Give image up"
    retry = UNTIL_DONE

    def execute(self, work: Work) -> Result:
        discard(work, work.inputs["image_id"])
        return {}

    def apply(self, work: Work, result: Result) -> None:
        _give_back(work)
        text = (work.run.error or {}).get("message") or "It was cancelled."
        messages.tell(work.context, messages.UPLOAD_FAILED, "VOLUME", work.inputs["volume_id"], text)


def _give_back(work: Work) -> None:
    operations.turn(work.inputs["volume_id"], (UPLOADING,), work.inputs["status_before"])
