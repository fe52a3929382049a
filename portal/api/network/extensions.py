"""The extensions of the network API that work here. Clients rely on this list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class NetworkExtension:
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
    NetworkExtension("address-scope", "Address scopes", "Groups pools whose prefixes never overlap."),
    NetworkExtension("allowed-address-pairs", "Allowed address pairs", "Keeps further addresses that a port may use."),
    NetworkExtension(
        "auto-allocated-topology",
        "Automatic topologies",
        "Makes a project a network with a way out when it asks for any.",
    ),
    NetworkExtension("availability_zone", "Availability Zone", "Shows the zones of networks and routers."),
    NetworkExtension("binding", "Port Binding", "Shows administrators the host that a port is plugged on."),
    NetworkExtension(
        "default-subnetpools", "Default subnet pools", "Cuts subnets from the default pool of an IP version."
    ),
    NetworkExtension(
        "dns-integration", "DNS names", "Gives ports names, their servers' by default, that resolve on their network."
    ),
    NetworkExtension(
        "ext-gw-mode", "Gateway translation", "Keeps whether a router translates addresses on the way out."
    ),
    NetworkExtension(
        "external-net", "External networks", "Marks networks that routers go out by and floating IPs come from."
    ),
    NetworkExtension("extra_dhcp_opt", "Extra DHCP options", "Keeps the DHCP options of a port's guest."),
    NetworkExtension("extraroute", "Extra routes", "Keeps routes of routers by neighbours on their subnets."),
    NetworkExtension("extraroute-atomic", "Atomic extra routes", "Adds and removes single routes."),
    NetworkExtension(
        "fip-port-details", "Ports of floating IPs", "Shows with a floating IP the port that it leads to."
    ),
    NetworkExtension("ip-substring-filtering", "Addresses by substring", "Finds ports by a part of an address."),
    NetworkExtension("net-mtu", "Network MTU", "Shows the MTU of a network."),
    NetworkExtension("net-mtu-writable", "Writable MTU", "Lets the owner choose the MTU of a network."),
    NetworkExtension(
        "network-ip-availability", "Room on networks", "Shows administrators how many addresses are held."
    ),
    NetworkExtension("network_availability_zone", "Network zones", "Lets networks hint at zones."),
    NetworkExtension("pagination", "Pagination", "Lists come in pages by limit and marker."),
    NetworkExtension("port-security", "Port security", "Keeps whether groups and address pairs hold for a port."),
    NetworkExtension("project-id", "project_id field", "Every object names its project twice."),
    NetworkExtension("provider", "Provider networks", "Lets administrators say what a network lies on."),
    NetworkExtension("qos", "Quality of service", "Limits the bandwidth of ports and of the ports of networks."),
    NetworkExtension(
        "qos-bw-limit-direction", "Directions of limits", "Limits what guests send, and what they receive."
    ),
    NetworkExtension(
        "qos-port-network-policy", "Policy of the network", "Shows with a port the policy of its network."
    ),
    NetworkExtension("quotas", "Quotas", "Limits how much a project may have; administrators change the limits."),
    NetworkExtension("quota-check-limit", "Checked quotas", "Refuses limits below what a project has."),
    NetworkExtension("quota_details", "Quota details", "Shows how much of its quotas a project uses."),
    NetworkExtension("rbac-policies", "RBAC policies", "Shares networks with some projects."),
    NetworkExtension(
        "revision-if-match", "Conditional changes", "Changes what has not changed since it was looked at."
    ),
    NetworkExtension(
        "router", "Routers", "Keeps routers and floating IPs with real addresses; no traffic is routed yet."
    ),
    NetworkExtension("router_availability_zone", "Router zones", "Lets routers hint at zones."),
    NetworkExtension("security-group", "Security groups", "Keeps groups and rules; traffic is not filtered yet."),
    NetworkExtension(
        "security-groups-normalized-cidr", "Normalized ranges", "Shows the range of a rule in its one spelling."
    ),
    NetworkExtension("service-type", "Service types", "Lists providers of services; there are none to choose from."),
    NetworkExtension("sorting", "Sorting", "Lists can be sorted by sort_key and sort_dir."),
    NetworkExtension("standard-attr-description", "Descriptions", "Objects have a description."),
    NetworkExtension("standard-attr-revisions", "Revision numbers", "Every change of an object is counted."),
    NetworkExtension("standard-attr-tag", "Tags", "Objects can be labelled, and found by their labels."),
    NetworkExtension("standard-attr-timestamp", "Timestamps", "Objects show when they were created and changed."),
    NetworkExtension("stateful-security-group", "Stateful groups", "Keeps whether a group follows connections."),
    NetworkExtension(
        "subnet-external-network", "Subnets outside", "Shows the subnets of external networks to all users."
    ),
    NetworkExtension("subnet-service-types", "Service subnets", "Keeps subnets for the ports of certain devices."),
    NetworkExtension("subnet_allocation", "Subnet allocation", "Cuts subnets from pools."),
    NetworkExtension("tag-ports-during-bulk-creation", "Tagged new ports", "Gives ports their tags as they are made."),
)
