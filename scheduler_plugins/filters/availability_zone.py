"""Filter by the requested availability zone."""

from __future__ import annotations

from conductor.core.scheduling.builtin_filters import RequestedZone


class AvailabilityZoneFilter(RequestedZone):
    """Keep hosts in the requested availability zone. Without a requested zone, all hosts pass.

    The scheduler enforces the zone even where this filter is not enabled; when enabled, it runs at its place in the
    list.
    """

    name = "AvailabilityZoneFilter"
