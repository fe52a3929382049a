"""Bodies of requests about routers, floating IPs, pools, RBAC policies and quotas."""

from __future__ import annotations

from conductor.network import quotas, rbac
from portal.api.network.schemas.bodies import DESCRIBED, IP, OPTIONAL_UUID, OWNER, PROJECT, SHORT_TEXT, TAGS, ZONES
from portal.api.schema_parts import BOOLEAN, NON_NEGATIVE_INTEGER, UUID, Schema, closed, named, wrapped

_CIDR: Schema = {"type": "string", "format": "cidr", "maxLength": 64}
_ROUTES: Schema = {
    "type": ["array", "null"],
    "maxItems": 100,
    "items": closed({"destination": _CIDR, "nexthop": IP}, required=("destination", "nexthop")),
}
_GATEWAY: Schema = {
    "type": ["object", "null"],
    "additionalProperties": False,
    "properties": {
        "network_id": UUID,
        "enable_snat": BOOLEAN,
        "external_fixed_ips": {
            "type": ["array", "null"],
            "maxItems": 5,
            "items": {**closed({"subnet_id": UUID, "ip_address": IP}), "minProperties": 1},
        },
    },
}
_ROUTER: Schema = {
    **DESCRIBED,
    "admin_state_up": BOOLEAN,
    "external_gateway_info": _GATEWAY,
    "distributed": BOOLEAN,
    "ha": BOOLEAN,
}
CREATE_ROUTER = closed({**_ROUTER, **OWNER, **TAGS, **ZONES})
UPDATE_ROUTER = closed({**_ROUTER, "routes": _ROUTES})
INTERFACE = closed({"subnet_id": OPTIONAL_UUID, "port_id": OPTIONAL_UUID})
EXTRA_ROUTES = wrapped("router", {"routes": {**_ROUTES, "type": "array"}}, required=("routes",))

_FIXED_IP: Schema = {"type": ["string", "null"], "format": "ipv4"}
_FLOATING_IP: Schema = {"port_id": OPTIONAL_UUID, "fixed_ip_address": _FIXED_IP, "description": SHORT_TEXT}
CREATE_FLOATING_IP = closed(
    {
        **_FLOATING_IP,
        **OWNER,
        **TAGS,
        "floating_network_id": UUID,
        "floating_ip_address": _FIXED_IP,
        "subnet_id": OPTIONAL_UUID,
    },
    required=("floating_network_id",),
)
UPDATE_FLOATING_IP = closed(_FLOATING_IP)

_PREFIX_LENGTH: Schema = {"type": ["integer", "string"], "pattern": r"^[0-9]{1,3}\Z", "minimum": 0, "maximum": 128}
_POOL: Schema = {
    **DESCRIBED,
    "prefixes": {"type": "array", "minItems": 1, "maxItems": 100, "items": _CIDR},
    "default_prefixlen": _PREFIX_LENGTH,
    "min_prefixlen": _PREFIX_LENGTH,
    "max_prefixlen": _PREFIX_LENGTH,
    "default_quota": {**NON_NEGATIVE_INTEGER, "type": ["integer", "string", "null"]},
    "is_default": BOOLEAN,
    "address_scope_id": OPTIONAL_UUID,
}
CREATE_POOL = closed({**_POOL, **OWNER, **TAGS, "shared": BOOLEAN}, required=("name", "prefixes"))
UPDATE_POOL = closed(_POOL)

_SCOPE: Schema = {"name": named(SHORT_TEXT), "shared": BOOLEAN}
CREATE_SCOPE = closed({**_SCOPE, **OWNER, "ip_version": {"enum": [4, 6, "4", "6"]}}, required=("ip_version",))
UPDATE_SCOPE = closed(_SCOPE)

_TARGET: Schema = {"anyOf": [PROJECT, {"const": "*"}], "x-fix": 'It must be the id of a project, or "*" for all.'}
CREATE_RBAC = closed(
    {
        **OWNER,
        "object_type": {"enum": ["network"]},
        "object_id": UUID,
        "action": {"enum": list(rbac.ACTIONS)},
        "target_tenant": _TARGET,
        "target_project": _TARGET,
    },
    required=("object_type", "object_id", "action"),
)
UPDATE_RBAC = closed({"target_tenant": _TARGET, "target_project": _TARGET})

_LIMIT: Schema = {"type": ["integer", "string"], "pattern": r"^(-1|[0-9]{1,9})\Z", "minimum": -1, "maximum": 2**31 - 1}
QUOTA = wrapped(
    "quota",
    {**dict.fromkeys(quotas.RESOURCES, _LIMIT), "tenant_id": PROJECT, "check_limit": BOOLEAN, "force": BOOLEAN},
)
