"""Audit of API requests that change the cloud itself, whichever client sends them.

A caller that takes a right away may give the reason in the header `Novella-Reason` (percent-encoded where it is not
plain ASCII). Pages ask for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from rest_framework.request import Request
from rest_framework.response import Response

from conductor.core.context import RequestContext
from conductor.services.audit import operator_audit
from portal.api import member_changes
from portal.api.member_changes import ApiChange, ChangeResult

REASON = "Novella-Reason"
_COMPUTE = r"/compute/v2\.1/(?:[0-9a-f]{32}/)?"
_VOLUME = r"/volume/v3/(?:[0-9a-f]{32}/)?"
_PLACE = r"(?:(?:OS-INHERIT/)?(?:projects|domains)/[^/]+|system)/(?:users|groups)/[^/]+"
_CHANGES = {"POST": "create", "PUT": "update", "PATCH": "update", "DELETE": "delete"}
_MEMBERSHIP = {"PUT": "add", "DELETE": "remove"}


@dataclass(frozen=True)
class AuditedPath:
    """The noun for the resources at a path, and the verb of each method there."""

    path: re.Pattern[str]
    noun: str
    verbs: Mapping[str, str]


def _kind(path: str, noun: str, verbs: Mapping[str, str] | None = None) -> AuditedPath:
    return AuditedPath(re.compile(rf"{path}\Z"), noun, verbs or _CHANGES)


# The first match wins. `{word}` in a noun or verb stands for what the path has there.
KINDS: tuple[AuditedPath, ...] = (
    _kind(r"/identity/v3/(?P<word>user|project|role|domain|group)s(?:/[^/]+)?", "{word}"),
    _kind(r"/identity/v3/projects/[^/]+/cascade", "project"),
    _kind(r"/identity/v3/projects/[^/]+/tags(?:/[^/]+)?", "project", {"PUT": "update", "DELETE": "update"}),
    _kind(r"/identity/v3/domains/[^/]+/config(?:/[^/]+){0,2}", "domain.config"),
    _kind(r"/identity/v3/(?P<word>service|endpoint|region)s(?:/[^/]+)?", "catalog.{word}"),
    _kind(r"/identity/v3/policies(?:/[^/]+)?", "policy"),
    _kind(r"/identity/v3/(?P<word>limit|registered_limit)s(?:/[^/]+)?", "{word}"),
    _kind(r"/identity/v3/OS-EP-FILTER/endpoint_groups(?:/[^/]+)?", "endpoint_group"),
    _kind(r"/identity/v3/OS-EP-FILTER/endpoint_groups/[^/]+/projects/[^/]+", "endpoint_group.project", _MEMBERSHIP),
    _kind(r"/identity/v3/OS-EP-FILTER/projects/[^/]+/endpoints/[^/]+", "project.endpoint", _MEMBERSHIP),
    _kind(r"/identity/v3/roles/[^/]+/implies/[^/]+", "role.implied", _MEMBERSHIP),
    _kind(
        rf"/identity/v3/{_PLACE}/roles/[^/]+(?:/inherited_to_projects)?", "role", {"PUT": "grant", "DELETE": "revoke"}
    ),
    _kind(r"/identity/v3/groups/[^/]+/users/[^/]+", "group.member", _MEMBERSHIP),
    _kind(r"/api/users/[^/]+/second-factor", "user.second_factor", {"DELETE": "reset"}),
    _kind(r"/api/hosts/[^/]+/(?P<word>drain|canary|open|evacuate|note)", "host", {"POST": "{word}"}),
    _kind(r"/api/hosts/[^/]+/drain/action", "host", {"POST": "drain"}),
    _kind(r"/api/announcements(?:/[^/]+)?", "announcement"),
    _kind(rf"{_COMPUTE}os-aggregates/[^/]+/action", "aggregate", {"POST": "{key}"}),
    _kind(rf"{_COMPUTE}os-aggregates/[^/]+/images", "aggregate.images", {"POST": "cache"}),
    _kind(rf"{_COMPUTE}os-aggregates(?:/[^/]+)?", "aggregate"),
    _kind(rf"{_COMPUTE}flavors/[^/]+/action", "flavor", {"POST": "{key}"}),
    _kind(rf"{_COMPUTE}flavors/[^/]+/os-extra_specs(?:/[^/]+)?", "flavor.extra_specs", {**_CHANGES, "POST": "update"}),
    _kind(rf"{_COMPUTE}flavors(?:/[^/]+)?", "flavor"),
    _kind(rf"{_COMPUTE}os-quota-(?:class-)?sets/[^/]+", "quota", {"PUT": "update", "DELETE": "reset"}),
    _kind(rf"{_COMPUTE}os-services/[^/]+", "service"),
    _kind(rf"{_COMPUTE}os-hosts/[^/]+", "host"),
    _kind(rf"{_VOLUME}os-quota-(?:class-)?sets/[^/]+", "quota", {"PUT": "update", "DELETE": "reset"}),
    _kind(rf"{_VOLUME}types/[^/]+/action", "volume_type", {"POST": "{key}"}),
    _kind(rf"{_VOLUME}types/[^/]+/(?P<word>extra_specs|encryption)(?:/[^/]+)?", "volume_type.{word}"),
    _kind(rf"{_VOLUME}types(?:/[^/]+)?", "volume_type"),
    _kind(rf"{_VOLUME}qos-specs(?:/[^/]+)?(?:/delete_keys)?", "qos_specs"),
    _kind(rf"{_VOLUME}group_types/[^/]+/group_specs(?:/[^/]+)?", "group_type.specs"),
    _kind(rf"{_VOLUME}group_types(?:/[^/]+)?", "group_type"),
    _kind(rf"{_VOLUME}os-services/(?P<word>[a-z_-]{{1,40}})", "volume_service", {"PUT": "{word}"}),
    _kind(r"/(?:network/v2\.0|load-balancer/v2\.0/lbaas)/quotas/[^/]+", "quota", {"PUT": "update", "DELETE": "reset"}),
    _kind(r"/api/(?:quota-defaults|quotas/[^/]+)", "quota", {"PUT": "update", "DELETE": "reset"}),
    _kind(r"/network/v2\.0/auto-allocated-topology/[^/]+", "auto_topology"),
    _kind(
        r"/image/v2/metadefs/namespaces/[^/]+/(?P<word>objects|properties|tags|resource_types)(?:/[^/]+)?",
        "metadef.{word}",
    ),
    _kind(r"/image/v2/metadefs/namespaces(?:/[^/]+)?", "metadef"),
    _kind(r"/placement/(?P<word>resource_class|trait)(?:e?s)(?:/[^/]+)?", "{word}"),
    _kind(
        r"/placement/resource_providers/[^/]+/(?P<word>inventories|aggregates|traits)(?:/[^/]+)?",
        "resource_provider.{word}",
    ),
    _kind(r"/placement/resource_providers(?:/[^/]+)?", "resource_provider"),
    _kind(r"/placement/allocations(?:/[^/]+)?", "allocation"),
    _kind(r"/placement/reshaper", "allocation", {"POST": "reshape"}),
    _kind(r"/image/v2/images/[^/]+/actions/(?P<word>deactivate|reactivate)", "image", {"POST": "{word}"}),
)


def keep(request: Request, response: Response) -> None:
    """Record a client's request in the audit log."""
    context = getattr(request, "context", None)
    if not isinstance(context, RequestContext):
        return
    body = getattr(request, "_full_data", None)
    sent = body if isinstance(body, Mapping | list) else None
    result = ChangeResult(
        body=getattr(response, "data", None),
        error=getattr(response, "cause", None),
        is_refused=response.status_code >= 400,
        is_replayed=getattr(request, "is_replayed", False),
        before=getattr(request, "before", ()),
    )
    record(context, ApiChange(str(request.method), request.path, sent, reason_of(request)), result)


def record(context: RequestContext, change: ApiChange, result: ChangeResult) -> None:
    """Record a change in the audit log.

    Changes of the cloud are recorded whether they were done or refused; `member_changes` decides about all others.
    """
    found = named(change)
    if not found:
        member_changes.keep(context, change, result)
        return
    details: dict[str, Any] = {"method": change.method, "path": change.path[:255]}
    if change.sent:
        details["sent"] = change.sent
    made = _made(result)
    if made:
        details["made"] = made
    operator_audit.keep(context, found, reason=change.reason, error=result.error, details=details)


def reason_of(request: Request) -> str:
    """Return the reason that the caller gives; empty without one."""
    text = unquote(request.headers.get(REASON, ""))
    return plain(text)


def plain(text: str) -> str:
    """Return a reason on one line, without control characters."""
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())


def named(change: ApiChange) -> str:
    """Return the audited action, such as "user.update"; empty for a request that is not audited."""
    for kind in KINDS:
        match = kind.path.match(change.path)
        if match is None:
            continue
        verb = kind.verbs.get(change.method)
        if verb is None:
            return ""
        words = {"word": match.groupdict().get("word", ""), "key": _first_key(change.sent)}
        return f"{kind.noun}.{verb}".format(**words)
    return ""


def _first_key(body: Any) -> str:
    """Return the action's name: the first key of the body."""
    key = next(iter(body), "") if isinstance(body, Mapping) else ""
    return key if isinstance(key, str) and re.fullmatch(r"[A-Za-z_]{1,40}", key) else "action"


def _made(result: ChangeResult) -> str:
    """Return the id of the object in the response."""
    body = result.body if isinstance(result.body, Mapping) else {}
    inner = next(iter(body.values()), None) if len(body) == 1 else body
    return str(inner["id"]) if not result.is_refused and isinstance(inner, Mapping) and inner.get("id") else ""
