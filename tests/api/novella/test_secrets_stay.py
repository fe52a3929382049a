"""Secrets in requests are not disclosed: not in responses, not in logs, not in stored records."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.db import connections

from conductor.api_db.models import ClientRequest
from conductor.journal.models import AuditRecord, Event, WorkflowRun
from tests.compute_rows import make_cloud

MARK = "k3ep-m3-s4fe-0123456789"
READABLE = (Event, AuditRecord, ClientRequest)
SERVER = {"name": "web", "flavorRef": "1", "imageRef": "$image", "networks": "none", "adminPass": MARK}
AUTH = {"methods": ["password"], "password": {"user": {"name": "ana", "domain": {"id": "default"}, "password": MARK}}}
WRONG_AUTH = {"auth": {"identity": {**AUTH, "methods": ["telepathy"]}}}

CASES: list[tuple[str, str, Any, dict[str, str]]] = [
    ("POST", "/compute/v2.1/servers", {"server": {**SERVER, "colour": "red"}}, {}),
    ("POST", "/compute/v2.1/servers", {"server": {**SERVER, "adminPass": [MARK]}}, {}),
    ("POST", "/compute/v2.1/servers", {"server": {**SERVER, "adminPass": MARK * 20}}, {}),
    ("POST", "/compute/v2.1/servers", {"server": {**SERVER, "user_data": MARK + "!"}}, {}),
    ("POST", "/compute/v2.1/servers", {"server": SERVER}, {"Idempotency-Key": MARK + " with a space"}),
    ("POST", "/compute/v2.1/servers", f'{{"server": {{"adminPass": "{MARK}"', {}),
    ("POST", "/identity/v3/auth/tokens", {"auth": {"identity": AUTH}}, {}),
    ("POST", "/identity/v3/auth/tokens", WRONG_AUTH, {}),
    ("POST", "/identity/v3/auth/tokens", {"auth": {"identity": {"methods": ["token"], "token": {"id": MARK}}}}, {}),
    ("GET", "/identity/v3/auth/tokens", None, {"X-Subject-Token": f"nv_{MARK}"}),
    ("GET", "/compute/v2.1/servers", None, {"X-Auth-Token": f"nv_{MARK}"}),
    ("GET", "/api/workflows", None, {"X-Auth-Token": f"nv_{MARK}"}),
    ("GET", "/api/workflows", None, {"Cookie": f"novella_session={MARK}", "X-Auth-Token": ""}),
    ("PATCH", "/api/plugins/filter", {"order": []}, {"If-Match": "*", "Authorization": f"Basic {MARK}"}),
    ("POST", "/volume/v3/volumes", {"volume": {"size": 1, "password": MARK}}, {"Idempotency-Key": MARK}),
]


@pytest.fixture
def image(people: Any) -> str:
    return str(make_cloud(people).image.uuid)


def kept() -> str:
    """Return all stored and logged text that people can read."""
    rows = [
        str({name: value for name, value in vars(row).items() if name != "_state"})
        for alias in connections
        for kind in READABLE
        if kind is not ClientRequest or alias == "default"
        for row in kind.objects.using(alias).all()  # type: ignore[attr-defined]
    ]
    shown = [
        str((run.inputs, run.variables, run.error, run.context))
        for alias in connections
        for run in WorkflowRun.objects.using(alias).all()
    ]
    return "\n".join(rows + shown)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[1]}")
def test_no_refusal_repeats_a_secret(
    image: str, api_client: Any, caplog: pytest.LogCaptureFixture, case: tuple[str, str, Any, dict[str, str]]
) -> None:
    method, path, body, headers = case
    caplog.set_level(logging.DEBUG)
    if isinstance(body, dict) and isinstance(body.get("server"), dict):
        body = {"server": {**body["server"], "imageRef": image}}
    client = api_client("admin", version="2.90")
    extra = {} if body is None else {"body": body}
    answer = client.call(method, path, headers=headers, **extra)
    assert 200 <= answer.status_code < 500
    assert answer.status_code >= 400 or method == "PATCH"
    assert MARK not in answer.content.decode() + str(dict(answer.headers))
    assert MARK not in caplog.text
    assert MARK not in kept()


def test_a_password_is_shown_once_and_stored_unreadably(
    image: str, api_client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    client = api_client("ana", version="2.90")
    body = {"server": {**SERVER, "imageRef": image}}
    answer = client.post("/compute/v2.1/servers", body, headers={"Idempotency-Key": f"key-{MARK}"})
    assert answer.json()["server"]["adminPass"] == MARK
    assert MARK not in caplog.text
    assert MARK not in kept()
    run = answer.headers["Link"].partition(">")[0].removeprefix("<http://testserver")
    for path in (run, f"{run}/steps", f"{run}/events", "/api/events?after=", "/api/locks", "/api/audit"):
        for who in ("ana", "admin"):
            assert MARK not in api_client(who).get(path).content.decode(), path


def test_an_internal_error_shows_only_the_request_id(
    image: str, api_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError(f"cannot connect with the password {MARK}")

    monkeypatch.setattr("conductor.services.workflows.search.search", fail)
    monkeypatch.setattr("conductor.services.servers.instances.create", fail)
    listed = api_client("ana").get("/api/workflows")
    made = api_client("ana", version="2.90").post("/compute/v2.1/servers", {"server": {**SERVER, "imageRef": image}})
    for answer in (listed, made):
        assert answer.status_code == 500
        assert MARK not in answer.content.decode() + str(dict(answer.headers))
        assert answer.headers["x-openstack-request-id"] in answer.content.decode()
