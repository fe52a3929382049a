"""Keep the volume for the server: from here on nobody else gets it."""

from __future__ import annotations

from conductor.core.errors import KeptByHost
from conductor.volume import operations
from conductor.workflows.flow import Result, Retry, Step, Work
from conductor.workflows.steps import devices


class ReserveVolume(Step):
    title = "Reserve volume"
    lane = "Cell conductor"
    revert_retry = Retry(tries=3, pause_seconds=2.0)

    def execute(self, work: Work) -> Result:
        lending = devices.lending(work)
        with work.fenced("default"):
            operations.reserve(lending)
        return {}

    def revert(self, work: Work, result: Result) -> None:
        """A volume that a host may still write to is kept from everybody, and named as not given back."""
        host = devices.kept_by(work)
        if host:
            raise KeptByHost(f"Volume {work.inputs['volume_id']} stays reserved until host {host} lets it go.")
        with work.fenced("default"):
            operations.release(work.inputs["attachment_id"])
