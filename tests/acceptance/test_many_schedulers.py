"""Sixteen schedulers as real processes on one PostgreSQL; invariants of the result are checked by plain SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import migrated
from tests.acceptance import deciders
from tests.acceptance.deciders import HOSTS, PROCESSES, QUOTA, RATIO, VCPUS
from tests.services import postgresql

Ask = Callable[[str], list[list[str]]]

OVERCOMMITTED = """
    SELECT p.name, a.resource_class, sum(a.amount), (i.total - i.reserved) * i.allocation_ratio
    FROM placement_allocation a
    JOIN placement_resourceprovider p ON p.id = a.provider_id
    JOIN placement_inventory i ON i.provider_id = p.id AND i.resource_class = a.resource_class
    GROUP BY p.name, a.resource_class, i.total, i.reserved, i.allocation_ratio
    HAVING sum(a.amount) > (i.total - i.reserved) * i.allocation_ratio"""
MISCOUNTED = """
    SELECT i.id, i.used, coalesce(sum(a.amount), 0)
    FROM placement_inventory i
    LEFT JOIN placement_allocation a ON a.provider_id = i.provider_id AND a.resource_class = i.resource_class
    GROUP BY i.id, i.used HAVING i.used <> coalesce(sum(a.amount), 0)"""
ON_SEVERAL_HOSTS = """
    SELECT c.uuid FROM placement_consumer c JOIN placement_allocation a ON a.consumer_id = c.id
    GROUP BY c.uuid HAVING count(DISTINCT a.provider_id) <> 1 OR count(*) <> 3"""
# Where members of groups have allocations, by placement and not by the groups' own rows.
MEMBERS = """
    SELECT g.name, p.name AS host, count(DISTINCT c.uuid) AS members
    FROM api_db_instancegroup g
    JOIN api_db_instancegroupmember m ON m.group_id = g.id
    JOIN placement_consumer c ON c.uuid = m.instance_uuid
    JOIN placement_allocation a ON a.consumer_id = c.id
    JOIN placement_resourceprovider p ON p.id = a.provider_id
    GROUP BY g.name, p.name"""
MISPLACED = """
    SELECT m.instance_uuid, m.host, p.name
    FROM api_db_instancegroupmember m
    JOIN placement_consumer c ON c.uuid = m.instance_uuid
    JOIN placement_allocation a ON a.consumer_id = c.id
    JOIN placement_resourceprovider p ON p.id = a.provider_id
    WHERE m.host <> p.name"""
OVER_QUOTA = f"""
    SELECT project_id, count(*) FROM api_db_instancemapping WHERE NOT is_deleted
    GROUP BY project_id HAVING count(*) > {QUOTA}"""
ATTEMPTS = """
    SELECT count(*), coalesce(sum((summary ->> 'lost_races')::int), 0)
    FROM api_db_schedulingdecision WHERE is_successful"""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[postgresql.Service]:
    server = migrated.start_server(tmp_path_factory.mktemp("deciders") / "postgresql", is_durable=False)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def results(database: postgresql.Service, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder: Path = tmp_path_factory.mktemp("results")
    deciders.set_up(folder, database.url)
    return deciders.decide(folder, database.url)


@pytest.fixture
def ask(database: postgresql.Service, results: list[dict[str, Any]]) -> Ask:
    """Rows of the API's database after all processes have ended, read by another program than the product."""
    return lambda sql: [line.split("|") for line in database.psql(sql, "novella_api").splitlines()]


def total(results: list[dict[str, Any]], what: str) -> int:
    return sum(result.get(what, 0) for result in results)


def test_the_schedulers_contended_on_a_full_fleet(results: list[dict[str, Any]], ask: Ask) -> None:
    places = int(HOSTS * VCPUS * RATIO)
    assert len(results) == PROCESSES
    assert total(results, "placed") > places, "no server was placed where another had been"
    assert total(results, "refused") > 0
    assert total(results, "over_quota") > 0
    assert total(results, "given_back") > 0
    assert ask("SELECT count(*) FROM placement_consumer") == [
        [str(total(results, "placed") - total(results, "given_back"))]
    ]


def test_no_host_is_overcommitted(ask: Ask) -> None:
    assert ask(OVERCOMMITTED) == []
    assert ask(MISCOUNTED) == []
    assert ask(ON_SEVERAL_HOSTS) == []


def test_no_hard_policy_of_a_group_is_broken(ask: Ask) -> None:
    members = [(name, host, int(count)) for name, host, count in ask(MEMBERS)]
    by_group = {group: [count for name, _, count in members if name == group] for group in deciders.GROUPS}
    assert all(by_group.values()), "a group without a placed server proves nothing"
    assert set(by_group["apart"]) == {1}
    assert max(by_group["two-at-most"]) <= 2
    assert len(by_group["near"]) == 1
    assert ask(MISPLACED) == []


def test_no_quota_is_exceeded(ask: Ask) -> None:
    assert ask(OVER_QUOTA) == []
    assert ask("SELECT count(*) FROM api_db_instancemapping") != [["0"]]


def test_a_lost_claim_is_followed_by_few_attempts(ask: Ask) -> None:
    [[decisions, lost]] = ask(ATTEMPTS)
    assert (int(decisions) + int(lost)) / int(decisions) <= 4.0  # on a full fleet, a quarter of them for three groups


def test_a_decision_reads_changed_hosts_and_not_the_whole_fleet(results: list[dict[str, Any]]) -> None:
    """The first decision reads all hosts; a later one without contention takes so many statements."""
    later = [count for result in results for count in result["statements"][1:]]
    assert min(later) <= 35
