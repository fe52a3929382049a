"""Patterns that a member writes to keep a process busy: each is answered, and none reaches a backtracking engine."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from django.db import OperationalError, connections

from conductor.api_db.models import Flavor
from conductor.core import time_budget
from conductor.identity.models import ApplicationCredential
from tests.compute_rows import make_cloud, make_instance

# A backtracking engine would need millions of years: the time limit of each test detects it.
ALL_A = "a" * 60
COSTLY = ("a?" * 60 + "a" * 60 + "b", "(a|aa)+$x", "(a+)+b", "(a*)*b", "(.*a){20}b", "((a?){30}){30}b")


@pytest.fixture
def cloud(people: Any) -> Any:
    return make_cloud(people)


@pytest.mark.parametrize("pattern", COSTLY)
def test_a_costly_name_filter_is_answered(pattern: str, cloud: Any, api_client: Any) -> None:
    for number in range(5):
        make_instance(cloud.people.ana.context(), "cell1", ALL_A + str(number))
    Flavor.objects.filter(flavor_id="1").update(name=ALL_A)
    ana = api_client("ana", version="2.102")
    for kind in ("servers", "servers/detail", "flavors"):
        answer = ana.get(f"/compute/v2.1/{kind}?name={quote(pattern)}")
        assert (answer.status_code, answer.json()[kind.split("/")[0]]) == (200, [])


def test_a_pattern_finds_its_servers_page_by_page(cloud: Any, api_client: Any) -> None:
    """Names between the pages that do not match are passed over, and none that matches is left out."""
    for number in range(9):
        make_instance(cloud.people.ana.context(), f"cell{number % 2 + 1}", f"{'web' if number % 3 else 'db'}-{number}")
    ana, found, link = (
        api_client("ana"),
        [],
        "/compute/v2.1/servers?name=w[aeiou]b&limit=2&sort_key=display_name&sort_dir=asc",
    )
    while link:
        answer = ana.get(link).json()
        found += [server["name"] for server in answer["servers"]]
        link = next((link["href"] for link in answer.get("servers_links", ())), "")
    assert found == ["web-1", "web-2", "web-4", "web-5", "web-7", "web-8"]


@pytest.mark.parametrize("pattern", [r"(a)\1", "(?=a)", "(?<!a)b", "(", "(?:(?:a{100}){100}){100}", "x" * 256])
def test_patterns_that_need_backtracking_are_refused_by_name(pattern: str, cloud: Any, api_client: Any) -> None:
    ana = api_client("ana", version="2.102")
    for kind in ("servers", "flavors"):
        answer = ana.get(f"/compute/v2.1/{kind}?name={quote(pattern)}")
        assert answer.status_code == 400
        assert "name" in answer.json()["badRequest"]["message"]


@pytest.mark.parametrize("path", ["/**" + "a**" * 20 + "b", "/*" + "a*" * 60 + "b", "/" + "{x}" * 40 + "b"])
def test_the_path_of_an_access_rule_is_matched_in_linear_time(path: str, people: Any, api_client: Any) -> None:
    rule = {"service": "compute", "method": "GET", "path": path}
    body = {"application_credential": {"name": "slow", "secret": "one-eye-open", "access_rules": [rule]}}
    made = api_client("ana").post(f"/identity/v3/users/{people.ana.user.id}/application_credentials", body)
    assert made.status_code == 201
    found = ApplicationCredential.objects.get(name="slow")
    proof = {"id": found.id, "secret": "one-eye-open"}
    auth = {"auth": {"identity": {"methods": ["application_credential"], "application_credential": proof}}}
    token = api_client(None).post("/identity/v3/auth/tokens", auth).headers["X-Subject-Token"]
    answer = api_client(None).get("/compute/v2.1/servers/" + "a" * 5000, headers={"X-Auth-Token": token})
    assert answer.status_code == 401


def test_a_list_past_the_time_of_its_request_ends(cloud: Any, api_client: Any, settings: Any) -> None:
    ana = api_client("ana")
    settings.NOVELLA_REQUEST_SECONDS = -1
    answer = ana.get("/compute/v2.1/servers")
    assert answer.status_code == 503
    assert "narrow it with filters" in answer.json()["serviceUnavailable"]["message"]


def test_a_statement_past_the_time_of_its_request_ends(databases: None) -> None:
    """On PostgreSQL, `statement_timeout` ends it as well."""
    connection = connections["default"]
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = 50")
            with pytest.raises(OperationalError):
                cursor.execute("SELECT pg_sleep(600)")
            cursor.execute("RESET statement_timeout")
        return
    numbers = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
    with time_budget.within(0.05), connection.cursor() as cursor, pytest.raises(OperationalError):
        cursor.execute(numbers)
