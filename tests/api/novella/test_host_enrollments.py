"""Enrolling a host over HTTP: only a token permits it, once, for the host that the token was created for."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.core.context import system_context
from conductor.journal.models import AuditRecord
from conductor.rpc.broker_accounts import Account
from conductor.rpc.envelope import SigningKey
from conductor.rpc.key_store import STORE
from conductor.services.hosts import keys
from portal.api import rate_limits
from portal.api.novella.host_enrollments import MOST_PER_MINUTE
from tests import factories

PATH = "/api/host-enrollments"


@pytest.fixture
def anonymous(api_client: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(rate_limits, "buckets", rate_limits.Buckets())
    factories.cells()
    return api_client(None)


def hand_in(client: Any, token: str, key: str = "") -> Any:
    wanted = {"token": token, "public_key": key or SigningKey.new().public_text}
    return client.post(PATH, {"host_enrollment": wanted})


def test_a_token_enrolls_its_host_once(anonymous: Any) -> None:
    token, key = keys.create_token(system_context(), "rack-1", "cell1"), SigningKey.new()
    answer = hand_in(anonymous, token, key.public_text)
    assert answer.status_code == 201
    enrolled = answer.json()["host_enrollment"]
    assert enrolled == {"host": "rack-1", "cell": "cell1", "conductor_keys": STORE.conductor_keys()}
    assert hand_in(anonymous, token).status_code == 401
    assert [(one.host, one.key_id) for one in keys.list_keys()] == [("rack-1", key.key_id)]
    record = AuditRecord.objects.get(action="host.enroll")
    assert record.remote_address
    assert token not in str(list(AuditRecord.objects.values()))


def test_secrets_are_not_accepted_as_command_line_options(anonymous: Any) -> None:
    words = [keys.create_token(system_context(), "rack-1", "cell1") for _ in range(200)]
    words += [Account.of_host("rack-1", "cell1").password for _ in range(200)]
    words += [Account.of_conductors().password for _ in range(200)]
    assert [word for word in words if word.startswith("-")] == []


def test_no_key_is_accepted_without_a_valid_token(anonymous: Any, api_client: Any) -> None:
    token = keys.create_token(system_context(), "rack-1", "cell1")
    late = keys.create_token(system_context(), "rack-2", "cell1", seconds=-1.0)
    for client in (anonymous, api_client("ana"), api_client("admin")):
        for wrong in ("x", token[:-1], token.upper(), late):
            assert hand_in(client, wrong).status_code == 401
    for key in ("x", "AAAA", "é", "A" * 64):
        assert hand_in(anonymous, token, key).status_code == 400
    assert anonymous.post(PATH, {"host_enrollment": {"token": token}}).status_code == 400
    assert keys.list_keys() == []
    assert hand_in(anonymous, token).status_code == 201  # nothing of it used up the token


def test_enrolment_attempts_are_limited_by_address(anonymous: Any) -> None:
    answers = [hand_in(anonymous, "x").status_code for _ in range(MOST_PER_MINUTE + 1)]
    assert answers == [401] * MOST_PER_MINUTE + [429]
