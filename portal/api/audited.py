"""Which requests to the APIs change the cloud itself, and are put on record whoever sends them: a page or a program.

A right that is taken away is asked about later: whoever sends the request may say why in the header `Novella-Reason`
(percent-encoded where it is not plain ASCII). Pages ask for it.
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
from conductor.services import operator_audit
from portal.api import member_changes

REASON = "Novella-Reason"
_COMPUTE = r"/compute/v2\.1/(?:[0-9a-f]{32}/)?"
_VOLUME = r"/volume/v3/(?:[0-9a-f]{32}/)?"
_PLACE = r"(?:(?:OS-INHERIT/)?(?:projects|domains)/[^/]+|system)/(?:users|groups)/[^/]+"
_CHANGES = {"POST": "create", "PUT": "update", "PATCH": "update", "DELETE": "delete"}
_MEMBERSHIP = {"PUT": "add", "DELETE": "remove"}


@dataclass(frozen=True)
class Kind:
    """What stands at a path, and what each method does to it."""

    path: re.Pattern[str]
    noun: str
    verbs: Mapping[str, str]


def _kind(path: str, noun: str, verbs: Mapping[str, str] | None = None) -> Kind:
    return Kind(re.compile(rf"{path}\Z"), noun, verbs or _CHANGES)


# The first that matches counts. `{word}` in a noun or verb is what the path has there.
KINDS: tuple[Kind, ...] = (
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
    _kind(r"/identity/v3/OS-OAUTH1/consumers(?:/[^/]+)?", "consumer"),
    _kind(r"/identity/v3/OS-OAUTH1/authorize/[^/]+", "consumer", {"PUT": "authorize"}),
    _kind(r"/identity/v3/users/[^/]+/OS-OAUTH1/access_tokens/[^/]+", "consumer", {"DELETE": "revoke"}),
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
    _kind(r"/network/v2\.0/quotas/[^/]+", "quota", {"PUT": "update", "DELETE": "reset"}),
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
    """Put the request on record: those to the cloud, done or refused; those to a project's things, if done."""
    context = getattr(request, "context", None)
    if not isinstance(context, RequestContext):
        return
    found = named(request)
    if not found:
        member_changes.keep(request, response, context, getattr(request, "before", ()), reason_of(request))
        return
    details: dict[str, Any] = {"method": request.method, "path": request.path[:255]}
    sent = _sent(request)
    if sent:
        details["sent"] = sent
    made = _made(response)
    if made:
        details["made"] = made
    operator_audit.keep(
        context, found, reason=reason_of(request), error=getattr(response, "cause", None), details=details
    )


def reason_of(request: Request) -> str:
    """Why, in the words of whoever asks; empty where nothing was said."""
    text = unquote(request.headers.get(REASON, ""))
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())


def named(request: Request) -> str:
    """What is done, such as "user.update"; empty for what is not put on record."""
    for kind in KINDS:
        match = kind.path.match(request.path)
        if match is None:
            continue
        verb = kind.verbs.get(str(request.method))
        if verb is None:
            return ""
        words = {"word": match.groupdict().get("word", ""), "key": _first_key(request)}
        return f"{kind.noun}.{verb}".format(**words)
    return ""


def _sent(request: Request) -> Any:
    """The body as it was read; one that nobody has read was refused before."""
    body = getattr(request, "_full_data", None)
    return body if isinstance(body, Mapping | list) else None


def _first_key(request: Request) -> str:
    """Actions name themselves in their body."""
    body = _sent(request)
    key = next(iter(body), "") if isinstance(body, Mapping) else ""
    return key if isinstance(key, str) and re.fullmatch(r"[A-Za-z_]{1,40}", key) else "action"


def _made(response: Response) -> str:
    """The id of what the answer tells of."""
    body = response.data if isinstance(getattr(response, "data", None), Mapping) else {}
    inner = next(iter(body.values()), None) if len(body) == 1 else body
    return str(inner["id"]) if response.status_code < 400 and isinstance(inner, Mapping) and inner.get("id") else ""
