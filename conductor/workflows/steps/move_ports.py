"""Bind the instance's ports to the host that it is on now, and back again."""

from __future__ import annotations

from conductor.core.states import TaskState
from conductor.network import ports
from conductor.volume import operations as volumes
from conductor.workflows.flow import UNTIL_DONE, Result, Step, Work
from conductor.workflows.steps import instance_rows, move_rows


class MovePorts(Step):
    title = "Move ports"
    lane = "Cell conductor"
    event = "compute_migrate_instance_finish"

    def execute(self, work: Work) -> Result:
        bind(work, move_rows.read(work).destination_host or "")
        return {}

    def revert(self, work: Work, result: Result) -> None:
        bind(work, move_rows.read(work).source_host)


class MovePortsWithGuest(MovePorts):
    """The guest is there already: its ports follow, and nothing goes back."""

    name = "MovePortsWithGuest"
    retry = UNTIL_DONE

    def revert(self, work: Work, result: Result) -> None:
        """Nothing: this step is only reached when there is no way back."""

    @property
    def has_revert(self) -> bool:
        return False


class MovePortsOut(MovePorts):
    """Of a guest that is off: between its two hosts its disks are on their way."""

    name = "MovePortsOut"

    def apply_start(self, work: Work) -> None:
        instance_rows.update(work, task_state=TaskState.RESIZE_MIGRATED)


class MovePortsBack(MovePorts):
    """To the source, which the instance goes back to."""

    name = "MovePortsBack"
    title = "Move ports back"

    def execute(self, work: Work) -> Result:
        bind(work, move_rows.read(work).source_host)
        return {}

    def revert(self, work: Work, result: Result) -> None:
        bind(work, move_rows.read(work).destination_host or "")


def bind(work: Work, host: str) -> None:
    """Have every port and volume of the instance be on `host`."""
    zone = instance_rows.read(work).availability_zone
    with work.fenced("default"):
        ports.bind(work.instance_uuid, host, f"compute:{zone}")
        volumes.move(work.instance_uuid, host)
