"""Usage: hours within a period, over all cells, page by page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from conductor.core.context import RequestContext
from conductor.services.billing import usage
from conductor.services.billing.usage import UsageQuery
from tests.api_client import ApiClient
from tests.compute_rows import make_cloud, make_instance
from tests.people import People

pytestmark = pytest.mark.django_db(databases="__all__")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
PATH = "/compute/v2.1/os-simple-tenant-usage"
DAY = "start=2026-03-01T00:00:00&end=2026-03-02T00:00:00"


@pytest.fixture
def ana(people: People) -> RequestContext:
    make_cloud(people)
    context, chi = people.ana.context(), people.chi.context()
    make_instance(context, "cell1", "short", launched_at=NOON, terminated_at=NOON + HOUR, deleted_at=NOON + HOUR)
    make_instance(context, "cell2", "long", launched_at=NOON - 30 * HOUR)
    make_instance(context, "cell1", "later", launched_at=NOON + 20 * HOUR)
    make_instance(context, "cell1", "never", launched_at=None)
    make_instance(chi, "cell2", "foreign", launched_at=NOON + 2 * HOUR, terminated_at=NOON + 14 * HOUR)
    return context


def _hours(context: RequestContext, **query: Any) -> dict[str, float]:
    wanted = UsageQuery(datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC), **query)
    return {server.name: server.hours for server in usage.servers(context, wanted).items}


def test_hours_are_those_within_the_period(ana: RequestContext) -> None:
    assert _hours(ana) == {"long": 24.0, "short": 1.0, "foreign": 10.0}
    assert _hours(ana, project_id=ana.project_id) == {"long": 24.0, "short": 1.0}


def test_sums_are_hours_times_amounts(ana: RequestContext, people: People) -> None:
    answer = ApiClient(people.ana.token()).get(f"{PATH}/{ana.project_id}?{DAY}")
    assert answer.status_code == 200, answer.content
    shown = answer.json()["tenant_usage"]
    assert (shown["total_hours"], shown["total_vcpus_usage"]) == (25.0, 25.0)
    assert (shown["total_memory_mb_usage"], shown["total_local_gb_usage"]) == (25.0 * 128, 25.0)
    assert (shown["start"], shown["stop"]) == ("2026-03-01T00:00:00.000000", "2026-03-02T00:00:00.000000")
    long, short = shown["server_usages"]
    assert (short["state"], short["uptime"], short["ended_at"]) == ("terminated", 3600, "2026-03-01T13:00:00.000000")
    assert (long["state"], long["ended_at"]) == ("active", None)


def test_operators_see_all_projects_and_servers_where_they_ask_for_them(ana: RequestContext, people: People) -> None:
    client = ApiClient(people.admin.token())
    brief = client.get(f"{PATH}?{DAY}").json()["tenant_usages"]
    assert {one["tenant_id"]: one["total_hours"] for one in brief} == {
        ana.project_id: 25.0,
        people.chi.project.id: 10.0,
    }
    assert all("server_usages" not in one for one in brief)
    detailed = client.get(f"{PATH}?{DAY}&detailed=1").json()["tenant_usages"]
    assert sum(len(one["server_usages"]) for one in detailed) == 3


def test_pages_give_every_server_once(ana: RequestContext, people: People) -> None:
    client = ApiClient(people.admin.token(), version="2.40")
    seen, path = [], f"{PATH}?{DAY}&detailed=1&limit=1"
    for _ in range(3):
        answer = client.get(path).json()
        seen += [server["name"] for one in answer["tenant_usages"] for server in one["server_usages"]]
        links = answer.get("tenant_usages_links")
        path = links[0]["href"].removeprefix("http://testserver") if links else ""
    assert (seen, path) == (["long", "short", "foreign"], "")
