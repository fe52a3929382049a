"""A delete that was accepted while the instance's cell did not answer: handed over as soon as it does."""

from __future__ import annotations

from conductor.workflows.flow import Flow
from conductor.workflows.steps.open_delete import OpenDelete

DELETE_WHEN_CELL_IS_BACK = Flow(
    "delete_when_cell_is_back",
    version=1,
    steps=(OpenDelete(),),  # tries until the cell answers; from there delete_instance is responsible
    cancellable_until=None,
)
