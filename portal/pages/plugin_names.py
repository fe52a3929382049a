"""Display names of built-in plugins; other plugins are named by their class."""

from __future__ import annotations

import re
from collections.abc import Mapping

from django.utils.translation import gettext

PLUGIN_NAMES: Mapping[str, str] = {
    "closed_cells": "Closed cells",
    "placement": "Placement",
    "requested_cell": "Requested cell",
    "requested_hosts": "Requested hosts",
    "move_range": "Possible destinations",
    "hardware": "Hardware",
    "ComputeFilter": "Compute service",
    "AvailabilityZoneFilter": "Availability zone",
    "ComputeCapabilitiesFilter": "Compute capabilities",
    "ImagePropertiesFilter": "Image properties",
    "ImagePropertiesWeigher": "Image properties",
    "SameHostFilter": "Same host",
    "DifferentHostFilter": "Different host",
    "ServerGroupAffinityFilter": "Server group affinity",
    "ServerGroupAntiAffinityFilter": "Server group anti-affinity",
    "NUMATopologyFilter": "NUMA topology",
    "PciPassthroughFilter": "PCI devices",
    "PCIWeigher": "PCI devices",
    "IsolatedHostsFilter": "Isolated hosts",
    "IoOpsFilter": "Work in progress",
    "IoOpsWeigher": "Work in progress",
    "NumInstancesFilter": "Number of servers",
    "NumInstancesWeigher": "Number of servers",
    "BuildFailureWeigher": "Build failures",
    "CPUWeigher": "Free vCPU",
    "RAMWeigher": "Free memory",
    "DiskWeigher": "Free disk",
    "CrossCellWeigher": "Same cell",
    "HypervisorVersionWeigher": "Hypervisor version",
    "ServerGroupSoftAffinityWeigher": "Soft affinity",
    "ServerGroupSoftAntiAffinityWeigher": "Soft anti-affinity",
}


def words(name: str) -> str:
    """ServerGroupAffinityFilter → Server group affinity, RackFilter → Rack."""
    if name in PLUGIN_NAMES:
        return gettext(PLUGIN_NAMES[name])
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name).replace("_", " ")
    first, *rest = re.sub(r"(?<=.) (filter|weigher)$", "", parted, flags=re.IGNORECASE).split(" ")
    return " ".join([first if first.isupper() else first.capitalize(), *(word.lower() for word in rest)])
