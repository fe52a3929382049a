"""The filters and weighers that ship, in the order in which they run."""

from __future__ import annotations

from collections.abc import Sequence

from conductor.core.filter import Filter
from conductor.core.weigher import Weigher
from conductor.hookspecs import hookimpl
from scheduler_plugins.filters.availability_zone import AvailabilityZoneFilter
from scheduler_plugins.filters.compute_capabilities import ComputeCapabilitiesFilter
from scheduler_plugins.filters.compute_status import ComputeFilter
from scheduler_plugins.filters.different_host import DifferentHostFilter
from scheduler_plugins.filters.image_properties import ImagePropertiesFilter
from scheduler_plugins.filters.same_host import SameHostFilter
from scheduler_plugins.filters.server_group_affinity import ServerGroupAffinityFilter
from scheduler_plugins.filters.server_group_anti_affinity import ServerGroupAntiAffinityFilter
from scheduler_plugins.weighers.cpu import CPUWeigher
from scheduler_plugins.weighers.disk import DiskWeigher
from scheduler_plugins.weighers.io_ops import IoOpsWeigher
from scheduler_plugins.weighers.ram import RAMWeigher
from scheduler_plugins.weighers.soft_affinity import ServerGroupSoftAffinityWeigher, ServerGroupSoftAntiAffinityWeigher


@hookimpl
def register_filters() -> Sequence[type[Filter]]:
    return (
        ComputeFilter,  # a dead host is out whatever else it offers
        AvailabilityZoneFilter,
        ComputeCapabilitiesFilter,
        ImagePropertiesFilter,
        SameHostFilter,
        DifferentHostFilter,
        ServerGroupAntiAffinityFilter,  # groups last: they are asked again for each instance of a request
        ServerGroupAffinityFilter,
    )


@hookimpl
def register_weighers() -> Sequence[type[Weigher]]:
    return (
        RAMWeigher,
        CPUWeigher,
        DiskWeigher,
        IoOpsWeigher,
        ServerGroupSoftAffinityWeigher,
        ServerGroupSoftAntiAffinityWeigher,
    )
