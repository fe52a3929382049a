"""Audit of API requests that change a project's resources.

A member's refused request changes nothing and leaves no record; an administrator's refused request does, as everywhere.
Bodies are not recorded: they hold keys and data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conductor.core.context import RequestContext
from conductor.services.audit import member_audit, targets
from conductor.services.audit.targets import AuditTarget

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "update", "DELETE": "delete"}
_ROUTER_ACTION = r"(?:add|remove)_(?:router_interface|extraroutes)"
_PARTS = "tags(?:/[^/]+)?|metadata(?:/[^/]+)?"
_PROJECT = "(?:[0-9a-f]{32}/)?"
_MADE_BY = {"action": "create", "detail": "create", "import_record": "import"}  # at the position of an id
# Kinds of resources by the words of a path. `part` is a sub-resource: a change of it changes the whole. `action_id` is
# an action in the path; an `action` is named in the body.
_PATHS = tuple(
    (
        re.compile(
            rf"{root}(?P<word>{'|'.join(kinds)})"
            rf"(?:/(?:(?P<made_by>{'|'.join(_MADE_BY)})|(?P<id>[^/]+)(?:/(?:{rest}))?))?/?\Z"
        ),
        kinds,
    )
    for root, rest, kinds in (
        (
            r"/network/v2\.0/",
            rf"(?P<part>{_PARTS}|bandwidth_limit_rules(?:/[^/]+)?)|(?P<action_id>{_ROUTER_ACTION})",
            {
                "networks": "network",
                "subnets": "subnet",
                "subnetpools": "subnet_pool",
                "address-scopes": "address_scope",
                "rbac-policies": "rbac_policy",
                "qos/policies": "qos_policy",
                "ports": "port",
                "routers": "router",
                "floatingips": "floating_ip",
                "security-groups": "security_group",
                "security-group-rules": "security_group_rule",
            },
        ),
        (
            r"/load-balancer/v2\.0/lbaas/",
            r"(?P<part>members(?:/[^/]+)?)",
            {
                "loadbalancers": "load_balancer",
                "listeners": "listener",
                "pools": "pool",
                "healthmonitors": "health_monitor",
            },
        ),
        (
            rf"/volume/v3/{_PROJECT}",
            rf"(?P<part>{_PARTS})|(?P<action>action)|(?P<action_id>accept|restore)",
            {
                "volumes": "volume",
                "os-volume-manage": "volume",
                "manageable_volumes": "volume",
                "snapshots": "snapshot",
                "os-snapshot-manage": "snapshot",
                "manageable_snapshots": "snapshot",
                "backups": "backup",
                "groups": "volume_group",
                "group_snapshots": "group_snapshot",
                "os-volume-transfer": "volume_transfer",
                "volume-transfers": "volume_transfer",
                "attachments": "volume_attachment",
            },
        ),
        (
            r"/image/v2/",
            rf"(?P<part>{_PARTS}|members(?:/[^/]+)?)|(?P<action_id>file|stage|import)",
            {"images": "image"},
        ),
        (
            rf"/compute/v2\.1/{_PROJECT}",
            rf"(?P<part>{_PARTS}|os-server-password)|(?P<action>action)",
            {
                "servers": targets.SERVER,
                "os-volumes_boot": targets.SERVER,
                "images": "image",
                "os-security-groups": "security_group",
                "os-security-group-rules": "security_group_rule",
                "os-floating-ips": "floating_ip",
                "os-volumes": "volume",
                "os-snapshots": "snapshot",
                "os-keypairs": targets.KEY_PAIR,
                "os-server-groups": "server_group",
            },
        ),
        (
            r"/identity/v3/users/[^/]+/",
            "(?!)",
            {
                "application_credentials": "application_credential",
                "access_rules": "access_rule",
                "credentials/OS-EC2": targets.EC2,
            },
        ),
        (r"/identity/v3/", "(?!)", {"credentials": "credential", "OS-TRUST/trusts": "trust"}),
    )
)
_NEW_WORDS = {"add_router_interface": "add_interface", "remove_router_interface": "remove_interface", "file": "upload"}
_OF_SERVERS = frozenset({"update", "addFloatingIp", "removeFloatingIp"})  # the others have a workflow
_READS = frozenset({"os-show_image_metadata"})


@dataclass(frozen=True)
class ApiChange:
    """A request that may change something: a client's, or the one that does the same as a page's form.

    `sent` is the parsed body. A body that was never read belongs to a request that was refused earlier.
    """

    method: str
    path: str
    sent: Any = None
    reason: str = ""


@dataclass(frozen=True)
class ChangeResult:
    """The result of a change. `body` is the response; `before` are its targets, named before they were deleted."""

    body: Any = None
    error: Exception | None = None
    is_refused: bool = False
    is_replayed: bool = False
    before: Sequence[AuditTarget] = ()


@dataclass(frozen=True)
class MemberChange:
    """A change by a request: kind of resource, verb, and id; "" for a resource that is being created."""

    kind: str
    verb: str
    id: str


def before(context: RequestContext, method: str, path: str) -> list[AuditTarget]:
    """Return the targets that a request may delete, because their names are unknown afterwards."""
    match, kind = _match(path)
    if match is None or not match["id"] or not (method == "DELETE" or match.groupdict().get("action")):
        return []
    is_whole = not match.groupdict().get("part")
    return targets.find(context, kind, [match["id"]]) if is_whole and kind != targets.SERVER else []


def keep(context: RequestContext, request: ApiChange, result: ChangeResult) -> None:
    """Record the change, or an administrator's refused attempt."""
    found = change(request)
    if found is None or result.is_replayed or (result.is_refused and not context.is_admin):
        return
    if result.is_refused and found.kind == targets.SERVER and found.verb != "update":
        return  # `ServerAction` records refused actions of servers
    ids = [found.id] if found.id else [] if result.is_refused else _made(result.body)
    unknown = [AuditTarget(found.kind, found.id[:255], "", context.project_id)] if result.is_refused else []

    def changed() -> Sequence[AuditTarget]:
        return result.before or targets.find(context, found.kind, ids) or unknown

    details = {"method": request.method, "path": request.path[:255]}
    member_audit.keep(context, found.verb, changed, reason=request.reason, error=result.error, **details)


def change(request: ApiChange) -> MemberChange | None:
    """Return the change of a project's resource that a request makes; None for a request that is not audited here."""
    match, kind = _match(request.path)
    verb = _VERBS.get(request.method)
    if match is None or verb is None:
        return None
    found = dict.fromkeys(("part", "action_id", "action"), "") | {
        name: one or "" for name, one in match.groupdict().items()
    }
    ident = found["id"] or found["made_by"]
    if found["made_by"] and request.method == "POST":
        verb, ident = _MADE_BY[ident], ""
    elif found["part"]:
        verb = "update"
    elif found["action_id"]:
        verb = _NEW_WORDS.get(found["action_id"], found["action_id"])
    elif found["action"]:
        verb = _action(request)
    elif "manage" in found["word"]:
        verb = "manage"
    if kind == targets.SERVER and verb not in _OF_SERVERS:
        return None
    return MemberChange(kind, verb, ident) if verb else None


def _match(path: str) -> tuple[re.Match[str] | None, str]:
    """Return the match of a path, and the kind of resource there."""
    for pattern, kinds in _PATHS:
        match = pattern.match(path)
        if match is not None:
            return match, kinds[match["word"]]
    return None, ""


def _action(request: ApiChange) -> str:
    """Return the action in the body, such as "extend"; "" for an action that only reads."""
    key = next(iter(request.sent), "") if isinstance(request.sent, Mapping) else ""
    return key.removeprefix("os-") if isinstance(key, str) and key not in _READS else ""


def _made(body: Any) -> list[str]:
    """Return the ids of the objects in a response; for key pairs the name, for EC2 credentials the access key."""
    inner = next(iter(body.values())) if isinstance(body, Mapping) and len(body) == 1 else body
    made = inner if isinstance(inner, list) else [inner]
    return [str(one.get("id") or one.get("name") or one.get("access")) for one in made if isinstance(one, Mapping)]
