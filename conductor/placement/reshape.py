"""Changing what providers have together with who holds it, as when a part of a host becomes a provider of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conductor.core.errors import Invalid, NotFound
from conductor.core.placement.amounts import Amount
from conductor.placement import codes, inventories
from conductor.placement.changes import ALIAS, touch
from conductor.placement.consumers_allocations import ConsumerAllocations, replace_all
from conductor.placement.models import ResourceProvider
from conductor.placement.provider_rows import held
from conductor.transactions import retried, write_tx

Stocks = Mapping[str, tuple[int, Mapping[str, Amount]]]  # provider uuid → its generation, and all that it shall have


@retried
def reshape(stocks: Stocks, wished: Sequence[ConsumerAllocations]) -> None:
    """Replace inventories and allocations in one transaction: what is held may change its place.

    Raises Invalid, ConcurrentUpdate or Conflict as the writing of either alone does.
    """
    with write_tx(ALIAS):
        rows = _held_rows(stocks)
        # What is new must be there before it is held; what goes can go when nobody holds it any more.
        for row in rows.values():
            inventories.write(row, stocks[str(row.uuid)][1])
        touch(row.pk for row in rows.values())  # each of the three writings counts, as clients count them
        if wished:
            replace_all(wished)
        for row in rows.values():
            kept = stocks[str(row.uuid)][1]
            inventories.drop(row, set(row.inventories.values_list("resource_class", flat=True)) - kept.keys())
        touch(row.pk for row in rows.values())


def _held_rows(stocks: Stocks) -> dict[int, ResourceProvider]:
    """Rows by id, locked in the order of their ids, as all writers do."""
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
