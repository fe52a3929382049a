"""Has the host few enough instances?"""

from __future__ import annotations

from conductor.core.scheduling.count_limits import InstancesLimit


class NumInstancesFilter(InstancesLimit):
    """Keep hosts with fewer instances than `max_instances_per_host`."""

    name = "NumInstancesFilter"
