"""Release of allocations: every deleted server needs it; seven statements of constant form."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connections

from conductor.placement import statements
from conductor.placement.changes import ALIAS, touch


def release_some(uuids: Sequence[str]) -> int:
    """Release all allocations of these consumers, as many as fit one statement. Return how many consumers existed.

    Inside a write transaction. Rows are locked in the order of their ids, consumers before providers.
    """
    # Only the locked rows: a consumer created a moment later may belong to another writer, which waits for a provider.
    connection = connections[ALIAS]
    consumers = statements.lock_consumers(connection, uuids)
    if not consumers:
        return 0
    providers = statements.lock_providers_of(connection, consumers)
    statements.give_back(connection, consumers)
    statements.delete_consumers(connection, consumers)
    # A release invalidates no client's plan: clients of placement get the generation when they read.
    touch(providers, raises_generation=False)
    return len(consumers)
