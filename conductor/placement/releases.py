"""Giving back what consumers hold, by hand: every server that goes does it, in seven statements of constant shape.

The ORM would read each row first to see what hangs on it; what does is named here, and a test compares it with the
models.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db import connections

from conductor.placement.changes import ALIAS, touch
from conductor.sql.dialect import Rows, padded, places, run

HANGING = ("placement_hardwareclaim", "placement_allocation")  # on a consumer
_CONSUMERS = "SELECT id FROM placement_consumer WHERE uuid IN ({places}) ORDER BY id {for update}"
_PROVIDERS = """
SELECT id FROM placement_resourceprovider
WHERE id IN (SELECT provider_id FROM placement_allocation WHERE consumer_id IN ({places})) ORDER BY id {for update}
"""
_GIVE_BACK = """
UPDATE placement_inventory SET used = used - held.amount
FROM (
    SELECT provider_id, resource_class, SUM(amount) AS amount FROM placement_allocation
    WHERE consumer_id IN ({places}) GROUP BY provider_id, resource_class
) AS held
WHERE placement_inventory.provider_id = held.provider_id AND placement_inventory.resource_class = held.resource_class
"""


def release_some(uuids: Sequence[str]) -> int:
    """Give back all that these consumers hold, as many as fit one statement; counts those that were there.

    Inside a write transaction. Rows are locked in the order of their ids, consumers before providers.
    """
    # Only of those that are held: one that came a moment later may be another writer's, who waits for a provider.
    consumers = _ids(_CONSUMERS, [UUID(uuid).hex for uuid in uuids])
    if not consumers:
        return 0
    providers = _ids(_PROVIDERS, consumers)
    _among(_GIVE_BACK, consumers)
    for table in HANGING:
        _among(f"DELETE FROM {table} WHERE consumer_id IN ({{places}})", consumers)
    _among("DELETE FROM placement_consumer WHERE id IN ({places})", consumers)
    # What is given back can spoil nobody's plan: clients of placement find the generation as they read it.
    touch(providers, raises_generation=False)
    return len(consumers)


def _ids(template: str, values: Sequence[str | int]) -> list[int]:
    return [pk for (pk,) in _among(template, values)]


def _among(template: str, values: Sequence[str | int]) -> Rows:
    """Execute a statement about these values, where it says `{places}`."""
    asked = padded(values)
    return run(connections[ALIAS], template.replace("{places}", places(asked)), asked)
