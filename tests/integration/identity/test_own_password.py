"""A user's own pages without a project, and the own password: permission, ended sessions, and audit."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from conductor.identity.models import RoleAssignment
from conductor.journal.models import AuditRecord
from tests import factories
from tests.integration.page_clients import signed_in, text
from tests.people import PASSWORD

PAGE = "/profile/password"
NEW = "a-new-and-longer-one"


@pytest.fixture(autouse=True)
def _cells(people: Any) -> None:
    factories.cells()


def form(**changed: str) -> dict[str, str]:
    return {"original": PASSWORD, "password": NEW, "again": NEW, **changed}


def test_a_new_password_ends_earlier_sessions(people: Any) -> None:
    here, elsewhere, token = signed_in("ana"), signed_in("ana"), people.ana.token()
    assert 'autocomplete="current-password"' in text(here.get(PAGE))
    answer = here.post(PAGE, form())
    assert (answer.status_code, answer["Location"]) == (302, "/profile")
    assert "You are signed out in all other browsers." in text(here.get("/profile"))
    assert elsewhere.get("/profile")["Location"].startswith("/sign-in")
    assert Client(headers={"X-Auth-Token": token}).get("/compute/v2.1/servers").status_code == 401
    assert Client().post("/sign-in", {"username": "ana", "password": PASSWORD}).status_code == 401
    assert Client().post("/sign-in", {"username": "ana", "password": NEW}).status_code == 302
    record = AuditRecord.objects.get(action="user.change_password")
    assert (record.result, record.user_name, record.project_id) == ("done", "ana", people.ana.project.id)
    assert "user.change_password" in text(here.get("/activity"))


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"original": "not it"}, "original"),
        ({"password": "", "again": ""}, "password"),
        ({"password": "x" * 4097, "again": "x" * 4097}, "password"),
        ({"again": "another"}, "again"),
    ],
)
def test_errors_are_shown_at_their_fields_and_no_password_is_kept(wrong: dict[str, str], field: str) -> None:
    ana = signed_in("ana", headers={"Accept-Language": "de"})
    answer = ana.post(PAGE, form(**wrong))
    assert (answer.status_code, answer["Cache-Control"]) == (400, "no-store")
    page = text(answer)
    assert f'id="wrong-{field}"' in page
    assert f'<a href="#{field}">' in page
    assert "Ein Passwort muss 8 bis 4.096 Zeichen haben." in page or field != "password"
    kept = page + str(list(AuditRecord.objects.values()))
    assert NEW not in kept
    assert "not it" not in kept
    assert signed_in("ana").get("/profile").status_code == 200
    refused = AuditRecord.objects.filter(action="user.change_password", result="refused").count()
    assert refused == (0 if field == "again" else 1)


def test_programs_change_it_too_and_that_is_on_record(people: Any) -> None:
    body = {"user": {"original_password": PASSWORD, "password": NEW}}
    path = f"/identity/v3/users/{people.ana.user.id}/password"
    client = Client()
    assert client.post(path, body, content_type="application/json").status_code == 204
    assert client.post(path, body, content_type="application/json").status_code == 401
    found = list(AuditRecord.objects.order_by("created_at").values_list("action", "result", "user_name"))
    assert found == [("user.change_password", "done", "ana"), ("user.change_password", "refused", "ana")]
    assert NEW not in str(list(AuditRecord.objects.values()))


def test_accounts_with_a_locked_or_no_password_are_refused_with_the_reason(people: Any) -> None:
    ana, user = signed_in("ana"), people.ana.user
    user.options = {"lock_password": True}
    user.save()
    assert "only an administrator changes it" in text(ana.post(PAGE, form()))
    user.set_unusable_password()
    user.save()
    ana.cookies["novella_session"] = people.ana.session()
    page = text(ana.get(PAGE))
    assert "you sign in with another provider" in page
    assert 'name="original"' not in page


def test_a_user_without_a_project_has_account_pages(people: Any) -> None:
    RoleAssignment.objects.filter(user=people.bo.user).delete()
    bo = signed_in("bo")
    assert bo.get("/servers")["Location"] == "/project"
    page = text(bo.get("/project"))
    assert 'href="/profile"' in page
    profile = text(bo.get("/profile"))
    for there in ("<h1>bo</h1>", f'href="{PAGE}"', 'href="/profile/second-factor"', 'action="/sign-out"'):
        assert there in profile
    assert "/key-pairs" not in profile
    assert bo.post("/profile", {"density": "compact"})["Location"] == "/profile"
    assert "authenticator" in text(bo.get("/profile/second-factor"))
    assert bo.post(PAGE, form())["Location"] == "/profile"
    assert "You are signed out in all other browsers." in text(bo.get("/profile"))
    assert bo.post("/sign-out").status_code == 302
    assert bo.get("/profile")["Location"].startswith("/sign-in")
