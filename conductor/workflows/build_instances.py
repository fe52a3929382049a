"""Build, at the API level: choose hosts once for the whole request, create the instances in their cells, hand over."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.bury_in_cell0 import BuryInCell0
from conductor.workflows.steps.create_in_cells import CreateInCells
from conductor.workflows.steps.hand_over import HandOver
from conductor.workflows.steps.select_destinations import SelectDestinations

BUILD_INSTANCES = Flow(
    "build_instances",
    version=1,
    steps=(
        SelectDestinations(),  # one pass for all; claims in placement; revert frees the claims
        CreateInCells(),  # rows in the chosen cells; mappings get their cell, the build requests go
        HandOver(),  # one workflow per instance, in its cell
    ),
    on_cancel=BuryInCell0(),
    on_failure=BuryInCell0(),  # never got a host: kept in cell0 in error, with the decision as its fault
    cancellable_until="CreateInCells",
    is_retryable=False,  # the request is closed when it fails, and its instances are in cell0
)
