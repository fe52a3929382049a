"""Has the host few enough instances in the making, by what its aggregates say?"""

from __future__ import annotations

from conductor.core.scheduling.count_limits import BuildsLimit


class AggregateIoOpsFilter(BuildsLimit):
    """Keep hosts on which fewer instances than `max_io_ops_per_host` are being built, moved or copied.

    Of aggregates that name the option in their metadata the least counts; without one, the option does.
    """

    name = "AggregateIoOpsFilter"
    asks_aggregates = True
