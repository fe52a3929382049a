"""build_in_cell with an additional first step, so that every position has another step than in the previous version."""

from __future__ import annotations

from dataclasses import replace

from conductor.workflows import catalog
from conductor.workflows.flow import Result, Step, StepContext
from conductor.workflows.flows.build import BUILD_IN_CELL

NEWER_VERSION = BUILD_IN_CELL.version + 1


class CheckRequest(Step):
    """A step that the newer release begins with."""

    title = "Check the request"
    lane = "Cell conductor"

    def execute(self, work: StepContext) -> Result:
        return {"checked": work.instance_uuid}


NEWER = replace(BUILD_IN_CELL, version=NEWER_VERSION, steps=(CheckRequest(), *BUILD_IN_CELL.steps))


def take_over() -> None:
    """New runs use the newer version, and runs that have begun keep the previous one."""
    catalog._by_version[NEWER.name, NEWER.version] = NEWER
