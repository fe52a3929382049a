"""Filter by the number of instances on the host."""

from __future__ import annotations

from conductor.core.scheduling.count_limits import InstancesLimit


class NumInstancesFilter(InstancesLimit):
    """Keep hosts with fewer instances than `max_instances_per_host`."""

    name = "NumInstancesFilter"
