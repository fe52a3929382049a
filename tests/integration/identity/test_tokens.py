"""Tokens against the real database: what is stored, how long they live, and what ends them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from conductor.core.errors import NotAuthenticated, NotFound
from conductor.identity import assignments, logins, passwords, projects, rights, tokens, users
from conductor.identity.assignments import AssignmentScope
from conductor.identity.logins import Login, Reference
from conductor.identity.models import Token
from tests.counting import Captured
from tests.people import PASSWORD


def login(person: Any, password: str = PASSWORD) -> Login:
    return Login(user=Reference(id=person.user.id), password=password, project=Reference(id=person.project.id))


def test_only_the_digest_is_stored(people: Any) -> None:
    text, granted = logins.log_in(login(people.ana))
    assert text.startswith("nv_")
    assert len(text) == 3 + 43  # 256 bits
    stored = Token.objects.get()
    assert stored.digest == tokens.digest_of(text)
    assert text not in str(Token.objects.values().get())
    assert granted.expires_at - granted.issued_at == timedelta(hours=4)
    assert granted.context("req-1").roles == {"member", "reader"}


def test_an_expired_token_is_refused_and_pruned_at_a_later_sign_in(people: Any) -> None:
    text, granted = logins.log_in(login(people.ana))
    Token.objects.update(expires_at=granted.issued_at - timedelta(seconds=1))
    rights.changed()
    with pytest.raises(NotAuthenticated):
        tokens.validate(text)
    assert tokens.validate(text, allow_expired=True).user.id == people.ana.user.id
    with pytest.raises(NotAuthenticated):
        tokens.validate(text)  # having been asked about it brings it not back to life
    logins.log_in(login(people.bo))
    assert Token.objects.filter(user=people.ana.user).count() == 1
    Token.objects.filter(user=people.ana.user).update(expires_at=granted.issued_at - timedelta(hours=48, seconds=1))
    rights.changed()
    with pytest.raises(NotAuthenticated):
        tokens.validate(text, allow_expired=True)
    logins.log_in(login(people.bo))
    assert Token.objects.filter(user=people.ana.user).count() == 0


def test_a_token_never_prolongs_itself(people: Any) -> None:
    text, first = logins.log_in(login(people.ana))
    again = Login(token=text, project=Reference(id=people.ana.project.id))
    _, second = logins.log_in(again)
    assert second.expires_at == first.expires_at
    assert second.audit_id != first.audit_id


def test_each_way_to_end_a_session(people: Any) -> None:
    place = AssignmentScope(user_id=people.ana.user.id, project_id=people.ana.project.id)
    endings = {
        "revoked": lambda text: tokens.revoke(text),
        "new password": lambda text: users.change(people.ana.user.id, {"password": "other-ducks-swim"}),
        "user disabled": lambda text: users.change(people.ana.user.id, {"is_active": False}),
        "project disabled": lambda text: projects.change(people.ana.project.id, {"is_enabled": False}),
        "role taken": lambda text: assignments.take_away(place, people.ana.role.id),
        "project deleted": lambda text: projects.delete(people.ana.project.id),
        "user deleted": lambda text: users.delete(people.ana.user.id),
    }
    for name, end in endings.items():
        users.change(people.ana.user.id, {"is_active": True})
        if name != "user deleted":
            projects.change(people.ana.project.id, {"is_enabled": True})
            assignments.grant(place, people.ana.role.id)
            text, _ = tokens.issue(people.ana.user, people.ana.project, ["password"])
        else:
            text, _ = tokens.issue(people.ana.user, None, ["password"])
        assert tokens.validate(text).user.username == "ana", name
        end(text)
        with pytest.raises(NotAuthenticated):
            tokens.validate(text)


def test_revoking_an_unknown_token_is_no_error(people: Any) -> None:
    with pytest.raises(NotFound):
        tokens.revoke("never-issued")


@pytest.mark.parametrize("text", ["", "x", "\x00", "\ud800", "é" * 5000])
def test_any_text_is_a_token_that_does_not_exist(people: Any, text: str) -> None:
    with pytest.raises(NotAuthenticated):
        tokens.validate(text)


def test_a_refused_login_leaves_nothing(people: Any) -> None:
    for wrong in (login(people.ana, "wrong"), Login(), login(people.ana, "")):
        with pytest.raises(NotAuthenticated):
            logins.log_in(wrong)
    assert Token.objects.count() == 0


def test_a_token_and_a_password_of_different_users_are_refused(people: Any) -> None:
    mixed = Login(user=Reference(id=people.ana.user.id), password=PASSWORD, token=people.bo.token())
    with pytest.raises(NotAuthenticated):
        logins.log_in(mixed)


def test_validation_costs_nothing_until_rights_change(people: Any) -> None:
    text = people.admin.token()
    with Captured(connection) as queries:
        tokens.validate(text)
        tokens.validate(text)
    assert len(queries) == 0
    assignments.grant(AssignmentScope(user_id=people.bo.user.id, domain_id="default"), people.bo.role.id)
    with Captured(connection) as queries:
        tokens.validate(text)
        tokens.validate(text)
    # The version of rights, the token, the assignments, the roles and what they imply.
    assert len(queries) == 5


def test_a_proved_password_is_remembered_until_it_changes(people: Any) -> None:
    people.ana.user.refresh_from_db()
    assert passwords.is_right(people.ana.user, PASSWORD)
    assert passwords.is_right(people.ana.user, PASSWORD)
    assert not passwords.is_right(people.ana.user, PASSWORD + "x")
    changed = users.change(people.ana.user.id, {"password": "another-one"})
    assert not passwords.is_right(changed, PASSWORD)
    assert passwords.is_right(changed, "another-one")
