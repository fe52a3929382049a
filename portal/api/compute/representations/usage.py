"""JSON of usage."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from conductor.services.billing.usage import ProjectUsage, ServerUsage
from portal.api.compute.representations import parts


def project(usage: ProjectUsage, begin: datetime, end: datetime, *, with_servers: bool) -> dict[str, Any]:
    """Return the sums of a project; times have no zone."""
    shown: dict[str, Any] = {
        "tenant_id": usage.project_id,
        "total_hours": usage.hours,
        "total_vcpus_usage": usage.total("vcpus"),
        "total_memory_mb_usage": usage.total("memory_mb"),
        "total_local_gb_usage": usage.total("disk_gb"),
        "start": parts.to_the_digit(begin),
        "stop": parts.to_the_digit(end),
    }
    return shown | {"server_usages": [_server(one) for one in usage.servers]} if with_servers else shown


def _server(usage: ServerUsage) -> dict[str, Any]:
    return {
        "instance_id": usage.uuid,
        "name": usage.name,
        "tenant_id": usage.project_id,
        "flavor": usage.flavor_name,
        "state": usage.state,
        "vcpus": usage.vcpus,
        "memory_mb": usage.memory_mb,
        "local_gb": usage.disk_gb,
        "hours": usage.hours,
        "uptime": usage.uptime_seconds,
        "started_at": parts.to_the_digit(usage.began_at),
        "ended_at": parts.to_the_digit(usage.ended_at),
    }
