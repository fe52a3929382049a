"""JSON of security groups and their rules, and bodies parsed into requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.core.context import RequestContext
from conductor.network import tags
from conductor.network.models import SecurityGroup, SecurityGroupRule
from conductor.network.ranges import normalized_range
from conductor.network.security_groups import SecurityGroupRuleCreate
from portal.api.network.representations.networks import moment
from portal.api.validation import as_boolean


def group(row: SecurityGroup, context: RequestContext) -> dict[str, Any]:
    rules = sorted(row.rules.all(), key=lambda one: one.pk)
    return {
        "id": str(row.uuid),
        "name": row.name,
        "description": row.description,
        "project_id": row.project_id,
        "tenant_id": row.project_id,
        "stateful": row.is_stateful,
        "shared": False,
        "security_group_rules": [rule(one, context) for one in rules],
        "tags": tags.unpacked(row.tag_text),
        "created_at": moment(row.created_at),
        "updated_at": moment(row.updated_at),
        "revision_number": row.revision_number,
    }


def wanted_group(given: Mapping[str, Any], context: RequestContext) -> dict[str, Any]:
    wanted = {name: given[name] for name in ("name",) if name in given}
    if "description" in given:
        wanted["description"] = given["description"] or ""
    if given.get("stateful") is not None:
        wanted["is_stateful"] = as_boolean(given["stateful"], "stateful")
    if "tags" in given:
        wanted["tag_text"] = tags.packed(given["tags"])
    for name in ("project_id", "tenant_id"):
        if name in given:
            wanted["project_id"] = given[name]
    return wanted


def rule(row: SecurityGroupRule, context: RequestContext) -> dict[str, Any]:
    return {
        "id": str(row.uuid),
        "security_group_id": str(row.group.uuid),
        "project_id": row.group.project_id,
        "tenant_id": row.group.project_id,
        "direction": row.direction,
        "ethertype": row.ethertype,
        "protocol": row.protocol,
        "port_range_min": row.port_range_min,
        "port_range_max": row.port_range_max,
        "remote_ip_prefix": row.remote_ip_prefix,
        "normalized_cidr": normalized_range(row.remote_ip_prefix) if row.remote_ip_prefix else None,
        "remote_group_id": str(row.remote_group.uuid) if row.remote_group else None,
        "remote_address_group_id": None,
        "description": row.description,
        "tags": [],
        "created_at": moment(row.created_at),
        "updated_at": moment(row.updated_at),
        "revision_number": row.revision_number,
    }


def wanted_rule(given: Mapping[str, Any], context: RequestContext) -> SecurityGroupRuleCreate:
    return SecurityGroupRuleCreate(
        group_id=given["security_group_id"],
        direction=given["direction"],
        ethertype={"ipv4": "IPv4", "ipv6": "IPv6"}[(given.get("ethertype") or "IPv4").lower()],
        protocol=_protocol(given.get("protocol")),
        port_range_min=_number(given.get("port_range_min")),
        port_range_max=_number(given.get("port_range_max")),
        remote_ip_prefix=given.get("remote_ip_prefix") or None,
        remote_group_id=given.get("remote_group_id"),
        description=given.get("description") or "",
    )


def _protocol(given: str | int | None) -> str | None:
    word = "" if given is None else str(given).lower()
    return None if word in ("", "any") else word


def _number(given: str | int | None) -> int | None:
    return None if given is None else int(given)
