"""JSON of limits in both formats: quota sets and the older `limits`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from conductor.services.quotas.types import QuotaView
from portal.api.compute.representations import parts
from portal.api.microversions import Microversion
from portal.api.validation import as_boolean

# Last version that shows each: later these limits belong to other services, or are gone.
UNTIL: Mapping[str, str] = {
    "fixed_ips": "2.35",
    "floating_ips": "2.35",
    "security_groups": "2.35",
    "security_group_rules": "2.35",
    "injected_files": "2.56",
    "injected_file_content_bytes": "2.56",
    "injected_file_path_bytes": "2.56",
}
# Resource → (name of its limit, name of what is used, last version).
ABSOLUTE: Mapping[str, tuple[str, str | None, str | None]] = {
    "instances": ("maxTotalInstances", "totalInstancesUsed", None),
    "cores": ("maxTotalCores", "totalCoresUsed", None),
    "ram": ("maxTotalRAMSize", "totalRAMUsed", None),
    "key_pairs": ("maxTotalKeypairs", None, None),
    "server_groups": ("maxServerGroups", "totalServerGroupsUsed", None),
    "server_group_members": ("maxServerGroupMembers", None, None),
    "metadata_items": ("maxServerMeta", None, None),
    "floating_ips": ("maxTotalFloatingIps", "totalFloatingIpsUsed", "2.35"),
    "security_groups": ("maxSecurityGroups", "totalSecurityGroupsUsed", "2.35"),
    "security_group_rules": ("maxSecurityGroupRules", None, "2.35"),
    "injected_files": ("maxPersonality", None, "2.56"),
    "injected_file_content_bytes": ("maxPersonalitySize", None, "2.56"),
}
IMAGE_METADATA_UNTIL = "2.38"


# Quota classes changed later than quota sets: they lost these limits, and got those of server groups, in later
# versions.
CLASS_UNTIL = dict.fromkeys(("fixed_ips", "floating_ips", "security_groups", "security_group_rules"), "2.49")
CLASS_SINCE = {"server_groups": "2.50", "server_group_members": "2.50"}


def is_of_class(resource: str, version: Microversion) -> bool:
    """Return whether a version shows this limit of a quota class."""
    last = CLASS_UNTIL.get(resource) or UNTIL.get(resource)
    return version.covers(CLASS_SINCE.get(resource, "2.1"), last)


def limits(given: Mapping[str, Any], where: str) -> dict[str, int]:
    """Return the limits of a checked body. Raises Invalid for one too large for a column."""
    return {name: parts.number(value, f"{where}.{name}") for name, value in given.items()}


def requested_limits(given: Mapping[str, Any]) -> tuple[dict[str, int], bool]:
    """Return the limits of a checked quota set, and whether they may be below the usage."""
    is_forced = as_boolean(given.get("force", False), "quota_set.force")
    named = {name: value for name, value in given.items() if name not in ("force", "tenant_id")}
    return limits(named, "quota_set"), is_forced


def shown(quotas: Iterable[QuotaView], version: Microversion) -> list[QuotaView]:
    """Return the limits that a version has."""
    return [quota for quota in quotas if version.covers("2.1", UNTIL.get(quota.resource))]


def quota_set(quotas: Iterable[QuotaView], version: Microversion) -> dict[str, Any]:
    """Return the limits without their use."""
    return {quota.resource: quota.limit for quota in shown(quotas, version)}


def quota_set_detail(quotas: Iterable[QuotaView], version: Microversion) -> dict[str, Any]:
    """Return the limits with their use; `reserved` is always 0."""
    return {
        quota.resource: {"limit": quota.limit, "in_use": quota.in_use, "reserved": 0}
        for quota in shown(quotas, version)
    }


def absolute(quotas: Iterable[QuotaView], version: Microversion) -> dict[str, int]:
    """Return the limits in the older format."""
    found: dict[str, int] = {}
    for quota in quotas:
        limit, used, until = ABSOLUTE.get(quota.resource, ("", None, None))
        if not limit or not version.covers("2.1", until):
            continue
        found[limit] = quota.limit
        if used:
            found[used] = quota.in_use
    if version.covers("2.1", IMAGE_METADATA_UNTIL):
        found["maxImageMeta"] = found["maxServerMeta"]
    return found
