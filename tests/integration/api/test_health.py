"""Liveness, readiness, and what pages get that APIs do not."""

from __future__ import annotations

from typing import Any

from django.db import connections
from django.test import Client


def test_health_endpoints_of_a_ready_process(databases: None) -> None:
    assert Client().get("/healthz").json() == {"status": "ok"}
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ready"})
    assert "no-store" in answer.headers["Cache-Control"]
    assert Client().post("/readyz").status_code == 405


def test_a_missing_schema_migration_is_named_by_database(databases: None) -> None:
    with connections["cell1"].cursor() as cursor:
        cursor.execute("CREATE TABLE kept AS SELECT * FROM django_migrations")
        cursor.execute("DELETE FROM django_migrations WHERE app = 'cell_db' AND name = '0001_initial'")
        try:
            answer = Client().get("/readyz")
        finally:
            cursor.execute("DELETE FROM django_migrations")
            cursor.execute("INSERT INTO django_migrations SELECT * FROM kept")
            cursor.execute("DROP TABLE kept")
    assert answer.status_code == 503
    assert answer.json() == {"status": "not ready", "missing": {"cell1": "1 schema migrations are not applied"}}
    assert Client().get("/readyz").status_code == 200


def test_pages_have_a_strict_policy_and_apis_no_cookies(people: Any) -> None:
    page = Client().get("/sign-in")
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["X-Frame-Options"] == "DENY"
    assert page.headers["x-openstack-request-id"].startswith("req-")
    discovery = Client().get("/identity/v3")
    assert "Content-Security-Policy" not in discovery.headers
    assert "Set-Cookie" not in discovery.headers


def test_a_session_opens_no_openstack_api(people: Any) -> None:
    client = Client()
    client.force_login(people.admin.user)
    assert client.get("/identity/v3/projects").status_code == 401


def test_pages_are_guarded_against_forged_forms(people: Any) -> None:
    forged = Client(enforce_csrf_checks=True).post("/sign-in", {"username": "ana", "password": "x"})
    assert forged.status_code == 403
