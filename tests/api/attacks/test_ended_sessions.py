"""Attacks with portal sessions that have ended: none comes back when its user may sign in again."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connections
from django.test import Client

from conductor.core.errors import NotAuthenticated
from conductor.identity import domains, second_factors, users
from conductor.identity.models import User
from tests.fixtures.second_factor import code_of
from tests.people import PASSWORD

PAGE = "/profile/password"


def signed_in(name: str = "ana") -> Client:
    client = Client()
    assert client.post("/sign-in", {"username": name, "password": PASSWORD}).status_code == 302
    assert client.get(PAGE).status_code == 200
    return client


def disable_and_enable_user(user: User) -> None:
    users.change(user.id, {"is_active": False})
    users.change(user.id, {"is_active": True})


def disable_and_enable_domain(user: User) -> None:
    domains.change(user.domain_id, {"is_enabled": False})
    domains.change(user.domain_id, {"is_enabled": True})


def set_second_factor(user: User) -> None:
    second_factors.confirm(user.id, code_of(second_factors.enrolment(user).key))


def reset_second_factor(user: User) -> None:
    set_second_factor(user)
    second_factors.reset(user.id)


ENDS = (disable_and_enable_user, disable_and_enable_domain, set_second_factor, reset_second_factor)


@pytest.mark.parametrize("end", ENDS)
def test_a_session_that_was_ended_opens_no_page_any_more(people: Any, end: Callable[[User], None]) -> None:
    home = domains.create("home")
    eve = users.create("eve", PASSWORD, domain_id=home.id)
    session, others = signed_in("eve"), signed_in("ana")
    end(eve)
    answer = session.get(PAGE)
    assert (answer.status_code, answer.headers["Location"].partition("?")[0]) == (302, "/sign-in")
    assert others.get(PAGE).status_code == 200


def test_the_session_that_sets_a_second_factor_goes_on(people: Any) -> None:
    client, elsewhere = signed_in(), signed_in()
    key = second_factors.enrolment(people.ana.user).key
    assert client.post("/profile/second-factor", {"do": "confirm", "code": code_of(key)}).status_code == 200
    assert client.get(PAGE).status_code == 200
    assert elsewhere.get(PAGE).status_code == 302


def test_concurrent_wrong_codes_count_like_sequential_ones(people: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    user_id = people.ana.user.id
    set_second_factor(people.ana.user)
    checked: list[str] = []
    take = second_factors._take
    monkeypatch.setattr(second_factors, "_take", lambda *given: checked.append(given[1]) or take(*given))

    def guess(number: int) -> bool:
        try:
            second_factors.prove(user_id, f"{number:06}")
        except NotAuthenticated:
            return False
        finally:
            connections.close_all()
        return True

    with ThreadPoolExecutor(30) as pool:
        assert not any(pool.map(guess, range(30)))
    assert len(checked) == second_factors.MOST_FAILURES
