"""Which requests to the APIs change a project's things, and are put on record when they are done.

A request that was refused changes nothing and leaves no record. Bodies are not kept: they hold keys and data.
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
# The kind of thing that a path names. `part` is a part of one of them: whatever is done to that changes the whole.
# `deed` is what is done, in the path's words; an `action` says it in its body.
_PATHS = tuple(
    re.compile(rf"{root}(?P<word>{words})(?:/(?P<id>[^/]+)(?:/(?:{rest}))?)?\Z")
    for root, words, rest in (
        (
            r"/network/v2\.0/",
            "networks|subnets|ports|routers|floatingips|security-groups|security-group-rules",
            rf"(?P<part>{_PARTS})|(?P<deed>{_ROUTER_DEED})",
        ),
        (r"/volume/v3/(?:[0-9a-f]{32}/)?", "volumes|snapshots", rf"(?P<part>{_PARTS})|(?P<action>action)"),
        (r"/image/v2/", "images", rf"(?P<part>{_PARTS}|members(?:/[^/]+)?)|(?P<deed>file|stage|import)"),
        (
            r"/compute/v2\.1/(?:[0-9a-f]{32}/)?",
            "images|os-(?:security-groups|security-group-rules|floating-ips|volumes|snapshots|keypairs|server-groups)",
            rf"(?P<part>{_PARTS})",
        ),
    )
)
_KINDS = {
    "networks": "network",
    "subnets": "subnet",
    "ports": "port",
    "routers": "router",
    "floatingips": "floating_ip",
    "floating-ips": "floating_ip",
    "security-groups": "security_group",
    "security-group-rules": "security_group_rule",
    "volumes": "volume",
    "snapshots": "snapshot",
    "images": "image",
    "keypairs": subjects.KEY_PAIR,
    "server-groups": "server_group",
}
_NEW_WORDS = {"add_router_interface": "add_interface", "remove_router_interface": "remove_interface", "file": "upload"}
_READS = frozenset({"os-show_image_metadata"})


@dataclass(frozen=True)
class Change:
    """What a request changes: the kind of thing, what is done, and to which; "" while that is being made."""

    kind: str
    verb: str
    id: str


def before(request: Request, context: RequestContext) -> list[Subject]:
    """What the request would delete: afterwards nobody knows its name any more."""
    change = _change(request) if request.method == "DELETE" else None
    return subjects.find(context, change.kind, [change.id]) if change and change.verb == "delete" else []


def keep(
    request: Request, response: Response, context: RequestContext, deleted: Sequence[Subject], reason: str
) -> None:
    """Put on record what the request has changed."""
    change = _change(request)
    if change is None or response.status_code >= 400 or getattr(request, "is_replayed", False):
        return
    ids = [change.id] if change.id else _made(response)
    changed = deleted if change.verb == "delete" else subjects.find(context, change.kind, ids)
    if changed:
        path = request.path[:255]
        member_audit.keep(context, change.verb, changed, reason=reason, method=request.method, path=path)


def _change(request: Request) -> Change | None:
    match = next(filter(None, (path.match(request.path) for path in _PATHS)), None)
    verb = _VERBS.get(str(request.method))
    if match is None or verb is None:
        return None
    found = {"id": "", "part": "", "deed": "", "action": ""} | {
        name: one or "" for name, one in match.groupdict().items()
    }
    if found["part"]:
        verb = "update"
    elif found["deed"]:
        verb = _NEW_WORDS.get(found["deed"], found["deed"])
    elif found["action"]:
        verb = _action(request)
    kind = _KINDS[found["word"].removeprefix("os-")]
    return Change(kind, verb, found["id"]) if verb else None


def _action(request: Request) -> str:
    """What the body asks for, such as "extend"; "" for what only reads."""
    body = getattr(request, "_full_data", None)  # one that nobody has read was refused before
    key = next(iter(body), "") if isinstance(body, Mapping) else ""
    return key.removeprefix("os-") if isinstance(key, str) and key not in _READS else ""


def _made(response: Response) -> list[str]:
    """The ids of what the answer tells of; a key pair's is its name."""
    body: Any = getattr(response, "data", None)
    inner = next(iter(body.values())) if isinstance(body, Mapping) and len(body) == 1 else body
    made = inner if isinstance(inner, list) else [inner]
    return [str(one.get("id") or one.get("name")) for one in made if isinstance(one, Mapping)]
