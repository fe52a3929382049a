"""Policies: every method of every route of every API has the documented status for each caller.

The tables beside this file have rule and status; `policies.py` of each API has the roles of each rule.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.urls import resolve

from portal.api.authorization import RuleTable
from portal.api.compute.policies import full_name
from portal.api.compute.routes import ROUTES
from tests.api.rights.callers import make_callers
from tests.api.rights.scene import Names, filled, make_scene
from tests.api.rights.table import APIS, PUBLIC, RightsRow, expected, methods_of, rows_of
from tests.api_client import ApiClient
from tests.fixtures.undone import undone
from tests.people import People

# In which version a row is asked that names none
DEFAULT = {"volume": "3.67", "placement": "1.39"}
# Packages below portal.api, of the APIs that are not in one of their own name.
PACKAGES = {"load-balancer": "network.load_balancing"}


def module_of(api: str, name: str) -> Any:
    return import_module(f"portal.api.{PACKAGES.get(api, api)}.{name}")


def rules_of(api: str) -> RuleTable:
    """Return the table of rules that an API goes by."""
    found: RuleTable = module_of(api, "policies").RULES
    return found


def route_of(row: RightsRow) -> str:
    """Return the route that answers the row's path."""
    return str(resolve(row.path.partition("?")[0]).route)


@pytest.mark.parametrize("api", APIS)
def test_every_caller_gets_the_one_documented_answer(api: str, people: People, settings: Any, tmp_path: Path) -> None:
    settings.NOVELLA_DATA = tmp_path
    settings.NOVELLA_OVN_NORTHBOUND = "unix:/none.sock"  # load balancers are only created with OVN
    settings.NOVELLA_HOST_DOWN_SECONDS = 3600.0  # the hosts of the scene report once, and the test takes long
    names = make_scene(api, people)
    callers = make_callers(people)
    clients = {name: ApiClient(caller.token) for name, caller in callers.items()}
    rules, wrong = rules_of(api), []
    subject = str(callers["owner"].token)
    for row in rows_of(api):
        sent = _request(row, api, names, subject)
        for name, caller in callers.items():
            with undone():
                answer = clients[name].call(row.method, *sent[0], headers=sent[1])
            promised = expected(row, caller, api, rules, names)
            if answer.status_code != promised:
                wrong.append(f"{row}: {name} {answer.status_code}, not {promised}: {answer.content[:120]!r}")
    assert not wrong, "\n".join(wrong)


def _request(row: RightsRow, api: str, names: Names, subject: str) -> tuple[list[Any], dict[str, str]]:
    """Path and body, and headers."""
    arguments: list[Any] = [filled(row.path, names)]
    body = row.more.get("body", {} if row.method in ("POST", "PUT", "PATCH") else None)
    if body is not None:
        arguments.append(filled(body, names))
    headers = dict(row.more.get("headers", {}))
    version = row.more.get("version", DEFAULT.get(api))
    if version:
        headers["OpenStack-API-Version"] = f"{api} {version}"
    if row.path.endswith("/auth/tokens"):
        headers["X-Subject-Token"] = subject
    return arguments, headers


@pytest.mark.parametrize("api", APIS)
def test_every_method_of_every_route_has_a_row(api: str) -> None:
    """A new route needs a row with its policy: see table.py for the format."""
    patterns = module_of(api, "urls").urlpatterns
    root = f"^{'api' if api == 'novella' else api}(?:/|$)"
    offered = {(root + route.removeprefix("^"), method) for route, method in methods_of(patterns)}
    named = {(route_of(row), row.method) for row in rows_of(api)}
    assert sorted(offered - named) == []


def test_the_rules_of_the_tables_are_those_of_the_apis() -> None:
    unknown = [(api, row.rule) for api in APIS for row in rows_of(api) if row.rule not in ("", PUBLIC, *rules_of(api))]
    assert unknown == []


def test_compute_goes_by_the_rules_of_its_own_table() -> None:
    """The route table names the rule of each method; rows with bodies may need an additional rule."""
    ruled = [row for row in rows_of("compute") if row.rule not in ("", PUBLIC)]
    named = {(row.method, route_of(row).rpartition("?:[0-9a-f]{32}/)?")[2], row.rule) for row in ruled}
    wanted = {
        (method, route.path, full_name(operation.rule))
        for route in ROUTES
        for method, operation in route.operations.items()
        if operation.rule
    }
    assert sorted(wanted - named) == []
