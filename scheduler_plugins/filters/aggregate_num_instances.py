"""Filter by the number of instances on the host, with limits of its aggregates."""

from __future__ import annotations

from conductor.core.scheduling.count_limits import InstancesLimit


class AggregateNumInstancesFilter(InstancesLimit):
    """Keep hosts with fewer instances than `max_instances_per_host`.

    Of aggregates that name the option in their metadata the least counts; without one, the option does.
    """

    name = "AggregateNumInstancesFilter"
    asks_aggregates = True
