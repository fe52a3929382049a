"""The guest runs with its volumes: say so."""

from __future__ import annotations

from conductor.volume import operations
from conductor.workflows.flow import Result, Retry, Step, Work
from conductor.workflows.steps import instance_rows


class MarkVolumesInUse(Step):
    """No revert: giving the volumes back frees them, whether they are in use or not yet."""

    title = "Mark volumes as in use"
    lane = "Cell conductor"
    retry = Retry(tries=5)

    def execute(self, work: Work) -> Result:
        host = instance_rows.read(work).host or ""
        with work.fenced("default"):
            operations.move(work.instance_uuid, host)
            for device in work.inputs["devices"]:
                operations.complete(device["attachment_id"])
        return {}
