"""Members of the Compute API's answers: the versions that have each, and whether only administrators see it.

The page docs/reference/api/compute-fields.md is generated from this table, and a test compares it with every answer of
every version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from portal.api.microversions import Microversion

PAGE = "docs/reference/api/compute-fields.md"
ADMINS = "administrators"
_HEAD = """# Members of the Compute API's answers

This page lists the members of each answer of the compute API by version. `make reference` writes it from
`portal/api/compute/fields.py`, which a test compares with every answer; do not edit it. A member without versions is
in all of them.
"""


@dataclass(frozen=True, slots=True)
class FieldRule:
    """A member of an answer; `admins_until` is the last version that shows it only to administrators."""

    name: str
    since: str = "2.1"
    until: str | None = None
    admins_until: str | None = None

    def is_in(self, version: Microversion, *, is_admin: bool) -> bool:
        if not version.covers(self.since, self.until):
            return False
        return is_admin or self.admins_until is None or not version.covers("2.1", self.admins_until)


@dataclass(frozen=True, slots=True)
class FieldSet:
    """The members of one kind of object, and the paths that show it."""

    title: str
    paths: str
    fields: tuple[FieldRule, ...]
    note: str = ""

    def names(self, version: Microversion, *, is_admin: bool = True) -> set[str]:
        return {one.name for one in self.fields if one.is_in(version, is_admin=is_admin)}


def _plain(*names: str) -> tuple[FieldRule, ...]:
    return tuple(FieldRule(name) for name in names)


def _until(version: str, *names: str) -> tuple[FieldRule, ...]:
    return tuple(FieldRule(name, until=version) for name in names)


NEVER_OTHERS = "2.999"
_ATTRIBUTES = "OS-EXT-SRV-ATTR:"
_SERVER_IN_LIST = (
    *_plain("id", "name", "status", "tenant_id", "user_id", "metadata", "hostId", "image", "flavor", "created"),
    *_plain("updated", "addresses", "accessIPv4", "accessIPv6", "links", "OS-DCF:diskConfig", "progress", "key_name"),
    *_plain("config_drive", "security_groups", "OS-EXT-AZ:availability_zone", "OS-EXT-STS:task_state"),
    *_plain("OS-EXT-STS:vm_state", "OS-EXT-STS:power_state", "OS-SRV-USG:launched_at", "OS-SRV-USG:terminated_at"),
    *_plain("os-extended-volumes:volumes_attached"),
    *(
        FieldRule(_ATTRIBUTES + name, admins_until=NEVER_OTHERS)
        for name in ("host", "instance_name", "hypervisor_hostname")
    ),
    FieldRule(f"{_ATTRIBUTES}hostname", "2.3", admins_until="2.89"),
    *(
        FieldRule(_ATTRIBUTES + name, "2.3", admins_until=NEVER_OTHERS)
        for name in ("kernel_id", "ramdisk_id", "launch_index", "reservation_id", "root_device_name", "user_data")
    ),
    FieldRule("locked", "2.9"),
    FieldRule("host_status", "2.16", admins_until=NEVER_OTHERS),
    FieldRule("description", "2.19"),
    FieldRule("tags", "2.26"),
    FieldRule("trusted_image_certificates", "2.63"),
    FieldRule("locked_reason", "2.73"),
    FieldRule("pinned_availability_zone", "2.96"),
    FieldRule("scheduler_hints", "2.100"),
)
_FLAVOR_IN_LIST = (*_plain("id", "name", "links"), FieldRule("description", "2.55"))
_PAIR_IN_LIST = (*_plain("name", "public_key", "fingerprint"), FieldRule("type", "2.2"))
_ACTION_IN_LIST = (
    *_plain("action", "instance_uuid", "request_id", "user_id", "project_id", "start_time", "message"),
    FieldRule("updated_at", "2.58"),
)
_AMOUNTS = (
    "cpu_info",
    "current_workload",
    "disk_available_least",
    "free_disk_gb",
    "free_ram_mb",
    "local_gb",
    "local_gb_used",
    "memory_mb",
    "memory_mb_used",
    "running_vms",
    "vcpus",
    "vcpus_used",
)
_NETWORK_QUOTAS = ("fixed_ips", "floating_ips", "security_groups", "security_group_rules")
_FILE_QUOTAS = ("injected_files", "injected_file_content_bytes", "injected_file_path_bytes")
_QUOTAS = ("instances", "cores", "ram", "key_pairs", "metadata_items")

ANSWERS: Mapping[str, FieldSet] = {
    "server": FieldSet(
        "A server",
        "GET /servers/{server_id}; PUT and rebuild from 2.75",
        (*_SERVER_IN_LIST, FieldRule("server_groups", "2.71")),
        "`progress` only while it runs or is changed, `fault` only in ERROR and DELETED, `security_groups` only where "
        "there are some. `flavor` is a link until 2.46 and shows the size from 2.47; `image` shows `properties` from "
        "2.98.",
    ),
    "server_in_list": FieldSet("A server in a list", "GET /servers/detail", _SERVER_IN_LIST),
    "flavor": FieldSet(
        "A flavor",
        "GET /flavors/{flavor_id}, /flavors/detail",
        (
            *_FLAVOR_IN_LIST,
            *_plain("ram", "disk", "swap", "vcpus", "OS-FLV-EXT-DATA:ephemeral", "os-flavor-access:is_public"),
            *_until("2.101", "OS-FLV-DISABLED:disabled", "rxtx_factor"),
            FieldRule("extra_specs", "2.61"),
        ),
        '`swap` is `""` for none until 2.74.',
    ),
    "flavor_in_list": FieldSet("A flavor in a list", "GET /flavors", _FLAVOR_IN_LIST),
    "keypair": FieldSet(
        "A key pair",
        "GET /os-keypairs/{name}",
        (*_PAIR_IN_LIST, *_plain("user_id", "id", "created_at", "updated_at", "deleted_at", "deleted")),
    ),
    "keypair_in_list": FieldSet("A key pair in a list", "GET /os-keypairs", _PAIR_IN_LIST),
    "server_group": FieldSet(
        "A server group",
        "GET /os-server-groups, /os-server-groups/{group_id}",
        (
            *_plain("id", "name", "members"),
            *_until("2.63", "policies", "metadata"),
            FieldRule("project_id", "2.13"),
            FieldRule("user_id", "2.13"),
            FieldRule("policy", "2.64"),
            FieldRule("rules", "2.64"),
        ),
    ),
    "hypervisor": FieldSet(
        "A hypervisor",
        "GET /os-hypervisors/detail, /os-hypervisors/{ref}",
        (
            *_plain("id", "hypervisor_hostname", "state", "status", "hypervisor_type", "hypervisor_version"),
            *_plain("host_ip", "service"),
            *_until("2.87", *_AMOUNTS),
            FieldRule("uptime", "2.88"),
        ),
        "`id` is a number until 2.52; `cpu_info` is text until 2.27; `servers` from 2.53 with `with_servers`.",
    ),
    "service": FieldSet(
        "A service",
        "GET /os-services",
        (
            *_plain("id", "binary", "host", "zone", "status", "state", "updated_at", "disabled_reason"),
            FieldRule("forced_down", "2.11"),
        ),
        "`id` is a number until 2.52. From 2.69 one in a cell that is down has `binary`, `host` and `status` alone.",
    ),
    "aggregate": FieldSet(
        "An aggregate",
        "GET /os-aggregates, /os-aggregates/{ref}",
        (
            *_plain("id", "name", "availability_zone", "created_at", "updated_at", "deleted_at", "deleted", "hosts"),
            *_plain("metadata"),
            FieldRule("uuid", "2.41"),
        ),
    ),
    "migration": FieldSet(
        "A migration",
        "GET /os-migrations",
        (
            *_plain("id", "source_compute", "source_node", "dest_compute", "dest_node", "dest_host", "instance_uuid"),
            *_plain("status", "old_instance_type_id", "new_instance_type_id", "created_at", "updated_at"),
            FieldRule("migration_type", "2.23"),
            FieldRule("uuid", "2.59"),
            FieldRule("user_id", "2.80"),
            FieldRule("project_id", "2.80"),
        ),
        "`links` from 2.23 while it is live and under way.",
    ),
    "attachment": FieldSet(
        "A volume's attachment",
        "GET /servers/{server_id}/os-volume_attachments, …/{volume_id}",
        (
            *_plain("volumeId", "serverId", "device"),
            FieldRule("id", until="2.88"),
            FieldRule("tag", "2.70"),
            FieldRule("delete_on_termination", "2.79"),
            FieldRule("attachment_id", "2.89"),
            FieldRule("bdm_uuid", "2.89"),
        ),
    ),
    "action": FieldSet(
        "An action on a server",
        "GET /servers/{server_id}/os-instance-actions/{request_id}",
        (*_ACTION_IN_LIST, FieldRule("events", admins_until="2.50")),
    ),
    "action_in_list": FieldSet("An action in a list", "GET /servers/{server_id}/os-instance-actions", _ACTION_IN_LIST),
    "quota_set": FieldSet(
        "A quota set",
        "GET /os-quota-sets/{project_id}, …/defaults, …/detail",
        (
            *_plain("id", *_QUOTAS, "server_groups", "server_group_members"),
            *_until("2.35", *_NETWORK_QUOTAS),
            *_until("2.56", *_FILE_QUOTAS),
        ),
    ),
    "quota_class_set": FieldSet(
        "A class of quotas",
        "GET /os-quota-class-sets/{name}",
        (
            *_plain("id", *_QUOTAS),
            *_until("2.49", *_NETWORK_QUOTAS),
            *_until("2.56", *_FILE_QUOTAS),
            FieldRule("server_groups", "2.50"),
            FieldRule("server_group_members", "2.50"),
        ),
    ),
    "limits": FieldSet(
        "Absolute limits",
        "GET /limits",
        (
            *_plain("maxTotalInstances", "totalInstancesUsed", "maxTotalCores", "totalCoresUsed", "maxTotalRAMSize"),
            *_plain("totalRAMUsed", "maxTotalKeypairs", "maxServerGroups", "totalServerGroupsUsed"),
            *_plain("maxServerGroupMembers", "maxServerMeta"),
            *_until("2.35", "maxTotalFloatingIps", "totalFloatingIpsUsed", "maxSecurityGroups"),
            *_until("2.35", "totalSecurityGroupsUsed", "maxSecurityGroupRules"),
            *_until("2.38", "maxImageMeta"),
            *_until("2.56", "maxPersonality", "maxPersonalitySize"),
        ),
    ),
}


def page() -> str:
    """Return the generated page."""
    return _HEAD + "".join(_section(answer) for answer in ANSWERS.values())


def _section(answer: FieldSet) -> str:
    note = f"{answer.note}\n\n" if answer.note else ""
    rows = "".join(f"| `{one.name}` | {_versions(one)} | {_who(one)} |\n" for one in answer.fields)
    return f"\n## {answer.title}\n\n{answer.paths}\n\n{note}| member | versions | who |\n|---|---|---|\n{rows}"


def _versions(one: FieldRule) -> str:
    if one.until:
        return f"{one.since} to {one.until}"
    return "" if one.since == "2.1" else f"from {one.since}"


def _who(one: FieldRule) -> str:
    if one.admins_until is None:
        return ""
    return ADMINS if one.admins_until == NEVER_OTHERS else f"{ADMINS} until {one.admins_until}"
