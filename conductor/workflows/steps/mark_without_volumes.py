"""The build has failed and is undone: give its volumes back, and say so."""

from __future__ import annotations

from conductor.volume import operations
from conductor.workflows.flow import UNTIL_DONE, Result, Work
from conductor.workflows.steps import devices
from conductor.workflows.steps.mark_failed import MarkFailed


class MarkWithoutVolumes(MarkFailed):
    """Volumes made for the server go; those that were there before are free again, unless a host may still write to
    them: then they stay `detaching`, and the delete of the server frees them."""

    retry = UNTIL_DONE

    def execute(self, work: Work) -> Result:
        host = devices.kept_by(work)
        for device in work.inputs["devices"]:
            with work.fenced("default"):
                if host:
                    operations.keep_detaching(device["attachment_id"])
                else:
                    operations.let_go(device["attachment_id"], is_deleted=device["is_made"])
            operations.settle(device["volume_id"])
        return {}
