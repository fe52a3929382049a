"""Rates of requests by project, and pages of other origins."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.api_db.models import PluginQuarantine
from portal.api import rate_limits
from portal.api.rate_limits import Buckets
from tests.integration.page_clients import signed_in, text


@pytest.fixture(autouse=True)
def fresh_buckets(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    clock = [0.0]
    monkeypatch.setattr(rate_limits, "buckets", Buckets(lambda: clock[0]))
    return clock


def test_a_project_over_its_rate_limit_gets_a_retry_after(
    api_client: Any, settings: Any, fresh_buckets: list[float]
) -> None:
    settings.NOVELLA_REQUESTS_PER_MINUTE = 6
    ana, bo, chi = (api_client(who) for who in ("ana", "bo", "chi"))
    assert [one.get("/api/workflows").status_code for one in (ana, bo) * 3] == [200] * 6
    late = bo.get("/compute/v2.1/flavors")
    assert (late.status_code, late.headers["Retry-After"]) == (429, "10")
    assert "6 requests a minute" in late.json()["overLimit"]["message"]
    assert late.json()["overLimit"]["retryAfter"] == "10"
    assert chi.get("/api/workflows").status_code == 200  # another project
    fresh_buckets[0] += 10
    assert [ana.get("/api/workflows").status_code for _ in range(2)] == [200, 429]


def test_a_page_over_the_rate_limit_says_how_long_to_wait(people: Any, settings: Any) -> None:
    ana = signed_in("ana")
    settings.NOVELLA_REQUESTS_PER_MINUTE = 2  # the list, and the names that it shows
    assert ana.get("/networks").status_code == 200
    late = ana.get("/networks")
    assert late.status_code == 429
    assert "More than 2 requests a minute; try again in 30 s." in text(late)


def test_changes_have_a_rate_limit_of_their_own_and_refused_ones_do_nothing(api_client: Any, settings: Any) -> None:
    settings.NOVELLA_CHANGES_PER_MINUTE = 1
    admin, path = api_client("admin"), "/api/plugins/filter/{}/quarantine"
    first = admin.post(path.format("ComputeFilter"), {"reason": "a test"})
    second = admin.post(path.format("SameHostFilter"), {"reason": "a test"})
    assert (first.status_code, second.status_code) == (200, 429)
    assert [row.name for row in PluginQuarantine.objects.all()] == ["ComputeFilter"]
    assert admin.get("/api/plugins").status_code == 200


def test_password_attempts_are_counted_by_address(databases: None, api_client: Any, settings: Any) -> None:
    settings.NOVELLA_CHANGES_PER_MINUTE = 2
    codes = [api_client(None).post("/identity/v3/auth/tokens", {}).status_code for _ in range(3)]
    assert codes == [400, 400, 429]


def test_failures_are_counted_only_if_configured(api_client: Any) -> None:
    ana = api_client("ana")
    assert {ana.get("/api/plugins").status_code for _ in range(30)} == {403}
    assert not rate_limits.buckets._levels


def test_token_buckets_refill_within_a_minute_up_to_their_size() -> None:
    clock = [0.0]
    buckets = Buckets(lambda: clock[0])
    assert [buckets.take("a", 3) for _ in range(4)] == [0, 0, 0, pytest.approx(20)]
    clock[0] = 600
    assert [buckets.take("a", 3) > 0 for _ in range(4)] == [False, False, False, True]


ORIGIN = {"Origin": "https://shop.example"}


def test_other_origins_get_nothing_unless_they_are_configured(api_client: Any, settings: Any) -> None:
    ana = api_client("ana")
    assert "Access-Control-Allow-Origin" not in ana.get("/api/workflows", headers=ORIGIN).headers
    settings.MIDDLEWARE = [settings.MIDDLEWARE[0], "corsheaders.middleware.CorsMiddleware", *settings.MIDDLEWARE[1:]]
    settings.CORS_ALLOWED_ORIGINS = ["https://shop.example"]
    ana = api_client("ana")
    named = ana.get("/api/workflows", headers=ORIGIN)
    assert named.headers["Access-Control-Allow-Origin"] == "https://shop.example"
    assert "Access-Control-Allow-Credentials" not in named.headers
    assert "idempotency-replayed" in named.headers["Access-Control-Expose-Headers"]
    before = ana.call("OPTIONS", "/compute/v2.1/servers", headers=ORIGIN | {"Access-Control-Request-Method": "POST"})
    assert (before.status_code, "x-auth-token" in before.headers["Access-Control-Allow-Headers"]) == (200, True)
    assert before.headers["x-openstack-request-id"]
    for origin, path in (("https://evil.example", "/api/workflows"), ("https://shop.example", "/sign-in")):
        answer = ana.get(path, headers={"Origin": origin})
        assert "Access-Control-Allow-Origin" not in answer.headers
