"""JSON of subnet pools, address scopes and RBAC policies, and bodies parsed into requests."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.network import subnet_pools, tags
from conductor.network.models import AddressScope, RbacPolicy, SubnetPool
from conductor.network.rbac import RbacPolicyCreate
from portal.api.network.representations.networks import fields_of, moment

POOL_FIELDS = {
    "name": "name",
    "description": "description",
    "prefixes": "prefixes",
    "default_prefixlen": "default_prefix_length",
    "min_prefixlen": "min_prefix_length",
    "max_prefixlen": "max_prefix_length",
    "default_quota": "default_quota",
    "is_default": "is_default",
    "shared": "is_shared",
    "address_scope_id": "address_scope",
    "project_id": "project_id",
    "tenant_id": "project_id",
    "tags": "tag_text",
}
SCOPE_FIELDS = {
    "name": "name",
    "shared": "is_shared",
    "ip_version": "ip_version",
    "project_id": "project_id",
    "tenant_id": "project_id",
}
_NUMBERS = ("default_prefix_length", "min_prefix_length", "max_prefix_length", "default_quota")


def subnet_pool(row: SubnetPool, context: RequestContext) -> dict[str, Any]:
    return {
        "id": str(row.uuid),
        "name": row.name,
        "description": row.description,
        "project_id": row.project_id,
        "tenant_id": row.project_id,
        "prefixes": row.prefixes,
        "default_prefixlen": row.default_prefix_length,
        "min_prefixlen": row.min_prefix_length,
        "max_prefixlen": row.max_prefix_length,
        "ip_version": subnet_pools.version(row),
        "address_scope_id": str(row.address_scope.uuid) if row.address_scope else None,
        "default_quota": row.default_quota,
        "is_default": row.is_default,
        "shared": row.is_shared,
        "tags": tags.unpacked(row.tag_text),
        "created_at": _moment(row.created_at),
        "updated_at": _moment(row.updated_at),
        "revision_number": row.revision_number,
    }


def wanted_pool(given: Mapping[str, Any], context: RequestContext) -> dict[str, Any]:
    fields = fields_of(given, POOL_FIELDS)
    return fields | {name: int(fields[name]) for name in _NUMBERS if fields.get(name) is not None}


def address_scope(row: AddressScope, context: RequestContext) -> dict[str, Any]:
    return {
        "id": str(row.uuid),
        "name": row.name,
        "project_id": row.project_id,
        "tenant_id": row.project_id,
        "ip_version": row.ip_version,
        "shared": row.is_shared,
    }


def wanted_scope(given: Mapping[str, Any], context: RequestContext) -> dict[str, Any]:
    fields = fields_of(given, SCOPE_FIELDS)
    return {**fields, "ip_version": int(fields["ip_version"])} if "ip_version" in fields else fields


def rbac_policy(row: RbacPolicy, context: RequestContext) -> dict[str, Any]:
    return {
        "id": str(row.uuid),
        "project_id": row.project_id,
        "tenant_id": row.project_id,
        "object_type": "network",
        "object_id": str(row.network.uuid),
        "action": row.action,
        "target_tenant": row.target_project,
        "target_project": row.target_project,
    }


def wanted_policy(given: Mapping[str, Any], context: RequestContext) -> RbacPolicyCreate:
    return RbacPolicyCreate(
        network_id=given["object_id"],
        action=given["action"],
        target_project=_target(given),
        project_id=given.get("project_id") or given.get("tenant_id") or "",
    )


def policy_changes(given: Mapping[str, Any], context: RequestContext) -> dict[str, Any]:
    return {"target_project": _target(given)} if given else {}


def _target(given: Mapping[str, Any]) -> str:
    target = given.get("target_tenant", given.get("target_project"))
    if target is None:
        raise Invalid("Invalid input for target_tenant. It is a required property.", field="target_tenant")
    return str(target)


def _moment(value: datetime | None) -> str | None:
    return moment(value) if value else None
