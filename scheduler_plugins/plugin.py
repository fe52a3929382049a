"""The filters and weighers that ship, in the order in which they run."""

from __future__ import annotations

from collections.abc import Sequence

from conductor.core.filter import Filter
from conductor.core.weigher import Weigher
from conductor.hookspecs import hookimpl
from scheduler_plugins.filters.aggregate_flavors import AggregateTypeAffinityFilter
from scheduler_plugins.filters.aggregate_image_properties import AggregateImagePropertiesIsolation
from scheduler_plugins.filters.aggregate_instance_extra_specs import AggregateInstanceExtraSpecsFilter
from scheduler_plugins.filters.aggregate_io_ops import AggregateIoOpsFilter
from scheduler_plugins.filters.aggregate_num_instances import AggregateNumInstancesFilter
from scheduler_plugins.filters.aggregate_tenants import AggregateMultiTenancyIsolation
from scheduler_plugins.filters.all_hosts import AllHostsFilter
from scheduler_plugins.filters.availability_zone import AvailabilityZoneFilter
from scheduler_plugins.filters.cidr_affinity import SimpleCIDRAffinityFilter
from scheduler_plugins.filters.compute_capabilities import ComputeCapabilitiesFilter
from scheduler_plugins.filters.compute_status import ComputeFilter
from scheduler_plugins.filters.different_host import DifferentHostFilter
from scheduler_plugins.filters.image_properties import ImagePropertiesFilter
from scheduler_plugins.filters.io_ops import IoOpsFilter
from scheduler_plugins.filters.isolated_hosts import IsolatedHostsFilter
from scheduler_plugins.filters.json_query import JsonFilter
from scheduler_plugins.filters.metrics import MetricsFilter
from scheduler_plugins.filters.num_instances import NumInstancesFilter
from scheduler_plugins.filters.numa_topology import NUMATopologyFilter
from scheduler_plugins.filters.pci_passthrough import PciPassthroughFilter
from scheduler_plugins.filters.same_host import SameHostFilter
from scheduler_plugins.filters.server_group_affinity import ServerGroupAffinityFilter
from scheduler_plugins.filters.server_group_anti_affinity import ServerGroupAntiAffinityFilter
from scheduler_plugins.weighers.build_failure import BuildFailureWeigher
from scheduler_plugins.weighers.cpu import CPUWeigher
from scheduler_plugins.weighers.cross_cell import CrossCellWeigher
from scheduler_plugins.weighers.disk import DiskWeigher
from scheduler_plugins.weighers.hypervisor_version import HypervisorVersionWeigher
from scheduler_plugins.weighers.image_properties import ImagePropertiesWeigher
from scheduler_plugins.weighers.io_ops import IoOpsWeigher
from scheduler_plugins.weighers.metrics import MetricsWeigher
from scheduler_plugins.weighers.num_instances import NumInstancesWeigher
from scheduler_plugins.weighers.pci import PCIWeigher
from scheduler_plugins.weighers.ram import RAMWeigher
from scheduler_plugins.weighers.soft_affinity import ServerGroupSoftAffinityWeigher, ServerGroupSoftAntiAffinityWeigher


@hookimpl
def register_filters() -> Sequence[type[Filter]]:
    return (
        AllHostsFilter,
        ComputeFilter,  # a dead host is never a candidate
        AvailabilityZoneFilter,
        ComputeCapabilitiesFilter,
        ImagePropertiesFilter,
        IsolatedHostsFilter,
        AggregateInstanceExtraSpecsFilter,
        AggregateImagePropertiesIsolation,
        AggregateMultiTenancyIsolation,
        AggregateTypeAffinityFilter,
        SameHostFilter,
        DifferentHostFilter,
        SimpleCIDRAffinityFilter,
        MetricsFilter,
        JsonFilter,
        IoOpsFilter,
        AggregateIoOpsFilter,
        NumInstancesFilter,
        AggregateNumInstancesFilter,
        PciPassthroughFilter,
        NUMATopologyFilter,  # the most expensive, so it runs only on hosts that passed all others
        ServerGroupAntiAffinityFilter,  # groups last: they run again for each instance of a request
        ServerGroupAffinityFilter,
    )


@hookimpl
def register_weighers() -> Sequence[type[Weigher]]:
    return (
        RAMWeigher,
        CPUWeigher,
        DiskWeigher,
        IoOpsWeigher,
        NumInstancesWeigher,
        ServerGroupSoftAffinityWeigher,
        ServerGroupSoftAntiAffinityWeigher,
        PCIWeigher,
        BuildFailureWeigher,
        HypervisorVersionWeigher,
        CrossCellWeigher,
        ImagePropertiesWeigher,
        MetricsWeigher,
    )
