"""The route table: its page is up to date, and every route keeps to its versions. Policies: tests/api/rights."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from portal.api.compute import reference
from portal.api.compute.microversions import VERSIONS
from portal.api.compute.policies import RULES, full_name
from portal.api.compute.routes import ROUTES
from portal.api.compute.table import ComputeOperation, Route
from portal.api.microversions import Microversion
from tests.api_client import ApiClient
from tests.architecture.tree import read
from tests.people import People

NOWHERE = "99999999-9999-9999-9999-999999999999"


@dataclass(frozen=True)
class Case:
    """One method of one route."""

    route: Route
    method: str
    operation: ComputeOperation

    def __str__(self) -> str:
        return f"{self.method} {self.route.path}"

    @property
    def path(self) -> str:
        return "/compute/v2.1/" + re.sub(r"<str:\w+>", NOWHERE, self.route.path)


def _cases() -> Iterator[Case]:
    for route in ROUTES:
        for method, operation in route.operations.items():
            yield Case(route, method, operation)


CASES = list(_cases())


def test_the_page_of_routes_is_what_the_table_says() -> None:
    assert read(reference.PAGE) == reference.page(), "Run: make reference"


def test_the_route_table_is_consistent() -> None:
    paths = [route.path for route in ROUTES]
    assert len(paths) == len(set(paths)) > 100
    rules = [full_name(case.operation.rule) for case in CASES if case.operation.rule]
    assert [rule for rule in rules if rule not in RULES] == []
    for case in CASES:
        assert callable(getattr(case.route.view, case.method.lower(), None)), str(case)
        assert VERSIONS.minimum <= _parse(case.operation.since) <= VERSIONS.maximum, str(case)


@cache
def _parse(text: str) -> Microversion:
    major, minor = text.split(".")
    return Microversion(int(major), int(minor))


def _ask(case: Case, token: str, version: str) -> Any:
    client = ApiClient(token, version=version)
    body = {} if case.method in ("POST", "PUT") else None
    return client.call(case.method, case.path, body) if body is not None else client.call(case.method, case.path)


@pytest.mark.django_db(databases="__all__")
def test_every_route_is_there_in_its_versions_alone(people: People) -> None:
    token, wrong = people.admin.token(), []
    for case in CASES:
        outside = []
        if case.operation.since != str(VERSIONS.minimum):
            outside.append(_beside(case.operation.since, -1))
        if case.operation.until:
            outside.append(_beside(case.operation.until, 1))
        for version in outside:
            status = _ask(case, token, version).status_code
            wrong += [] if status == 404 else [(str(case), version, status)]
    assert wrong == []


def _beside(text: str, step: int) -> str:
    version = _parse(text)
    return f"{version.major}.{version.minor + step}"


def test_routes_without_query_parameters_refuse_them_from_their_version_on(people: People) -> None:
    asks = [case for case in CASES if case.method == "GET" and getattr(case.route.view, "bare_since", None)]
    assert len(asks) == 29
    admin = ApiClient(people.admin.token())
    for case in asks:
        for query in ("colour=blue", "limit=1"):
            values = {}
            for version in ("2.101", "2.102"):
                answer = admin.get(f"{case.path}?{query}", headers={"OpenStack-API-Version": f"compute {version}"})
                values[version] = "query parameters" in answer.content.decode()
            assert values == {"2.101": False, "2.102": True}, case
