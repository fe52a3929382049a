"""Tables of rights: for each method of each route its policy rule, and the status for each caller.

A YAML file of an API is a list of rows: method, path, rule, status if permitted; then optional settings:

    - [GET, "/v3/users/{ana}", "identity:get_user", 200]
    - [POST, "/v3/users", "identity:create_user", 201, {body: {user: {name: web}}}]

`{name}` in paths and bodies is a resource of the scene, most of them ana's in the project shop. The rule is empty for
all signed-in callers, and `public` without a sign-in. The settings are:

    body      the request body; without it `{}` with POST, PUT and PATCH
    version   the microversion
    about     the rule's target: `shop` (the default), `user` (ana), `domain` (the first), `nothing`
    other     the status for callers that are permitted in their own project (404 by default for a path with a resource)
    refused   the status for refused callers (403 by default)
    each      the status for single callers, where the rule alone does not decide it
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from django.urls import URLPattern, URLResolver

from portal.api.authorization import RuleTable, is_allowed, takes_system
from tests.api.rights.callers import Caller

APIS = ("compute", "identity", "image", "network", "load-balancer", "volume", "placement", "novella")
PUBLIC = "public"
# `about` of a row → the targets of its rule
TARGETS: Mapping[str, Mapping[str, str]] = {
    "nothing": {},
    "shop": {"target_project_id": "shop"},
    "user": {"target_user_id": "ana", "target_domain_id": "domain", "target_project_id": "shop"},
    "domain": {"target_domain_id": "domain", "target_user_id": "none", "target_project_id": "shop"},
}


@dataclass(frozen=True)
class RightsRow:
    """One line of a table."""

    method: str
    path: str
    rule: str
    status: int
    more: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        action = next(iter(self.more["body"]), "") if self.path.endswith("/action") and self.more.get("body") else ""
        return f"{self.method} {self.path} {action}".rstrip()


def rows_of(api: str) -> list[RightsRow]:
    """Return the table of an API."""
    lines = yaml.load((Path(__file__).parent / f"{api}.yaml").read_text(), yaml.CSafeLoader)
    found = [RightsRow(*line) for line in lines]
    for row in found:
        assert row.more.keys() <= {"body", "version", "about", "other", "refused", "each", "headers"}, str(row)
    return found


def methods_of(patterns: list[Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """(route as Django spells it, method) of all that an API offers."""
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from methods_of(pattern.url_patterns, route)
        elif isinstance(pattern, URLPattern):
            yield from ((route, method) for method in _methods(pattern.callback))


def _methods(callback: Any) -> list[str]:
    operations = callback.initkwargs.get("operations")
    if operations:
        return list(operations)
    actions = getattr(callback, "actions", None)  # of a viewset
    if actions:
        return [name.upper() for name in actions if name != "head"]
    view = callback.cls
    return [name.upper() for name in view.http_method_names if hasattr(view, name) and name not in ("head", "options")]


def _is_about_cloud(row: RightsRow, caller: Caller, rules: RuleTable) -> bool:
    """Administrators on the system read everything, and change what belongs to no project."""
    is_read = row.method in ("GET", "HEAD")
    return caller.name == "system_admin" and (is_read or row.rule not in rules or takes_system(rules[row.rule]))


def expected(row: RightsRow, caller: Caller, api: str, rules: RuleTable, names: Mapping[str, str]) -> int:
    """Return the one status that the table promises to a caller."""
    each = row.more.get("each", {})
    if caller.name in each:
        return int(each[caller.name])
    context = caller.context
    if row.rule == PUBLIC:
        return row.status
    if context is None:
        return 401
    if api != "identity" and not caller.has_project and not _is_about_cloud(row, caller, rules):
        return 403  # all but identity is asked on behalf of a project, but for rules about the whole cloud
    about = {target: names[name] for target, name in TARGETS[row.more.get("about", "shop")].items()}
    if not row.rule or is_allowed(rules[row.rule], context, **about):
        return row.status
    if is_allowed(rules[row.rule], context) and api != "identity":
        return int(row.more.get("other", 404 if "{" in row.path else row.status))
    return int(row.more.get("refused", 403))
