"""Viewers of live pages: read in few statements, and cached only while rights are unchanged."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.sessions.backends.db import SessionStore

from conductor.identity import projects, users
from conductor.services.accounts import preferences
from portal.live import viewers
from portal.live.viewers import SignedOut, Ticket
from tests.counting import counted
from tests.people import Person


@pytest.fixture
def ana(people: Any) -> Person:
    return people.ana  # type: ignore[no-any-return]


def ticket(person: Person) -> Ticket:
    return Ticket(person.session(), person.project.id, "en")


def test_many_are_read_in_three_statements_and_few_see_different_things(people: Any) -> None:
    tickets = [ticket(person) for person in (people.ana, people.bo, people.chi) for _ in range(5)]
    first = viewers.read_all(tickets)
    with counted("default") as seen:
        again = viewers.read_all(tickets)
    assert again == first
    assert len(seen.statements) == 3
    assert len({id(viewer) for viewer in again.values()}) == 3
    assert again[tickets[0]] == again[tickets[5]] != again[tickets[10]]  # ana and bo see the same, chi another project


def test_changed_preferences_apply_at_the_next_read(ana: Person) -> None:
    mine = ticket(ana)
    assert viewers.read(mine).language == "en"
    preferences.change(ana.user.id, {"language": "de", "time_zone": "Europe/Berlin"})
    viewer = viewers.read(mine)
    assert (viewer.language, viewer.time_zone) == ("de", "Europe/Berlin")


def end_session(person: Person, key: str) -> None:
    SessionStore(key).delete()


def change_password(person: Person, key: str) -> None:
    users.change(person.user.id, {"password": "another one, and longer"})


def disable_person(person: Person, key: str) -> None:
    users.change(person.user.id, {"is_active": False})


def disable_project(person: Person, key: str) -> None:
    projects.change(person.project.id, {"is_enabled": False})


def look_at_another(person: Person, key: str) -> None:
    session = SessionStore(key)
    session["project_id"] = "another"
    session.save()


def let_time_pass(person: Person, key: str) -> None:
    session = SessionStore(key)
    session["ends_at"] = 1.0
    session.save()


@pytest.mark.parametrize(
    "change", [end_session, change_password, disable_person, disable_project, look_at_another, let_time_pass]
)
def test_viewers_without_rights_are_signed_out_at_the_next_read(ana: Person, change: Any) -> None:
    mine = ticket(ana)
    assert viewers.read(mine).caller.project_id == ana.project.id
    change(ana, mine.session_key)
    with pytest.raises(SignedOut):
        viewers.read(mine)
