"""Changes inventories together with allocations, as when a part of a host becomes a provider of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conductor.core.errors import Invalid, NotFound
from conductor.core.placement.amounts import Amount
from conductor.db.transactions import retried, write_tx
from conductor.placement import codes, inventories
from conductor.placement.changes import ALIAS, touch
from conductor.placement.consumers_allocations import ConsumerAllocations, replace_all
from conductor.placement.models import ResourceProvider
from conductor.placement.provider_rows import held

Stocks = Mapping[str, tuple[int, Mapping[str, Amount]]]  # provider uuid → its generation, and its whole new inventory


@retried
def reshape(stocks: Stocks, requested: Sequence[ConsumerAllocations]) -> None:
    """Replace inventories and allocations in one transaction, so that allocations may move between providers.

    Raises Invalid, ConcurrentUpdate or Conflict as the writing of either alone does.
    """
    with write_tx(ALIAS):
        rows = _held_rows(stocks)
        # New inventory must exist before its allocations; old inventory can go once it has none.
        for row in rows.values():
            inventories.write(row, stocks[str(row.uuid)][1])
        touch(row.pk for row in rows.values())  # each of the three writes counts, as clients expect
        if requested:
            replace_all(requested)
        for row in rows.values():
            kept = stocks[str(row.uuid)][1]
            inventories.drop(row, set(row.inventories.values_list("resource_class", flat=True)) - kept.keys())
        touch(row.pk for row in rows.values())


def _held_rows(stocks: Stocks) -> dict[int, ResourceProvider]:
    """Return rows by id, locked in the order of their ids, as all writers do."""
    known = ResourceProvider.objects.filter(uuid__in=list(stocks)).order_by("pk").select_for_update()
    ids = {str(row.uuid): row.pk for row in known}
    rows = {}
    for uuid, (generation, _) in stocks.items():
        try:
            row = held(uuid, generation)
        except NotFound as error:
            raise Invalid(
                f"There is no resource provider {uuid} whose inventory could be changed.",
                field=f"inventories.{uuid}",
                code=codes.PROVIDER_NOT_FOUND,
            ) from error
        rows[ids[uuid]] = row
    return rows
