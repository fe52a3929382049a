"""Bodies of the load balancer API. Fields and values that OVN does not support are refused by name."""

from __future__ import annotations

from conductor.network.balancer_members import MONITOR_TYPES
from conductor.network.load_balancers import ALGORITHM, PROTOCOLS, PROVIDER
from portal.api.network.schemas.bodies import DESCRIBED, IP, OPTIONAL_UUID, OWNER, PROJECT, SHORT_TEXT, TAGS
from portal.api.schema_parts import BOOLEAN, UUID, Schema, closed, named, wrapped

QUOTAS = {  # Octavia's name → ours
    "load_balancer": "loadbalancer",
    "listener": "listener",
    "pool": "pool",
    "member": "member",
    "health_monitor": "healthmonitor",
}


def _number(least: int, most: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most}


def _only(value: object) -> Schema:
    """Return the schema of a field with one allowed value; null stands for that value."""
    return {"enum": [value, None]}


_PART: Schema = {**DESCRIBED, **TAGS, "admin_state_up": BOOLEAN}
_PROTOCOL: Schema = {"enum": list(PROTOCOLS)}
_PORT = _number(1, 65535)
CREATE_BALANCER = closed(
    {
        **_PART,
        **OWNER,
        "provider": _only(PROVIDER),
        "vip_network_id": OPTIONAL_UUID,
        "vip_subnet_id": OPTIONAL_UUID,
        "vip_port_id": OPTIONAL_UUID,
        "vip_address": {**IP, "type": ["string", "null"]},
    }
)
UPDATE_BALANCER = closed(_PART)

_NO_LIMIT: Schema = {"enum": [-1, "-1", None], "x-fix": "OVN does not limit connections: it must be -1."}
_LISTENER: Schema = {**_PART, "default_pool_id": OPTIONAL_UUID, "connection_limit": _NO_LIMIT}
CREATE_LISTENER = closed(
    {**_LISTENER, **OWNER, "loadbalancer_id": UUID, "protocol": _PROTOCOL, "protocol_port": _PORT},
    required=("loadbalancer_id", "protocol", "protocol_port"),
)
UPDATE_LISTENER = closed(_LISTENER)

_ALGORITHM: Schema = {"enum": [ALGORITHM]}
_POOL: Schema = {**_PART, "lb_algorithm": _ALGORITHM, "session_persistence": _only(None), "tls_enabled": _only(False)}
CREATE_POOL = closed(
    {**_POOL, **OWNER, "loadbalancer_id": OPTIONAL_UUID, "listener_id": OPTIONAL_UUID, "protocol": _PROTOCOL},
    required=("protocol", "lb_algorithm"),
)
UPDATE_POOL = closed(_POOL)

_MEMBER: Schema = {
    "name": named(SHORT_TEXT),
    **TAGS,
    "admin_state_up": BOOLEAN,
    "weight": {"enum": [1, None], "x-fix": "OVN gives all members the same weight: it must be 1."},
    "backup": _only(False),
}
CREATE_MEMBER = closed(
    {**_MEMBER, **OWNER, "address": IP, "protocol_port": _PORT, "subnet_id": OPTIONAL_UUID},
    required=("address", "protocol_port"),
)
UPDATE_MEMBER = closed(_MEMBER)

_SECONDS = _number(1, 3600)
_RETRIES = _number(1, 10)
_MONITOR: Schema = {
    "name": named(SHORT_TEXT),
    **TAGS,
    "admin_state_up": BOOLEAN,
    "delay": _SECONDS,
    "timeout": _SECONDS,
    "max_retries": _RETRIES,
    "max_retries_down": _RETRIES,
}
CREATE_MONITOR = closed(
    {**_MONITOR, **OWNER, "pool_id": UUID, "type": {"enum": list(MONITOR_TYPES)}},
    required=("pool_id", "type", "delay", "timeout", "max_retries"),
)
UPDATE_MONITOR = closed(_MONITOR)

_LIMIT: Schema = {"type": ["integer", "null"], "minimum": -1, "maximum": 2**31 - 1}
QUOTA = wrapped("quota", {**dict.fromkeys(QUOTAS, _LIMIT), "project_id": PROJECT, "tenant_id": PROJECT})
