"""Build, once more, a server that never was: out of the cell where it failed, then all that a build does."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.bury_in_cell0 import BuryInCell0
from conductor.workflows.steps.create_in_cells import CreateInCells
from conductor.workflows.steps.hand_over import HandOver
from conductor.workflows.steps.leave_old_cell import LeaveOldCell
from conductor.workflows.steps.select_destinations import SelectDestinations

TRY_AGAIN = Flow(
    "try_again",
    version=1,
    steps=(
        LeaveOldCell(),  # the row goes: mapping and request, written when this was asked for, are the server by now
        SelectDestinations(),  # a fresh pass over all hosts; revert frees the claim
        CreateInCells(),  # a row in the chosen cell; the mapping gets it, the request goes
        HandOver(),  # a workflow in the cell
    ),
    on_failure=BuryInCell0(),  # in cell0 again, with the new decision as its fault
    cancellable_until=None,  # whoever does not want the server any more deletes it
)
