"""Filter by the number of builds and moves on the host, with limits of its aggregates."""

from __future__ import annotations

from conductor.core.scheduling.count_limits import BuildsLimit


class AggregateIoOpsFilter(BuildsLimit):
    """Keep hosts with fewer than max_io_ops_per_host instances being built, moved or copied.

    Of aggregates that name the option in their metadata the least counts; without one, the option does.
    """

    name = "AggregateIoOpsFilter"
    asks_aggregates = True
