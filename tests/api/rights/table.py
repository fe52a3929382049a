"""Tables of rights: for each method of each route the rule that decides, and the one status of everybody.

A YAML file of an API is a list of rows: method, path, rule, status of those who may; then, where it is needed, more:

    - [GET, "/v3/users/{ana}", "identity:get_user", 200]
    - [POST, "/v3/users", "identity:create_user", 201, {body: {user: {name: web}}}]

`{name}` in paths and bodies is a thing of the scene, most of them ana's in the project shop. The rule is empty where
everybody may who is signed in, and `public` where nobody has to be. More may be:

    body      what is sent; without it `{}` with POST, PUT and PATCH
    version   the microversion
    about     whom the rule is asked about: `shop` (the usual), `user` (ana), `domain` (the first), `nothing`
    other     the status of those who could in their own project (usually 404 where the path names a thing)
    refused   the status of those whom the rule refuses (usually 403)
    each      the status of single askers, where the rule alone does not say it
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from django.urls import URLPattern, URLResolver

from portal.api.authorization import RuleTable, is_allowed, takes_system
from tests.api.rights.askers import Asker

APIS = ("compute", "identity", "image", "network", "volume", "placement", "own")
PUBLIC = "public"
# What a row says that it is about → the targets of its rule
TARGETS: Mapping[str, Mapping[str, str]] = {
    "nothing": {},
    "shop": {"target_project_id": "shop"},
    "user": {"target_user_id": "ana", "target_domain_id": "domain", "target_project_id": "shop"},
    "domain": {"target_domain_id": "domain", "target_user_id": "none", "target_project_id": "shop"},
}


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    method: str
    path: str
    rule: str
    status: int
    more: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        action = next(iter(self.more["body"]), "") if self.path.endswith("/action") and self.more.get("body") else ""
        return f"{self.method} {self.path} {action}".rstrip()


def rows_of(api: str) -> list[Row]:
    """The table of an API."""
    lines = yaml.safe_load((Path(__file__).parent / f"{api}.yaml").read_text())
    found = [Row(*line) for line in lines]
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
    view = callback.cls
    return [name.upper() for name in view.http_method_names if hasattr(view, name) and name not in ("head", "options")]


def _is_about_cloud(row: Row, asker: Asker, rules: RuleTable) -> bool:
    """Administrators on the system read everything, and change what belongs to no project."""
    is_read = row.method in ("GET", "HEAD")
    return asker.name == "system_admin" and (is_read or row.rule not in rules or takes_system(rules[row.rule]))


def expected(row: Row, asker: Asker, api: str, rules: RuleTable, names: Mapping[str, str]) -> int:
    """The one status that the table promises to an asker."""
    each = row.more.get("each", {})
    if asker.name in each:
        return int(each[asker.name])
    context = asker.context
    if row.rule == PUBLIC:
        return row.status
    if context is None:
        return 401
    if api != "identity" and not asker.has_project and not _is_about_cloud(row, asker, rules):
        return 403  # all but identity is asked on behalf of a project, but for rules about the whole cloud
    about = {target: names[name] for target, name in TARGETS[row.more.get("about", "shop")].items()}
    if not row.rule or is_allowed(rules[row.rule], context, **about):
        return row.status
    if is_allowed(rules[row.rule], context) and api != "identity":
        return int(row.more.get("other", 404 if "{" in row.path else row.status))
    return int(row.more.get("refused", 403))
