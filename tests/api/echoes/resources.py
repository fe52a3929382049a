"""Resources whose writable fields come back as they were sent, with a strategy for each field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from conductor.core import names
from tests.api.rights.scene import KEY as PUBLIC_KEY

LETTERS = st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp"))
TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=40)
LINES = st.text(st.one_of(LETTERS, st.sampled_from("\t\n")), min_size=1, max_size=40)
FREE_NAME = st.text(LETTERS, max_size=40)
NAME = st.text(LETTERS, min_size=1, max_size=40).filter(lambda name: name == name.strip())
USER_NAME = NAME.map(names.plain).filter(lambda name: name and name == name.strip() == names.plain(name))
TAG = st.text(st.characters(exclude_categories=("Cc", "Cs"), exclude_characters=",/"), min_size=1, max_size=20)
TAGS = st.lists(TAG, unique=True, max_size=3).map(sorted)
KEY = st.text("abcXYZ019_-.:", min_size=1, max_size=20)
PAIRS = st.dictionaries(KEY, st.text(LETTERS, max_size=20), max_size=3)
FLAG = st.booleans()
PREFIX = st.sampled_from(["10.177.8.5/24", "10.0.0.0/8", "192.0.2.7", "198.51.100.9/32"])
PREFIX_6 = st.sampled_from(["2001:DB8::7/32", "2001:db8::1", "fd00:0:0::/48"])
DHCP_OPTION = {"opt_name": "mtu", "opt_value": "1400", "ip_version": 4}
ADDRESS_PAIRS = st.lists(st.sampled_from(["10.7.0.1/16", "10.7.0.9", "2001:DB8::7/32"]), unique=True, max_size=3)


@dataclass(frozen=True)
class Resource:
    """A collection: `fields` can be set on creation and change, `fixed` only on creation."""

    path: str
    name: str
    fields: Mapping[str, SearchStrategy[Any]]
    fixed: Mapping[str, SearchStrategy[Any]] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    caller: str = "ana"
    changing: str = "PUT"
    version: str = ""
    plural: str = ""
    is_bare: bool = False  # whether the body is the resource itself, without its name around it
    id_at: str = "id"
    sent_only: Mapping[str, str] = field(default_factory=dict)  # what a creation needs and nothing shows by this name
    is_made_bare: bool = False  # whether the answer to a creation shows only some fields
    shown_as: Mapping[str, str] = field(default_factory=dict)  # fields that answers call otherwise
    details: str = ""  # the end of the path of its list with all fields

    @property
    def is_in_scene(self) -> bool:
        """Whether its bodies name other resources."""
        return bool(self.sent_only) or any(name.endswith("_id") for name in self.required)

    @property
    def api(self) -> str:
        return self.path.split("/")[1]

    def bodies(self) -> SearchStrategy[dict[str, Any]]:
        """Bodies of a creation with some of the fields."""
        every = {**self.fields, **self.fixed}
        needed = {name: strategy for name, strategy in every.items() if name in self.required}
        return st.fixed_dictionaries(
            needed, optional={name: strategy for name, strategy in every.items() if name not in needed}
        )

    def changes(self) -> SearchStrategy[dict[str, Any]]:
        """Bodies of a change of some of the fields."""
        return st.fixed_dictionaries({}, optional=dict(self.fields)).filter(bool)


DESCRIBED = {"name": FREE_NAME, "description": TEXT}
VOLUME = "volume 3.67"
RESOURCES = [
    Resource("/network/v2.0/networks", "network", DESCRIBED | {"admin_state_up": FLAG, "port_security_enabled": FLAG}),
    Resource(
        "/network/v2.0/subnets",
        "subnet",
        DESCRIBED
        | {
            "enable_dhcp": FLAG,
            "dns_nameservers": st.lists(st.sampled_from(["10.9.0.2", "192.0.2.1"]), unique=True),
            "host_routes": st.lists(st.just({"destination": "10.3.0.0/16", "nexthop": "10.9.0.5"}), max_size=1),
            "service_types": st.lists(st.sampled_from(["compute:nova", "network:dhcp"]), unique=True),
        },
        fixed={
            "network_id": st.just("{network}"),
            "cidr": st.just("10.19.0.0/24"),
            "ip_version": st.just(4),
        },
        required=("network_id", "cidr", "ip_version"),
    ),
    Resource(
        "/network/v2.0/ports",
        "port",
        DESCRIBED
        | {
            "admin_state_up": FLAG,
            "device_owner": st.just(""),
            "dns_name": st.sampled_from(["", "web-1", "a.b"]),
            "extra_dhcp_opts": st.just([DHCP_OPTION]),  # a change adds to them: an empty list changes nothing
            "allowed_address_pairs": ADDRESS_PAIRS.map(
                lambda found: [{"ip_address": one, "mac_address": "fa:16:3e:00:00:09"} for one in found]
            ),
        },
        fixed={"network_id": st.just("{network}"), "tags": TAGS},
        required=("network_id",),
    ),
    Resource("/network/v2.0/routers", "router", DESCRIBED | {"admin_state_up": FLAG}),
    Resource(
        "/network/v2.0/security-groups",
        "security_group",
        DESCRIBED | {"name": NAME.filter(lambda name: name != "default"), "stateful": FLAG},
        fixed={"tags": TAGS},
        required=("name",),
    ),
    Resource(
        "/network/v2.0/security-group-rules",
        "security_group_rule",
        {},
        fixed={
            "security_group_id": st.just("{security_group}"),
            "direction": st.sampled_from(["ingress", "egress"]),
            "ethertype": st.just("IPv4"),
            "protocol": st.sampled_from(["tcp", "udp", "icmp"]),
            "remote_ip_prefix": PREFIX,
            "description": TEXT,
        },
        required=("security_group_id", "direction", "ethertype", "remote_ip_prefix"),
    ),
    Resource(
        "/network/v2.0/security-group-rules",
        "security_group_rule",
        {},
        fixed={
            "security_group_id": st.just("{security_group}"),
            "direction": st.just("ingress"),
            "ethertype": st.just("IPv6"),
            "remote_ip_prefix": PREFIX_6,
        },
        required=("security_group_id", "direction", "ethertype", "remote_ip_prefix"),
    ),
    Resource(
        "/network/v2.0/subnetpools",
        "subnetpool",
        DESCRIBED | {"name": NAME, "default_prefixlen": st.integers(20, 24)},
        fixed={"prefixes": st.just(["10.30.0.0/16"])},
        required=("name", "prefixes"),
    ),
    Resource(
        "/network/v2.0/address-scopes",
        "address_scope",
        {"name": NAME},
        fixed={"ip_version": st.sampled_from([4, 6])},
        required=("name", "ip_version"),
    ),
    Resource("/network/v2.0/qos/policies", "policy", DESCRIBED | {"name": NAME}, required=("name",)),
    Resource(
        "/image/v2/images",
        "image",
        {},
        fixed={
            "name": NAME,
            "min_disk": st.integers(0, 1000),
            "min_ram": st.integers(0, 1000),
            "protected": FLAG,
            "os_hidden": st.just(False),
            "tags": TAGS,
            "hw_video_model": st.just("virtio"),
            "owner_specified.note": TEXT,
        },
        is_bare=True,
    ),
    Resource(
        "/volume/v3/volumes",
        "volume",
        DESCRIBED | {"metadata": PAIRS},
        fixed={"size": st.just(1)},
        required=("size",),
        version=VOLUME,
        details="/detail",
    ),
    Resource(
        "/volume/v3/snapshots",
        "snapshot",
        DESCRIBED,
        fixed={"volume_id": st.just("{volume}"), "metadata": PAIRS},
        required=("volume_id",),
        version=VOLUME,
        details="/detail",
    ),
    Resource(
        "/volume/v3/types",
        "volume_type",
        {"name": NAME, "description": TEXT},
        fixed={"extra_specs": PAIRS},
        required=("name",),
        caller="admin",
        version=VOLUME,
        is_made_bare=True,
    ),
    Resource(
        "/volume/v3/group_types",
        "group_type",
        {"name": NAME, "description": TEXT},
        fixed={"group_specs": PAIRS},
        required=("name",),
        caller="admin",
        version=VOLUME,
    ),
    Resource(
        "/compute/v2.1/flavors",
        "flavor",
        {},
        fixed={
            "name": NAME,
            "ram": st.integers(1, 4096),
            "vcpus": st.integers(1, 8),
            "disk": st.integers(0, 100),
            "swap": st.integers(1, 512),
            "OS-FLV-EXT-DATA:ephemeral": st.integers(0, 9),
            "description": LINES,
        },
        required=("name", "ram", "vcpus", "disk"),
        caller="admin",
        version="compute 2.90",
        details="/detail",
    ),
    Resource(
        "/compute/v2.1/os-aggregates",
        "aggregate",
        {"name": NAME},
        required=("name",),
        caller="admin",
        version="compute 2.90",
    ),
    Resource(
        "/compute/v2.1/os-server-groups",
        "server_group",
        {},
        fixed={"name": NAME, "policy": st.sampled_from(["affinity", "soft-anti-affinity"])},
        required=("name", "policy"),
        version="compute 2.90",
    ),
    Resource(
        "/compute/v2.1/servers",
        "server",
        {
            "name": NAME,
            "description": LINES,
            "accessIPv4": st.sampled_from(["", "192.0.2.7"]),
            "accessIPv6": st.sampled_from(["", "2001:db8::1"]),
            "OS-DCF:diskConfig": st.sampled_from(["AUTO", "MANUAL"]),
            "hostname": st.sampled_from(["web-1", "DB-2", "w"]),
        },
        fixed={"metadata": PAIRS, "tags": TAGS, "key_name": st.just("{pair}")},
        required=("name",),
        version="compute 2.90",
        sent_only={"flavorRef": "{flavor}", "imageRef": "{image}", "networks": "none"},
        is_made_bare=True,
        shown_as={"hostname": "OS-EXT-SRV-ATTR:hostname"},
        details="/detail",
    ),
    Resource(
        "/compute/v2.1/os-keypairs",
        "keypair",
        {},
        fixed={
            "name": st.text("abcXYZ019 ._@-", min_size=1, max_size=40).filter(lambda name: name == name.strip(" ")),
            "public_key": st.sampled_from([PUBLIC_KEY, PUBLIC_KEY + "\n"]),
            "type": st.just("ssh"),
        },
        required=("name", "public_key"),
        version="compute 2.92",
        id_at="name",
    ),
    *(
        Resource(
            f"/identity/v3/{plural}",
            name,
            fields,
            required=required,
            fixed=fixed,
            caller="admin",
            changing="PATCH",
            plural=plural,
        )
        for plural, name, fields, required, fixed in (
            ("users", "user", {"name": USER_NAME, "description": TEXT, "enabled": FLAG}, ("name",), {}),
            ("groups", "group", {"name": NAME, "description": TEXT}, ("name",), {}),
            ("projects", "project", {"name": NAME, "description": TEXT, "enabled": FLAG}, ("name",), {"tags": TAGS}),
            ("roles", "role", {"name": NAME, "description": TEXT}, ("name",), {}),
            ("domains", "domain", {"name": NAME, "description": TEXT, "enabled": FLAG}, ("name",), {}),
            (
                "services",
                "service",
                {"name": FREE_NAME, "description": TEXT, "enabled": FLAG},
                ("type",),
                {"type": KEY},
            ),
            (
                "endpoints",
                "endpoint",
                {
                    "interface": st.sampled_from(["public", "internal", "admin"]),
                    "url": st.sampled_from(["http://127.0.0.1/dns", "HTTPS://Dns.example:443/v2/%(tenant_id)s/"]),
                    "enabled": FLAG,
                },
                ("service_id", "interface", "url"),
                {"service_id": st.just("{service}"), "name": FREE_NAME, "description": TEXT},
            ),
            ("policies", "policy", {"blob": TEXT, "type": KEY}, ("blob", "type"), {}),
            ("regions", "region", {"description": TEXT}, (), {}),
        )
    ),
]
