"""The page that lists every route of the Compute API: made from the table that the API itself goes by."""

from __future__ import annotations

import re
from collections.abc import Iterator

from portal.api.compute.microversions import VERSIONS
from portal.api.compute.policies import RULES, full_name
from portal.api.compute.routes import ROUTES
from portal.api.compute.table import Operation, Route

PAGE = "docs/api/compute-routes.md"
PARAMETER = re.compile(r"<str:(\w+)>")
_HEAD = """# Routes of the Compute API

Made by `manage.py draw_routes` from the table in `portal/api/compute/routes/`, which routing, versions and rules go by
too; do not edit it by hand. Paths are below `/compute/v2.1`, with the project in front of them or not. A method outside
of its versions answers 404, one that a row does not name 405. [compute.md](compute.md) says how requests behave.

| path | method | versions | code | who | rule |
|---|---|---|---|---|---|
"""
_VERSIONS = f"""
## Versions

`{VERSIONS.minimum}` to `{VERSIONS.maximum}`; the newest is `latest`.

| version | what it changed |
|---|---|
"""


def page() -> str:
    """The whole page."""
    routes = "".join(row for route in ROUTES for row in _rows(route))
    notes = "".join(f"- `{shown_path(route)}`: {route.note}\n" for route in ROUTES if route.note)
    versions = "".join(f"| {version} | {sentence} |\n" for version, sentence in VERSIONS.history)
    return f"{_HEAD}{routes}\n## Notes\n\n{notes}{_VERSIONS}{versions}"


def shown_path(route: Route) -> str:
    """`/flavors/{flavor_id}`."""
    return "/" + PARAMETER.sub(r"{\1}", route.path)


def _rows(route: Route) -> Iterator[str]:
    for method, operation in route.operations.items():
        cells = (f"`{shown_path(route)}`", method, _versions(operation), str(operation.status), *_who(operation))
        yield f"| {' | '.join(cells)} |\n"


def _versions(operation: Operation) -> str:
    if operation.until:
        return f"{operation.since} to {operation.until}"
    return "all" if operation.since == str(VERSIONS.minimum) else f"from {operation.since}"


def _who(operation: Operation) -> tuple[str, str]:
    """Administrators pass every rule, so that they are named only where they are alone."""
    if not operation.rule:
        return "anyone", ""
    return ", ".join(sorted(RULES[full_name(operation.rule)])), f"`{full_name(operation.rule)}`"
