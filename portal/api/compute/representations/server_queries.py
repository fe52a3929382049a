"""Parses the query of GET /servers into an InstanceQuery, and checks which parameters the caller may use."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from conductor.core.errors import Forbidden, Invalid
from conductor.core.states import STATUSES
from conductor.services.servers.types import InstanceQuery
from portal.api.base import ApiRequest
from portal.api.microversions import Microversion
from portal.api.pagination import parse_page
from portal.api.validation import as_boolean

NEVER = "9999.0"
STRICT_SINCE = "2.75"
STRICT_STATUS_SINCE = "2.38"
LOCKED_SINCE = "2.73"
CHANGES_BEFORE_SINCE = "2.66"
TIME_FORM = re.compile(r"\A\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?(Z|[+-]\d\d:?\d\d)?\Z")


def time_of(text: str, name: str) -> datetime:
    """Parse a time such as `2026-01-31T12:00:00Z`; without a zone it is UTC. Raises Invalid naming the parameter."""
    text = text.replace(" ", "+")
    try:
        if TIME_FORM.match(text):
            time = datetime.fromisoformat(text)
            return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # no such day, or a time out of range in UTC
        pass
    raise Invalid(f"Invalid input for query parameter {name}. Value: '{text[:60]}'. It is no time.", field=name)


def _text(text: str, name: str) -> str:
    if len(text) > 255:
        raise Invalid(f"Invalid input for query parameter {name}. It is too long.", field=name)
    if "\0" in text:
        raise Invalid(f"Invalid input for query parameter {name}. It holds a character that no text has.", field=name)
    return text


def _number(text: str, name: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise Invalid(f"Invalid input for query parameter {name}. It must be a number below 1000000000.", field=name)
    return int(text)


def _last_part(text: str, name: str) -> str:
    return _text(text, name).rstrip("/").rpartition("/")[2]


def _words(text: str, name: str) -> list[str]:
    return [word for word in _text(text, name).split(",") if word]


@dataclass(frozen=True)
class Parameter:
    """A filter in the query: its field in InstanceQuery.filters, and the first versions in which callers may use it."""

    field: str
    parse: Callable[[str, str], Any] = _text
    members_since: str = "2.1"
    operators_since: str = "2.1"


PARAMETERS: Mapping[str, Parameter] = {
    "name": Parameter("name"),
    "display_name": Parameter("name", members_since=NEVER),
    "image": Parameter("image_id", _last_part),
    "image_ref": Parameter("image_id", _last_part, members_since=NEVER),
    "flavor": Parameter("flavor_id", _last_part),
    "ip": Parameter("ip"),
    "ip6": Parameter("ip6", members_since="2.5"),
    "reservation_id": Parameter("reservation_id"),
    "tags": Parameter("tags", _words, "2.26", "2.26"),
    "tags-any": Parameter("tags_any", _words, "2.26", "2.26"),
    "not-tags": Parameter("not_tags", _words, "2.26", "2.26"),
    "not-tags-any": Parameter("not_tags_any", _words, "2.26", "2.26"),
    "locked": Parameter("is_locked", as_boolean, LOCKED_SINCE, LOCKED_SINCE),
    "availability_zone": Parameter("availability_zone", members_since="2.83"),
    "config_drive": Parameter("config_drive", lambda text, name: "True" if as_boolean(text, name) else "", "2.83"),
    "key_name": Parameter("key_name", members_since="2.83"),
    "created_at": Parameter("created_at", time_of, "2.83"),
    "launched_at": Parameter("launched_at", time_of, "2.83"),
    "terminated_at": Parameter("terminated_at", time_of, "2.83"),
    "power_state": Parameter("power_state", _number, "2.83"),
    "task_state": Parameter("task_state", members_since="2.83"),
    "vm_state": Parameter("vm_state", members_since="2.83"),
    "user_id": Parameter("user_id", members_since="2.83"),
    "hostname": Parameter("hostname", members_since="2.90"),
    "host": Parameter("host", members_since=NEVER),
    "node": Parameter("node", members_since=NEVER),
    "hypervisor_hostname": Parameter("node", members_since=NEVER),
    "uuid": Parameter("uuid", members_since=NEVER),
    "project_id": Parameter("project_id", members_since=NEVER),
    "tenant_id": Parameter("project_id", members_since=NEVER),
    "launch_index": Parameter("launch_index", _number, members_since=NEVER),
    "access_ip_v4": Parameter("access_ip_v4", members_since=NEVER),
    "access_ip_v6": Parameter("access_ip_v6", members_since=NEVER),
    "progress": Parameter("progress", _number, members_since="2.83"),
    "kernel_id": Parameter("kernel_id", members_since=NEVER),
    "ramdisk_id": Parameter("ramdisk_id", members_since=NEVER),
    "root_device_name": Parameter("root_device_name", members_since=NEVER),
    "locked_by": Parameter("locked_by", members_since=NEVER),
    "auto_disk_config": Parameter(
        "disk_config", lambda text, name: "AUTO" if as_boolean(text, name) else "MANUAL", members_since=NEVER
    ),
    "description": Parameter("description", members_since=NEVER),
    "display_description": Parameter("description", members_since=NEVER),
}
PAGING = frozenset({"limit", "marker", "sort_key", "sort_dir", "all_tenants", "status", "deleted", "soft_deleted",
                    "changes-since", "changes-before"})  # fmt: skip
# Names of joined tables: administrators get an error for them, members' filters by them are ignored.
JOINED = frozenset({"block_device_mapping", "services", "metadata", "system_metadata", "info_cache", "security_groups",
                    "pci_devices"})  # fmt: skip
SORT_KEYS: Mapping[str, str] = {
    "created_at": "created_at",
    "updated_at": "updated_at",
    "launched_at": "launched_at",
    "terminated_at": "terminated_at",
    "display_name": "name",
    "display_description": "description",
    "uuid": "uuid",
    "vm_state": "vm_state",
    "task_state": "task_state",
    "power_state": "power_state",
    "host": "host",
    "node": "node",
    "hostname": "hostname",
    "key_name": "key_name",
    "availability_zone": "availability_zone",
    "project_id": "project_id",
    "user_id": "user_id",
    "config_drive": "config_drive",
    "access_ip_v4": "access_ip_v4",
    "access_ip_v6": "access_ip_v6",
    "launch_index": "launch_index",
    "auto_disk_config": "disk_config",
    "image_ref": "image_id",
    "instance_type_id": "flavor_id",
    "kernel_id": "kernel_id",
    "ramdisk_id": "ramdisk_id",
    "locked_by": "locked_by",
    "locked": "is_locked",
    # The same for nearly all servers, so they do not sort; the other keys decide.
    "progress": "",
    "root_device_name": "",
}
# Sort keys of old clients: ignored in versions that ignore unknown query parameters.
IGNORED_SORT_KEYS = frozenset({
    "architecture", "cell_name", "cleaned", "default_ephemeral_device", "default_swap_device", "deleted", "deleted_at",
    "disable_terminate", "ephemeral_gb", "ephemeral_key_uuid", "id", "key_data", "launched_on", "memory_mb", "os_type",
    "reservation_id", "root_gb", "shutdown_terminate", "user_data", "vcpus", "vm_mode",
})  # fmt: skip
OPERATOR_SORT_KEYS = frozenset({"host", "node"})


def is_all_projects(request: ApiRequest) -> bool:
    """Return whether the request asks for servers of all projects. Raises Invalid for a value that is not boolean."""
    if "all_tenants" not in request.query_params:
        return False
    text = request.query_params["all_tenants"]
    return text == "" or as_boolean(text, "all_tenants")


def instance_query(request: ApiRequest, *, is_operator: bool) -> InstanceQuery | None:
    """Return the InstanceQuery of the request; None when it can match nothing (an unknown status, in old versions)."""
    _refuse_unknown(request, is_operator)
    statuses = _statuses(request, is_operator)
    if statuses is None:
        return None
    page = parse_page(request)
    is_deleted = _is_deleted(request, statuses, is_operator)
    changes_since, changes_before = changes_of(request)
    return InstanceQuery(
        all_projects=is_all_projects(request),
        is_deleted=is_deleted,
        with_soft_deleted=_with_soft_deleted(request, statuses, bool(is_deleted), is_operator),
        filters=_filters(request, is_operator),
        statuses=tuple(statuses),
        changes_since=changes_since,
        changes_before=changes_before,
        sort=_sort(request, is_operator),
        limit=page.limit,
        marker=page.marker,
        with_runs=False,  # no list of this API shows workflow runs
    )


def _filters(request: ApiRequest, is_operator: bool) -> dict[str, Any]:
    """Return the filters. A filter that the caller may not use is ignored, as always in this API."""
    filters = {}
    for name, parameter in PARAMETERS.items():
        since = parameter.operators_since if is_operator else parameter.members_since
        if name in request.query_params and request.microversion.covers(since):
            filters[parameter.field] = parameter.parse(request.query_params[name], name)
    if "project_id" in filters and not is_all_projects(request):
        del filters["project_id"]
    return filters


def _statuses(request: ApiRequest, is_operator: bool) -> list[str] | None:
    requested = [text.upper() for text in request.query_params.getlist("status")]
    known = [status for status in requested if status in STATUSES]
    if known == ["DELETED"] and not is_operator:
        raise Forbidden("Only administrators may list deleted instances")
    if requested and not known:
        if request.microversion.covers(STRICT_STATUS_SINCE):
            raise Invalid(f"Invalid status value: {requested[0][:60]}", field="status")
        return None
    return known


def _is_deleted(request: ApiRequest, statuses: list[str], is_operator: bool) -> bool | None:
    if statuses == ["DELETED"]:
        return True
    if not is_operator or "deleted" not in request.query_params:
        return None
    return as_boolean(request.query_params["deleted"], "deleted")


def _with_soft_deleted(request: ApiRequest, statuses: list[str], is_deleted: bool, is_operator: bool) -> bool:
    """Return whether to include soft-deleted servers: in lists of deleted ones, and where their status is requested."""
    if is_operator and "soft_deleted" in request.query_params:
        return as_boolean(request.query_params["soft_deleted"], "soft_deleted")
    return is_deleted or "SOFT_DELETED" in statuses


def change_names(version: Microversion) -> tuple[str, ...]:
    """Return the parameters of changes_of that a version has."""
    return ("changes-since", "changes-before") if version.covers(CHANGES_BEFORE_SINCE) else ("changes-since",)


def changes_of(request: ApiRequest) -> tuple[datetime | None, datetime | None]:
    """Return the times of changes-since and changes-before, as far as the version has them. Raises Invalid."""
    known, given = change_names(request.microversion), request.query_params
    since, before = (
        time_of(given[name], name) if name in known and name in given else None
        for name in ("changes-since", "changes-before")
    )
    if since and before and since > before:
        raise Invalid("The value of changes-since must be less than or equal to changes-before.", field="changes-since")
    return since, before


def _sort(request: ApiRequest, is_operator: bool) -> tuple[tuple[str, bool], ...]:
    """Return (field, is descending) pairs. A key without a direction takes the direction of the first key."""
    keys = request.query_params.getlist("sort_key") or ["created_at"]
    directions = request.query_params.getlist("sort_dir")
    if len(directions) > len(keys):
        raise Invalid("Sort direction size exceeds sort key size", field="sort_dir")
    ways = [_is_descending(text) for text in directions or ["desc"]]
    order: dict[str, bool] = {}
    for number, key in enumerate(keys):
        field = _sort_field(request, key, is_operator)
        if field:
            order.setdefault(field, ways[number] if number < len(ways) else ways[0])
    return tuple(order.items()) or (("created_at", True),)


def _sort_field(request: ApiRequest, key: str, is_operator: bool) -> str:
    """Return the field of InstanceQuery.sort; empty for a key that is ignored. Raises Invalid, Forbidden."""
    is_ignored = key in IGNORED_SORT_KEYS and not request.microversion.covers(STRICT_SINCE)
    if is_ignored or (key == "locked" and not request.microversion.covers(LOCKED_SINCE)):
        return ""
    if key not in SORT_KEYS:
        raise Invalid(f"Invalid input for query parameter sort_key. Value: '{key[:60]}'.", field="sort_key")
    if key in OPERATOR_SORT_KEYS and not is_operator:
        raise Forbidden(f"Only administrators can sort servers by {key}")
    return SORT_KEYS[key]


def _is_descending(direction: str) -> bool:
    if direction not in ("asc", "desc"):
        raise Invalid("Invalid input for query parameter sort_dir. It must be asc or desc.", field="sort_dir")
    return direction == "desc"


def _refuse_unknown(request: ApiRequest, is_operator: bool) -> None:
    inner = sorted(name for name in request.query_params if name in JOINED or name.startswith("_"))
    if inner and is_operator:
        raise Invalid(f"Invalid filter field: {inner[0][:60]}.", field=inner[0][:60])
    if not request.microversion.covers(STRICT_SINCE):
        return
    unknown = sorted(request.query_params.keys() - PAGING - PARAMETERS.keys() - set(inner))
    if unknown:
        raise Invalid(
            f"Invalid input for query parameters {', '.join(name[:60] for name in unknown)}. "
            "Additional properties are not allowed.",
            field=unknown[0][:60],
        )
