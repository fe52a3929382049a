"""Attacks on signing in: guessing, storms of sign-ins, oracles, and locking a victim out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connections
from django.test import Client
from django.test.utils import CaptureQueriesContext

from conductor.core.errors import TooManyRequests
from conductor.identity import domains, passwords, users
from conductor.identity.models import SignInRecord, Token, User
from conductor.identity.passwords import HashLimiter
from tests import factories
from tests.api_client import ApiClient
from tests.fixtures.races import at_once
from tests.people import PASSWORD
from tests.waiting import WAIT_SECONDS, wait_until

TOKENS = "/identity/v3/auth/tokens"


def at(address: str) -> ApiClient:
    client = ApiClient()
    client._client.defaults["REMOTE_ADDR"] = address
    return client


def api(name: str, password: str, address: str = "192.0.2.1") -> Any:
    user = {"name": name, "domain": {"id": "default"}, "password": password}
    body = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}}}
    return at(address).post(TOKENS, body)


def page(name: str, password: str, address: str = "192.0.2.1") -> Any:
    return Client(REMOTE_ADDR=address).post("/sign-in", {"username": name, "password": password})


def seen(answer: Any, name: str) -> tuple[int, bytes, bool]:
    """Return what an attacker sees: the status, the body without the tried name, and whether it has a retry time."""
    tail = (
        answer.content.partition(b'<main class="entry-page"')[2].partition(b"csrfmiddlewaretoken")[0] or answer.content
    )
    return answer.status_code, tail.replace(name.encode(), b"NAME"), "Retry-After" in answer.headers


# The API has the domain beside the name; the page has it behind an @.
@pytest.mark.parametrize(("sign_in", "domain"), [(api, ""), (page, "@Default")])
def test_guessing_is_limited_and_does_not_reveal_accounts(
    people: Any, sign_in: Callable[..., Any], domain: str, settings: Any
) -> None:
    settings.NOVELLA_SIGN_IN_SECONDS = 86_400.0  # the bucket is not refilled during the test
    known = [seen(sign_in("ana", "wrong"), "ana") for _ in range(6)]
    unknown = [seen(sign_in("yan", "wrong", "192.0.2.2"), "yan") for _ in range(6)]
    assert known == unknown
    assert [status for status, _, _ in known] == [401] * 5 + [429]
    assert [says_when for _, _, says_when in known] == [False] * 5 + [True]
    refused = sign_in("ana", PASSWORD)  # the right one among the guesses is not found by the answer either
    assert (refused.status_code, int(refused.headers["Retry-After"]) > 0) == (429, True)
    assert sign_in(f"ANA{domain}", "wrong").status_code == 429  # another spelling is the same account
    assert sign_in(f"YAN{domain}", "wrong", "192.0.2.2").status_code == 429
    assert not Token.objects.exists()
    assert sign_in("ana", PASSWORD, "192.0.2.3").status_code in (201, 302)  # elsewhere the owner signs in


@pytest.mark.parametrize("sign_in", [api, page])
def test_a_sign_in_of_a_similar_name_clears_no_failures(
    people: Any, sign_in: Callable[..., Any], settings: Any
) -> None:
    settings.NOVELLA_SIGN_IN_SECONDS = 86_400.0
    home = domains.create("home")
    users.create("ana", PASSWORD, domain_id=home.id)
    User.objects.create(username="ANA", password=passwords.hashed(PASSWORD), domain_id=domains.DEFAULT_ID)  # of old
    statuses = []
    for _ in range(6):
        statuses.append(sign_in("ana", "wrong").status_code)
        assert page("ana@home", PASSWORD).status_code == 302
        assert sign_in("ANA", PASSWORD).status_code in (201, 302)
    assert statuses == [401] * 5 + [429]
    by_id = {
        "identity": {"methods": ["password"], "password": {"user": {"id": people["ana"].user.id, "password": "wrong"}}}
    }
    assert at("192.0.2.1").post(TOKENS, {"auth": by_id}).status_code == 429


def test_guesses_at_a_credential_are_counted_together_by_id_and_name(people: Any, settings: Any) -> None:
    settings.NOVELLA_SIGN_IN_SECONDS = 86_400.0
    user_id = people["ana"].user.id
    made = ApiClient(people["ana"].token()).post(
        f"/identity/v3/users/{user_id}/application_credentials", {"application_credential": {"name": "deploy"}}
    )
    credential = made.json()["application_credential"]
    spellings: list[dict[str, Any]] = [
        {"id": credential["id"]},
        {"name": "deploy", "user": {"id": user_id}},
        {"name": "deploy", "user": {"name": "ana", "domain": {"id": "default"}}},
        {"name": "deploy", "user": {"name": "ana", "domain": {"name": "Default"}}},
    ]

    def log_in(named: dict[str, Any], secret: str) -> int:
        identity = {"methods": ["application_credential"], "application_credential": {**named, "secret": secret}}
        return int(at("192.0.2.1").post(TOKENS, {"auth": {"identity": identity}}).status_code)

    assert [log_in(spellings[number % 4], "wrong") for number in range(5)] == [401] * 5
    assert [log_in(named, credential["secret"]) for named in spellings] == [429] * 4
    assert api("ana", PASSWORD).status_code == 201  # its owner's password is another secret


def test_concurrent_guesses_stay_within_the_limit(people: Any, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.NOVELLA_SIGN_IN_SECONDS = 86_400.0
    monkeypatch.setattr(passwords, "limiter", HashLimiter(30))
    all_are_in, check = threading.Barrier(30), passwords._matches

    def together(stored: str, text: str) -> bool:
        all_are_in.wait(WAIT_SECONDS)  # each of them has passed the first check by then
        if text == PASSWORD:
            wait_until("the others have failed", lambda: statuses.count(429) == 24)
        return check(stored, text)

    statuses: list[int] = []

    def guess(number: int) -> None:
        statuses.append(api("ana", PASSWORD if number == 29 else f"wrong-{number}").status_code)

    monkeypatch.setattr(passwords, "_matches", together)
    at_once(30, guess)
    assert sorted(statuses) == [401] * 5 + [429] * 25
    assert not Token.objects.exists()


def test_the_user_of_a_credential_is_looked_up_once(people: Any) -> None:
    user_id = people["ana"].user.id
    path = f"/identity/v3/users/{user_id}/application_credentials"
    made = ApiClient(people["ana"].token()).post(path, {"application_credential": {"name": "deploy"}})
    named = {"name": "deploy", "user": {"name": "ana", "domain": {"id": "default"}}}
    secret = made.json()["application_credential"]["secret"]
    identity = {"methods": ["application_credential"], "application_credential": {**named, "secret": secret}}
    with CaptureQueriesContext(connections["default"]) as seen_queries:
        assert at("192.0.2.1").post(TOKENS, {"auth": {"identity": identity}}).status_code == 201
    by_name = [query for query in seen_queries if '"username" = ' in query["sql"]]
    assert len(by_name) == 1


def test_one_address_does_not_try_many_accounts(people: Any, settings: Any) -> None:
    settings.NOVELLA_SIGN_IN_FAILURES_PER_ADDRESS = 3
    answers = [api(name, "wrong", f"2001:db8::{number}").status_code for number, name in enumerate(("ana", "x", "y"))]
    assert answers == [401] * 3
    assert api("bo", "wrong", "2001:db8::99").status_code == 429  # one customer has all of these addresses
    assert api("bo", PASSWORD, "2001:db8:0:1::1").status_code == 201
    assert api("rea", PASSWORD, "192.0.2.1").status_code == 201


def test_a_distributed_attack_does_not_lock_out_the_user(people: Any, settings: Any) -> None:
    settings.NOVELLA_SIGN_IN_FAILURES_PER_ACCOUNT = 4
    home, new = "198.51.100.1", "198.51.100.2"
    assert api("ana", PASSWORD, home).status_code == 201
    storm = [api("ana", "wrong", f"192.0.2.{number}").status_code for number in range(6)]
    assert storm == [401] * 4 + [429] * 2
    assert api("ana", PASSWORD, home).status_code == 201
    assert api("ana", "wrong", home).status_code == 401  # one slip there, and the right one after it
    assert api("ana", PASSWORD, home).status_code == 201
    slowed = api("ana", PASSWORD, new)
    assert (slowed.status_code, int(slowed.headers["Retry-After"]) <= 15) == (429, True)
    assert api("bo", PASSWORD, new).status_code == 201


def test_sign_ins_that_succeed_are_not_limited_and_write_once(people: Any, settings: Any) -> None:
    settings.NOVELLA_SIGN_IN_FAILURES = settings.NOVELLA_SIGN_IN_FAILURES_PER_ADDRESS = 2
    settings.NOVELLA_SIGN_IN_FAILURES_PER_ACCOUNT = 2
    assert {api("ana", PASSWORD).status_code for _ in range(12)} == {201}
    first = list(SignInRecord.objects.values())
    assert len(first) == 1
    assert api("ana", PASSWORD).status_code == 201
    assert list(SignInRecord.objects.values()) == first
    assert b"ana" not in str(first).encode()


def test_limits_can_be_turned_off(people: Any, settings: Any) -> None:
    settings.NOVELLA_SIGN_IN_FAILURES = settings.NOVELLA_SIGN_IN_FAILURES_PER_ADDRESS = 0
    settings.NOVELLA_SIGN_IN_FAILURES_PER_ACCOUNT = 0
    assert {api("ana", "wrong").status_code for _ in range(7)} == {401}


class CountingLimiter(HashLimiter):
    """Counts the hashes that ran."""

    count = 0

    @contextmanager
    def entered(self, *, is_known: bool) -> Iterator[None]:
        with super().entered(is_known=is_known):
            self.count += 1
            yield


def test_every_refusal_costs_one_hash(people: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert api("ana", PASSWORD).status_code == 201  # remembered: right ones cost no more
    assert api("bo", PASSWORD).status_code == 201
    users.change(people.bo.user.id, {"is_active": False})
    users.change(people.rea.user.id, {"password": None})
    limiter = CountingLimiter(2)
    monkeypatch.setattr(passwords, "limiter", limiter)
    secret = {"id": "f" * 32, "secret": "wrong"}
    attacks = {
        "a wrong password": lambda: api("ana", "wrong"),
        "an unknown user": lambda: api("yan", "wrong"),
        "a disabled user with the right password": lambda: api("bo", PASSWORD),
        "a user without a password": lambda: api("rea", "wrong"),
        "the right password for a project of others": lambda: at("192.0.2.9").post(
            TOKENS,
            {
                "auth": {
                    "identity": {
                        "methods": ["password"],
                        "password": {"user": {"id": people.ana.user.id, "password": PASSWORD}},
                    },
                    "scope": {"project": {"id": people.chi.project.id}},
                }
            },
        ),
        "an unknown credential": lambda: at("192.0.2.9").post(
            TOKENS,
            {"auth": {"identity": {"methods": ["application_credential"], "application_credential": secret}}},
        ),
        "an unknown user's new password": lambda: at("192.0.2.9").post(
            f"/identity/v3/users/{'f' * 32}/password",
            {"user": {"original_password": "wrong", "password": "a-new-and-longer-one"}},
        ),
    }
    for what, attack in attacks.items():
        limiter.count = 0
        assert attack().status_code == 401, what
        assert limiter.count == 1, what
    limiter.count = 0
    assert api("ana", PASSWORD).status_code == 201
    assert limiter.count == 0


def test_a_storm_of_sign_ins_waits_in_a_short_queue_and_occupies_few_workers(
    people: Any, api_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert api("bo", PASSWORD, "198.51.100.1").status_code == 201
    with passwords._lock:
        passwords._proved.clear()  # as after a start: bo's password is hashed again
    limiter = HashLimiter(1, places=2, seconds=3600.0)
    monkeypatch.setattr(passwords, "limiter", limiter)
    client = api_client("ana")

    def guess(number: int) -> Any:
        try:
            return api(f"unknown-{number}", "wrong", f"192.0.2.{number}")
        finally:
            connections.close_all()

    def bo() -> Any:
        try:
            return api("bo", PASSWORD, "198.51.100.1")
        finally:
            connections.close_all()

    with ThreadPoolExecutor(13) as pool:
        with limiter.entered(is_known=False):  # as a hash that takes long
            storm = [pool.submit(guess, number) for number in range(12)]
            wait_until("turned away", lambda: sum(one.done() for one in storm) == 10)
            refused = [one.result() for one in storm if one.done()]
            assert {answer.status_code for answer in refused} == {429}
            assert {answer.headers["Retry-After"] for answer in refused} == {"1"}
            owner = pool.submit(bo)  # an address that is known for its account has a place of its own
            wait_until("in the queue", lambda: limiter._waiting[True] == 1)
            assert limiter._waiting[False] == 2
            assert client.get("/identity/v3/auth/projects").status_code == 200
        assert owner.result(WAIT_SECONDS).status_code == 201
        assert sorted(one.result(WAIT_SECONDS).status_code for one in storm) == [401] * 2 + [429] * 10
    assert limiter._running == 0
    assert SignInRecord.objects.count() == 1 + 2 * 3  # those that were turned away are no failures


def test_a_full_queue_gives_up_after_a_while() -> None:
    limiter = HashLimiter(1, places=1, seconds=0.01)
    with limiter.entered(is_known=True), pytest.raises(TooManyRequests), limiter.entered(is_known=True):
        pass
    with limiter.entered(is_known=False):
        assert limiter._waiting == {True: 0, False: 0}


def test_expired_sign_in_records_are_deleted(people: Any, settings: Any) -> None:
    settings.NOVELLA_SIGN_IN_SECONDS = 86_400.0
    settings.NOVELLA_SIGN_IN_FAILURES_PER_ADDRESS = settings.NOVELLA_SIGN_IN_FAILURES_PER_ACCOUNT = 0
    for number in range(4):
        assert api(f"x{number}", "wrong").status_code == 401
        assert SignInRecord.objects.update(ends_at=factories.ago(1)) == 1  # the others are gone
    assert SignInRecord.objects.count() == 1
