"""Upload volume: its data as an image to boot others from. The volume goes on as it is."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.activate_image import ActivateImage
from conductor.workflows.steps.copy_into_image import CopyIntoImage
from conductor.workflows.steps.give_upload_back import GiveUploadUp, GiveVolumeBack

UPLOAD_VOLUME = Flow(
    "upload_volume",
    version=1,
    steps=(
        CopyIntoImage(),
        ActivateImage(),
        GiveVolumeBack(),
    ),
    on_failure=GiveUploadUp(),  # the image goes, with data or without
    on_cancel=GiveUploadUp(),
    is_retryable=False,  # the image is gone then
)
