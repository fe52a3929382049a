"""Generates the page that lists every route of the Compute API, from the route table that the API itself uses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from portal.api.compute.microversions import VERSIONS
from portal.api.compute.policies import RULES, full_name
from portal.api.compute.routes import ROUTES
from portal.api.compute.table import ComputeOperation, Route

PAGE = "docs/reference/api/compute-routes.md"
PARAMETER = re.compile(r"<str:(\w+)>")
_HEAD = """# Routes of the Compute API

This page lists every route of the compute API. `make reference` writes it from the table in
`portal/api/compute/routes/`, which the API itself uses; do not edit it. Paths are below `/compute/v2.1`, with or
without the project in front. [Microversions](microversions.md) lists what each
version changed. A method outside its versions answers 404, a method without a row 405. The
[compute API](compute.md) describes how requests behave.

| path | method | versions | code | who | rule |
|---|---|---|---|---|---|
"""


def page() -> str:
    """Return the generated page."""
    routes = "".join(row for route in ROUTES for row in _rows(route))
    notes = "".join(f"- `{shown_path(route)}`: {route.note}\n" for route in ROUTES if route.note)
    return f"{_HEAD}{routes}\n## Notes\n\n{notes}"


def shown_path(route: Route) -> str:
    """Return the path as documentation shows it, such as `/flavors/{flavor_id}`."""
    return "/" + PARAMETER.sub(r"{\1}", route.path)


def _rows(route: Route) -> Iterator[str]:
    for method, operation in route.operations.items():
        cells = (f"`{shown_path(route)}`", method, _versions(operation), str(operation.status), *_who(operation))
        yield f"| {' | '.join(cells)} |\n"


def _versions(operation: ComputeOperation) -> str:
    if operation.until:
        return f"{operation.since} to {operation.until}"
    return "all" if operation.since == str(VERSIONS.minimum) else f"from {operation.since}"


def _who(operation: ComputeOperation) -> tuple[str, str]:
    """Return the roles and the rule. Administrators pass every rule, so they are named only where they are alone."""
    if not operation.rule:
        return "anyone", ""
    return ", ".join(sorted(RULES[full_name(operation.rule)])), f"`{full_name(operation.rule)}`"
