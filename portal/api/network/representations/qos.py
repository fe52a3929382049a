"""JSON of QoS policies and their rules, and bodies parsed into requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.core.context import RequestContext
from conductor.network.models import QosBandwidthLimit, QosPolicy
from portal.api.network.representations.networks import fields_of, moment

RULE_TYPES = ("bandwidth_limit",)
_FIELDS = {
    "name": "name",
    "description": "description",
    "shared": "is_shared",
    "project_id": "project_id",
    "tenant_id": "project_id",
}
_NUMBERS = ("max_kbps", "max_burst_kbps")


def policy(row: QosPolicy, context: RequestContext) -> dict[str, Any]:
    limits = sorted(row.limits.all(), key=lambda limit: limit.pk)
    return {
        "id": str(row.uuid),
        "name": row.name,
        "description": row.description,
        "project_id": row.project_id,
        "tenant_id": row.project_id,
        "shared": row.is_shared,
        "is_default": False,
        "rules": [{**limit(one), "qos_policy_id": str(row.uuid), "type": "bandwidth_limit"} for one in limits],
        "created_at": moment(row.created_at),
        "updated_at": moment(row.updated_at),
        "revision_number": row.revision_number,
    }


def wanted_policy(given: Mapping[str, Any], context: RequestContext) -> dict[str, Any]:
    return fields_of(given, _FIELDS)


def limit(row: QosBandwidthLimit) -> dict[str, Any]:
    return {
        "id": str(row.uuid),
        "max_kbps": row.max_kbps,
        "max_burst_kbps": row.max_burst_kbps,
        "direction": row.direction,
    }


def wanted_limit(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a rule; numbers may be text."""
    numbers = {name: int(given[name]) for name in _NUMBERS if name in given}
    return numbers | ({"direction": given["direction"]} if "direction" in given else {})
