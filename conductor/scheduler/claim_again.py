"""A claim for an instance that lives on a host already and holds nothing there."""

from __future__ import annotations

from conductor.cell_db.models import Instance
from conductor.core.scheduling.needs import needs_of
from conductor.core.scheduling.select import selection_of
from conductor.placement import allocations
from conductor.placement.allocations import Claim
from conductor.scheduler import move_specs
from conductor.scheduler.host_manager import host_manager


def claim_at(instance: Instance, provider_uuid: str) -> None:
    """Claim what the instance needs of its host's providers.

    Raises ProviderFull where others have taken the room meanwhile, ConsumerHolds where somebody was quicker.
    """
    needs = needs_of(move_specs.asked(instance))
    parts = {provider_uuid: dict(needs.resources)}
    table = host_manager.snapshot().table
    for row, state in enumerate(table.states):
        if state.provider_uuid == provider_uuid:
            parts = selection_of(table, row, needs).parts
    allocations.claim_many(
        [
            Claim(str(instance.uuid), provider, amounts, instance.project_id, instance.user_id)
            for provider, amounts in parts.items()
        ]
    )
