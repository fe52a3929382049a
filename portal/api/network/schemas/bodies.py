"""Bodies of the network API: fields that can be set on creation and update."""

from __future__ import annotations

from conductor.network.port_rows import MOST_ADDRESSES
from portal.api.schema_parts import BOOLEAN, UUID, Schema, closed, named

SHORT_TEXT: Schema = {"type": ["string", "null"], "maxLength": 255}
PROJECT: Schema = {"type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[a-zA-Z0-9-]+$"}
OPTIONAL_UUID: Schema = {"type": ["string", "null"], "format": "uuid"}
IP: Schema = {"type": "string", "format": "ip"}
MIN_MTU, MAX_MTU = 68, 9216
NUMBER = r"^-?[0-9]{1,10}\Z"
MAC: Schema = {
    "type": ["string", "null"],
    "pattern": r"^[0-9a-fA-F][02468aceACE](:[0-9a-fA-F]{2}){5}$",
    "x-fix": "It must be a unicast MAC address such as fa:16:3e:00:00:01.",
}
OWNER: Schema = {"project_id": PROJECT, "tenant_id": PROJECT}
TAG: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": 255,
    "pattern": r"^[^\u0000-\u001f,/]+\Z",
    "x-fix": "It must have 1 to 255 characters, and no comma, slash or control character.",
}
TAGS: Schema = {"tags": {"type": "array", "items": TAG, "maxItems": 50, "uniqueItems": True}}
ZONES: Schema = {
    "availability_zone_hints": {
        "type": "array",
        "maxItems": 10,
        "items": {"type": "string", "minLength": 1, "maxLength": 255},
    }
}
_LABELS = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*"
DNS_NAME: Schema = {
    "type": ["string", "null"],
    "maxLength": 255,
    "pattern": rf"^({_LABELS})?\Z",
    "x-fix": "It must have letters, digits and hyphens, as in web-1.",
}
DNS_DOMAIN: Schema = {
    "type": ["string", "null"],
    "maxLength": 255,
    "pattern": rf"^({_LABELS}\.)?\Z",
    "x-fix": "It must be a full domain with a dot at its end, as in lab.example.org.",
}
DESCRIBED: Schema = {"name": named(SHORT_TEXT), "description": SHORT_TEXT}

_NETWORK_CHANGES: Schema = {
    **DESCRIBED,
    "admin_state_up": BOOLEAN,
    "shared": BOOLEAN,
    "router:external": BOOLEAN,
    "mtu": {"type": ["integer", "string"], "pattern": r"^[0-9]{1,5}\Z", "minimum": MIN_MTU, "maximum": MAX_MTU},
    "port_security_enabled": BOOLEAN,
    "dns_domain": DNS_DOMAIN,
    "qos_policy_id": OPTIONAL_UUID,
    "is_default": BOOLEAN,
    "provider:network_type": {"enum": ["local", "flat", "vlan", "vxlan", "gre", "geneve", None]},
    "provider:physical_network": {"type": ["string", "null"], "maxLength": 64},
    "provider:segmentation_id": {
        "type": ["integer", "string", "null"],
        "pattern": r"^[0-9]{1,10}\Z",
        "minimum": 0,
        "maximum": 2**31 - 1,
    },
}
CREATE_NETWORK = closed({**_NETWORK_CHANGES, **OWNER, **TAGS, **ZONES})
UPDATE_NETWORK = closed(_NETWORK_CHANGES)

_POOLS: Schema = {
    "type": ["array", "null"],
    "maxItems": 100,
    "items": closed({"start": IP, "end": IP}, required=("start", "end")),
}
_ROUTES: Schema = {
    "type": ["array", "null"],
    "maxItems": 20,
    "items": closed(
        {"destination": {"type": "string", "format": "cidr"}, "nexthop": IP}, required=("destination", "nexthop")
    ),
}
_IPV6_MODE: Schema = {"enum": ["slaac", "dhcpv6-stateful", "dhcpv6-stateless", None]}
_SUBNET_CHANGES: Schema = {
    **DESCRIBED,
    "service_types": {
        "type": ["array", "null"],
        "maxItems": 20,
        "uniqueItems": True,
        "items": {
            "type": "string",
            "pattern": r"^(network|compute|baremetal|container):.{0,200}\Z",
            "x-fix": "It must be a device owner such as compute:nova or network:router_gateway.",
        },
    },
    "enable_dhcp": BOOLEAN,
    "gateway_ip": {"type": ["string", "null"], "format": "ip"},
    "allocation_pools": _POOLS,
    "dns_nameservers": {"type": ["array", "null"], "items": IP, "maxItems": 5},
    "host_routes": _ROUTES,
}
CREATE_SUBNET = closed(
    {
        **_SUBNET_CHANGES,
        **OWNER,
        **TAGS,
        "network_id": UUID,
        "ip_version": {"enum": [4, 6, "4", "6"]},
        "ipv6_address_mode": _IPV6_MODE,
        "ipv6_ra_mode": _IPV6_MODE,
        "use_default_subnetpool": BOOLEAN,
        "cidr": {"type": ["string", "null"], "format": "cidr", "maxLength": 64},
        "subnetpool_id": OPTIONAL_UUID,
        "prefixlen": {"type": ["integer", "string", "null"], "pattern": "^[0-9]{1,3}$", "minimum": 1, "maximum": 128},
    },
    required=("network_id",),
)
UPDATE_SUBNET = closed(_SUBNET_CHANGES)

_FIXED_IPS: Schema = {
    "type": ["array", "null"],
    "maxItems": MOST_ADDRESSES,
    "items": {**closed({"subnet_id": UUID, "ip_address": IP}), "minProperties": 1},
    "uniqueItems": True,
}
VNIC_TYPES = [
    "normal",
    "direct",
    "macvtap",
    "baremetal",
    "direct-physical",
    "virtio-forwarder",
    "smart-nic",
    "vdpa",
    "accelerator-direct",
    "accelerator-direct-physical",
    "remote-managed",
]
_IP_OR_CIDR: Schema = {"anyOf": [IP, {"type": "string", "format": "cidr"}], "x-fix": "It must be an address or range."}
_DHCP_OPTION = closed(
    {
        "opt_name": {"type": "string", "minLength": 1, "maxLength": 64},
        "opt_value": {"type": ["string", "null"], "minLength": 1, "maxLength": 255},
        "ip_version": {"enum": [4, 6, "4", "6"]},
    },
    required=("opt_name",),
)
_PORT_CHANGES: Schema = {
    **DESCRIBED,
    "admin_state_up": BOOLEAN,
    "fixed_ips": _FIXED_IPS,
    "security_groups": {
        "type": ["array", "null"],
        "items": {"type": "string", "minLength": 1, "maxLength": 255},
        "uniqueItems": True,
        "maxItems": 100,
    },
    "mac_address": MAC,
    "device_id": SHORT_TEXT,
    "device_owner": SHORT_TEXT,
    "binding:host_id": SHORT_TEXT,
    "binding:vnic_type": {"enum": VNIC_TYPES},
    "binding:profile": {"type": ["object", "null"], "maxProperties": 100},
    "port_security_enabled": BOOLEAN,
    "allowed_address_pairs": {
        "type": ["array", "null"],
        "items": closed({"ip_address": _IP_OR_CIDR, "mac_address": MAC}, required=("ip_address",)),
    },
    "extra_dhcp_opts": {"type": ["array", "null"], "maxItems": 100, "items": _DHCP_OPTION},
    "dns_name": DNS_NAME,
    "qos_policy_id": OPTIONAL_UUID,
}
CREATE_PORT = closed({**_PORT_CHANGES, **OWNER, **TAGS, "network_id": UUID}, required=("network_id",))
UPDATE_PORT = closed(_PORT_CHANGES)

_GROUP_CHANGES: Schema = {
    "name": named({"type": "string", "minLength": 1, "maxLength": 255}),
    "description": SHORT_TEXT,
    "stateful": BOOLEAN,
}
CREATE_GROUP = closed({**_GROUP_CHANGES, **OWNER, **TAGS}, required=("name",))
UPDATE_GROUP = closed(_GROUP_CHANGES)

# Whether numbers are ports or ICMP types and codes depends on the protocol.
_PORT_NUMBER: Schema = {"type": ["integer", "string", "null"], "pattern": NUMBER}
CREATE_RULE = closed(
    {
        **OWNER,
        "security_group_id": UUID,
        "direction": {"enum": ["ingress", "egress"]},
        "ethertype": {"enum": ["IPv4", "IPv6", "ipv4", "ipv6", None]},
        "protocol": {"type": ["string", "integer", "null"], "maxLength": 40, "pattern": "^[A-Za-z0-9-]*$"},
        "port_range_min": _PORT_NUMBER,
        "port_range_max": _PORT_NUMBER,
        "remote_ip_prefix": {"type": ["string", "null"], "format": "cidr", "maxLength": 64},
        "remote_group_id": {"type": ["string", "null"], "maxLength": 64},
        "description": SHORT_TEXT,
    },
    required=("security_group_id", "direction"),
)
