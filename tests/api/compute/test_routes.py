"""The table of routes: its page is what it says, and every route keeps to its versions and to who may use it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from conductor.identity import roles, tokens
from conductor.identity.models import Role, RoleAssignment, User
from portal.api.compute import reference
from portal.api.compute.microversions import VERSIONS
from portal.api.compute.policies import RULES, full_name
from portal.api.compute.routes import ROUTES
from portal.api.compute.table import Operation, Route
from portal.api.microversions import Microversion
from tests.api_client import ApiClient
from tests.architecture.tree import read
from tests.people import People

ROLES = ("admin", "manager", "member", "reader", "service")
NOWHERE = "99999999-9999-9999-9999-999999999999"
# Nobody is refused for a missing role before it is known whose server it is; the actions have rules of their own.
IN_BODY = ("servers/<str:server_id>/action",)
# There before, and then for kinds of consoles that no cloud has any more: 401, whoever asks.
ANSWERS_SINCE = {"os-console-auth-tokens/<str:token>": "2.31"}
# What a route is answered with for an id that nothing has, where it is no 404: the form of the id is looked at first.
OTHERWISE = frozenset({200, 201, 202, 204, 207, 400, 404, 409, 410, 413, 501})


@dataclass(frozen=True)
class Case:
    """One method of one route."""

    route: Route
    method: str
    operation: Operation

    def __str__(self) -> str:
        return f"{self.method} {self.route.path}"

    @property
    def path(self) -> str:
        return "/compute/v2.1/" + re.sub(r"<str:\w+>", NOWHERE, self.route.path)

    @property
    def version(self) -> str:
        """One in which it is there."""
        return ANSWERS_SINCE.get(self.route.path) or self.operation.until or self.operation.since


def _cases() -> Iterator[Case]:
    for route in ROUTES:
        for method, operation in route.operations.items():
            yield Case(route, method, operation)


CASES = list(_cases())


def test_the_page_of_routes_is_what_the_table_says() -> None:
    assert read(reference.PAGE) == reference.page(), "Run: manage.py draw_routes"


def test_the_table_is_of_one_piece() -> None:
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


@pytest.fixture
def askers(kept: dict[str, str], people: People) -> dict[str, str]:
    """A token of the project shop for each role, and those that open nothing."""
    found = {}
    for name in ROLES:
        user = User.objects.create(domain=people.ana.user.domain, username=f"only-{name}", password="!")
        role = Role.objects.get(name=name)
        RoleAssignment.objects.create(user=user, project=people.ana.project, role=role)
        found[name] = tokens.issue(user, people.ana.project, ["password"])[0]
    found["unscoped"] = tokens.issue(people.admin.user, None, ["password"])[0]
    RoleAssignment.objects.create(user=people.admin.user, is_on_system=True, role=Role.objects.get(name="admin"))
    on_system = tokens.Scope(is_on_system=True)
    found["system"] = tokens.issue_for(people.admin.user, on_system, tokens.Origin(["password"]))[0]
    return found


def _ask(case: Case, token: str | None, version: str) -> Any:
    client = ApiClient(token, version=version)
    body = {} if case.method in ("POST", "PUT") else None
    return client.call(case.method, case.path, body) if body is not None else client.call(case.method, case.path)


def _may(case: Case, role: str) -> bool:
    if case.operation.is_targeted and "<str:project_id>" in case.route.path:
        return role == "admin"  # the project that is asked about is none of the asker's
    rule = RULES[full_name(case.operation.rule)] if case.operation.rule else frozenset({"anyone"})
    return role == "admin" or bool(rule & {"anyone", "owner"}) or not rule.isdisjoint(roles.implied_names([role]))


@pytest.mark.django_db(databases="__all__")
def test_every_route_is_for_whom_its_rule_names(askers: dict[str, str]) -> None:
    """Every route × every role: refused exactly where the table of rules says so, and never by a failure of ours."""
    wrong = []
    for case in CASES:
        wanted = {"none": 401, "unscoped": 403, "system": 403}
        answers = {name: _ask(case, askers.get(name), case.version).status_code for name in wanted}
        wrong += [(str(case), name, answers[name]) for name, status in wanted.items() if answers[name] != status]
        if case.route.path in IN_BODY:
            continue
        for role in ROLES:
            status = _ask(case, askers[role], case.version).status_code
            is_right = status in OTHERWISE if _may(case, role) else _is_refusal(case, status)
            wrong += [] if is_right else [(str(case), role, status)]
    assert wrong == []


def _is_refusal(case: Case, status: int) -> bool:
    """403; where it depends on whose it is, what is not there for the asker is not there at all."""
    return status == 403 or (case.operation.is_targeted and status in (400, 404))


@pytest.mark.django_db(databases="__all__")
def test_every_route_is_there_in_its_versions_alone(askers: dict[str, str]) -> None:
    wrong = []
    for case in CASES:
        outside = []
        if case.operation.since != str(VERSIONS.minimum):
            outside.append(_beside(case.operation.since, -1))
        if case.operation.until:
            outside.append(_beside(case.operation.until, 1))
        for version in outside:
            status = _ask(case, askers["admin"], version).status_code
            wrong += [] if status == 404 else [(str(case), version, status)]
    assert wrong == []


def _beside(text: str, step: int) -> str:
    version = _parse(text)
    return f"{version.major}.{version.minor + step}"


# Path, and who is answered how: what belongs to another project or user is told apart from the own.
OTHERS = (
    ("/compute/v2.1/os-quota-sets/{own}", {"reader": 200, "service": 403, "admin": 200}),
    ("/compute/v2.1/os-quota-sets/{other}", {"reader": 403, "manager": 403, "admin": 200}),
    ("/compute/v2.1/os-quota-sets/{own}/detail", {"reader": 200, "service": 403}),
    ("/compute/v2.1/os-quota-sets/{other}/detail", {"member": 403, "admin": 200}),
    ("/compute/v2.1/os-quota-sets/{other}/defaults", {"reader": 200, "service": 200}),
    ("/compute/v2.1/os-simple-tenant-usage/{own}", {"reader": 200, "service": 403, "admin": 200}),
    ("/compute/v2.1/os-simple-tenant-usage/{other}", {"manager": 403, "admin": 200}),
    ("/compute/v2.1/limits?tenant_id={other}", {"manager": 403, "admin": 200}),
    ("/compute/v2.1/os-server-groups?all_projects=1", {"manager": 403, "admin": 200}),
    ("/compute/v2.1/os-keypairs?user_id={user}", {"manager": 403, "service": 403, "admin": 200}),
    ("/compute/v2.1/servers/{foreign}", {"manager": 404, "reader": 404, "admin": 200}),
    ("/compute/v2.1/servers/{web}", {"manager": 200, "reader": 200, "service": 403, "admin": 200}),
)


@pytest.mark.django_db(databases="__all__")
@pytest.mark.parametrize(("path", "wanted"), OTHERS, ids=[path for path, _ in OTHERS])
def test_what_belongs_to_others_is_told_apart(
    path: str, wanted: dict[str, int], askers: dict[str, str], people: People, kept: dict[str, str]
) -> None:
    names = {"own": people.ana.project.id, "other": people.chi.project.id, "user": people.chi.user.id, **kept}
    asked = path.format(**names)
    answers = {role: ApiClient(askers[role], version="2.90").get(asked).status_code for role in wanted}
    assert answers == wanted
