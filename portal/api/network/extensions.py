"""The extensions of the network API that work here. Clients rely on this list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Extension:
    """An extension by the alias that clients look for."""

    alias: str
    name: str
    description: str
    updated: str = "2026-11-21T00:00:00-00:00"

    def to_json(self) -> dict[str, Any]:
        return {
            "alias": self.alias,
            "name": self.name,
            "description": self.description,
            "updated": self.updated,
            "links": [],
        }


EXTENSIONS = (
    Extension("address-scope", "Address scopes", "Groups pools whose prefixes never overlap."),
    Extension("allowed-address-pairs", "Allowed address pairs", "Keeps further addresses that a port may use."),
    Extension(
        "auto-allocated-topology",
        "Automatic topologies",
        "Makes a project a network with a way out when it asks for any.",
    ),
    Extension("availability_zone", "Availability Zone", "Shows the zones of networks and routers."),
    Extension("binding", "Port Binding", "Shows administrators the host that a port is plugged on."),
    Extension("default-subnetpools", "Default subnet pools", "Cuts subnets from the default pool of an IP version."),
    Extension("ext-gw-mode", "Gateway translation", "Keeps whether a router translates addresses on the way out."),
    Extension("external-net", "External networks", "Marks networks that routers go out by and floating IPs come from."),
    Extension("extra_dhcp_opt", "Extra DHCP options", "Keeps the DHCP options of a port's guest."),
    Extension("extraroute", "Extra routes", "Keeps routes of routers by neighbours on their subnets."),
    Extension("extraroute-atomic", "Atomic extra routes", "Adds and removes single routes."),
    Extension("fip-port-details", "Ports of floating IPs", "Shows with a floating IP the port that it leads to."),
    Extension("ip-substring-filtering", "Addresses by substring", "Finds ports by a part of an address."),
    Extension("net-mtu", "Network MTU", "Shows the MTU of a network."),
    Extension("net-mtu-writable", "Writable MTU", "Lets the owner choose the MTU of a network."),
    Extension("network-ip-availability", "Room on networks", "Shows administrators how many addresses are held."),
    Extension("network_availability_zone", "Network zones", "Lets networks hint at zones."),
    Extension("pagination", "Pagination", "Lists come in pages by limit and marker."),
    Extension("port-security", "Port security", "Keeps whether groups and address pairs hold for a port."),
    Extension("project-id", "project_id field", "Every object names its project twice."),
    Extension("provider", "Provider networks", "Lets administrators say what a network lies on."),
    Extension("quotas", "Quotas", "Limits how much a project may have; administrators change the limits."),
    Extension("quota-check-limit", "Checked quotas", "Refuses limits below what a project has."),
    Extension("quota_details", "Quota details", "Shows how much of its quotas a project uses."),
    Extension("rbac-policies", "RBAC policies", "Shares networks with some projects."),
    Extension("revision-if-match", "Conditional changes", "Changes what has not changed since it was looked at."),
    Extension("router", "Routers", "Keeps routers and floating IPs with real addresses; no traffic is routed yet."),
    Extension("router_availability_zone", "Router zones", "Lets routers hint at zones."),
    Extension("security-group", "Security groups", "Keeps groups and rules; traffic is not filtered yet."),
    Extension("security-groups-normalized-cidr", "Normalized ranges", "Shows the range of a rule in its one spelling."),
    Extension("service-type", "Service types", "Lists providers of services; there are none to choose from."),
    Extension("sorting", "Sorting", "Lists can be sorted by sort_key and sort_dir."),
    Extension("standard-attr-description", "Descriptions", "Objects have a description."),
    Extension("standard-attr-revisions", "Revision numbers", "Every change of an object is counted."),
    Extension("standard-attr-tag", "Tags", "Objects can be labelled, and found by their labels."),
    Extension("standard-attr-timestamp", "Timestamps", "Objects show when they were created and changed."),
    Extension("stateful-security-group", "Stateful groups", "Keeps whether a group follows connections."),
    Extension("subnet-external-network", "Subnets outside", "Shows the subnets of external networks to all users."),
    Extension("subnet-service-types", "Service subnets", "Keeps subnets for the ports of certain devices."),
    Extension("subnet_allocation", "Subnet allocation", "Cuts subnets from pools."),
    Extension("tag-ports-during-bulk-creation", "Tagged new ports", "Gives ports their tags as they are made."),
)
