"""Which requests to the APIs change a project's things, and are put on record when they are done.

A member's request that was refused changes nothing and leaves no record; what an administrator was refused does, as
everywhere. Bodies are not kept: they hold keys and data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from conductor.core.context import RequestContext
from conductor.services import member_audit, subjects
from conductor.services.subjects import Subject

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "update", "DELETE": "delete"}
_ROUTER_DEED = r"(?:add|remove)_(?:router_interface|extraroutes)"
_PARTS = "tags(?:/[^/]+)?|metadata(?:/[^/]+)?"
_PROJECT = "(?:[0-9a-f]{32}/)?"
_MADE_BY = {"action": "create", "detail": "create", "import_record": "import"}  # in the place of an id
# The kinds of things at the words of a path. `part` is a part of one of them: what is done to that changes the whole.
# `deed` is what is done, in the path's words; an `action` says it in its body.
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
            rf"(?P<part>{_PARTS})|(?P<deed>{_ROUTER_DEED})",
            {
                "networks": "network",
                "subnets": "subnet",
                "subnetpools": "subnet_pool",
                "address-scopes": "address_scope",
                "rbac-policies": "rbac_policy",
                "ports": "port",
                "routers": "router",
                "floatingips": "floating_ip",
                "security-groups": "security_group",
                "security-group-rules": "security_group_rule",
            },
        ),
        (
            rf"/volume/v3/{_PROJECT}",
            rf"(?P<part>{_PARTS})|(?P<action>action)|(?P<deed>accept|restore)",
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
            rf"(?P<part>{_PARTS}|members(?:/[^/]+)?)|(?P<deed>file|stage|import)",
            {"images": "image"},
        ),
        (
            rf"/compute/v2\.1/{_PROJECT}",
            rf"(?P<part>{_PARTS}|os-server-password)|(?P<action>action)",
            {
                "servers": subjects.SERVER,
                "os-volumes_boot": subjects.SERVER,
                "images": "image",
                "os-security-groups": "security_group",
                "os-security-group-rules": "security_group_rule",
                "os-floating-ips": "floating_ip",
                "os-volumes": "volume",
                "os-snapshots": "snapshot",
                "os-keypairs": subjects.KEY_PAIR,
                "os-server-groups": "server_group",
            },
        ),
        (
            r"/identity/v3/users/[^/]+/",
            "(?!)",
            {
                "application_credentials": "application_credential",
                "access_rules": "access_rule",
                "credentials/OS-EC2": subjects.EC2,
            },
        ),
        (r"/identity/v3/", "(?!)", {"credentials": "credential", "OS-TRUST/trusts": "trust"}),
    )
)
_NEW_WORDS = {"add_router_interface": "add_interface", "remove_router_interface": "remove_interface", "file": "upload"}
_OF_SERVERS = frozenset({"update", "addFloatingIp", "removeFloatingIp"})  # the rest has a workflow, or a run at once
_READS = frozenset({"os-show_image_metadata"})


@dataclass(frozen=True)
class Change:
    """What a request changes: the kind of thing, what is done, and to which; "" while that is being made."""

    kind: str
    verb: str
    id: str


def before(request: Request, context: RequestContext) -> list[Subject]:
    """What the request may delete: afterwards nobody knows its name any more."""
    match, kind = _match(request.path)
    if match is None or not match["id"] or not (request.method == "DELETE" or match.groupdict().get("action")):
        return []
    is_whole = not match.groupdict().get("part")
    return subjects.find(context, kind, [match["id"]]) if is_whole and kind != subjects.SERVER else []


def keep(request: Request, response: Response, context: RequestContext, before: Sequence[Subject], reason: str) -> None:
    """Put on record what the request has changed, or was to change where an administrator was refused."""
    found = change(request)
    is_refused = response.status_code >= 400
    if found is None or getattr(request, "is_replayed", False) or (is_refused and not context.is_admin):
        return
    if is_refused and found.kind == subjects.SERVER and found.verb != "update":
        return  # refused actions of servers are kept where they are refused
    ids = [found.id] if found.id else [] if is_refused else _made(response)
    unknown = [Subject(found.kind, found.id[:255], "", context.project_id)] if is_refused else []

    def changed() -> Sequence[Subject]:
        return before or subjects.find(context, found.kind, ids) or unknown

    error = getattr(response, "cause", None)
    details = {"method": request.method, "path": request.path[:255]}
    member_audit.keep(context, found.verb, changed, reason=reason, error=error, **details)


def change(request: Request) -> Change | None:
    """What of a project's things the request changes; None for what is not put on record here."""
    match, kind = _match(request.path)
    verb = _VERBS.get(str(request.method))
    if match is None or verb is None:
        return None
    found = dict.fromkeys(("part", "deed", "action"), "") | {name: one or "" for name, one in match.groupdict().items()}
    ident = found["id"] or found["made_by"]
    if found["made_by"] and request.method == "POST":
        verb, ident = _MADE_BY[ident], ""
    elif found["part"]:
        verb = "update"
    elif found["deed"]:
        verb = _NEW_WORDS.get(found["deed"], found["deed"])
    elif found["action"]:
        verb = _action(request)
    elif "manage" in found["word"]:
        verb = "manage"
    if kind == subjects.SERVER and verb not in _OF_SERVERS:
        return None
    return Change(kind, verb, ident) if verb else None


def _match(path: str) -> tuple[re.Match[str] | None, str]:
    """Where the path leads, and the kind of thing that is there."""
    for pattern, kinds in _PATHS:
        match = pattern.match(path)
        if match is not None:
            return match, kinds[match["word"]]
    return None, ""


def _action(request: Request) -> str:
    """What the body asks for, such as "extend"; "" for what only reads."""
    body = getattr(request, "_full_data", None)  # one that nobody has read was refused before
    key = next(iter(body), "") if isinstance(body, Mapping) else ""
    return key.removeprefix("os-") if isinstance(key, str) and key not in _READS else ""


def _made(response: Response) -> list[str]:
    """The ids of what the answer tells of; a key pair's is its name, or what it gives access by."""
    body: Any = getattr(response, "data", None)
    inner = next(iter(body.values())) if isinstance(body, Mapping) and len(body) == 1 else body
    made = inner if isinstance(inner, list) else [inner]
    return [str(one.get("id") or one.get("name") or one.get("access")) for one in made if isinstance(one, Mapping)]
