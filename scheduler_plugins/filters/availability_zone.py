"""Is the host in the zone that was asked for?"""

from __future__ import annotations

from conductor.core.scheduling.links import RequestedZone


class AvailabilityZoneFilter(RequestedZone):
    """Drop hosts of other zones than the one asked for; without one, all pass.

    The scheduler keeps to the zone even where this filter is not enabled; enabled, it stands where the list has it.
    """

    name = "AvailabilityZoneFilter"
