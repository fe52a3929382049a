"""Identity: how soon a revoked right ends, costs of tokens, and protection against guessing."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import authenticate
from django.db import connection

from conductor.core.errors import NotAuthenticated
from conductor.identity import assignments, domains, effective, logins, rights, roles, tokens, users
from conductor.identity.assignments import AssignmentFilter, AssignmentScope
from conductor.identity.credentials import blob_of, create
from conductor.identity.listing import IdentityListQuery
from conductor.identity.logins import Login, Reference
from conductor.identity.models import Credential, Project, RightsVersion, Role, RoleAssignment, User
from conductor.services.accounts import sign_in
from tests.counting import Captured
from tests.people import PASSWORD


def _elsewhere(people: Any) -> None:
    """Make a change like another process, without notifying this one."""
    RoleAssignment.objects.filter(user=people.ana.user).delete()
    RightsVersion.objects.update_or_create(id=1, defaults={"number": 4711})


def test_a_change_in_another_process_counts_after_the_time_of_the_setting(people: Any, settings: Any) -> None:
    text = people.ana.token()
    _elsewhere(people)
    assert tokens.validate(text).user.username == "ana"  # as long as the setting allows
    settings.NOVELLA_TOKEN_RECHECK_SECONDS = 0
    with pytest.raises(NotAuthenticated):
        tokens.validate(text)


def test_a_change_of_this_process_counts_at_once(people: Any) -> None:
    text = people.ana.token()
    tokens.validate(text)
    assignments.take_away(
        AssignmentScope(user_id=people.ana.user.id, project_id=people.ana.project.id), people.ana.role.id
    )
    with pytest.raises(NotAuthenticated):
        tokens.validate(text)


def test_rights_read_during_a_change_are_not_cached(people: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = people.ana.token()
    rights.changed()
    read = effective.roles_on

    def slow(*args: Any, **kwargs: Any) -> list[Role]:
        found = read(*args, **kwargs)
        monkeypatch.undo()
        users.change(people.ana.user.id, {"is_active": False})  # between reading and remembering
        return found

    monkeypatch.setattr(effective, "roles_on", slow)
    tokens.validate(text)
    with pytest.raises(NotAuthenticated):
        tokens.validate(text)


def _wrong(people: Any) -> None:
    with pytest.raises(NotAuthenticated):
        logins.log_in(Login(user=Reference(id=people.ana.user.id), password="wrong"))


def _right(people: Any) -> str:
    return logins.log_in(Login(user=Reference(id=people.ana.user.id), password=PASSWORD))[0]


def test_accounts_are_locked_only_if_configured(people: Any) -> None:
    for _ in range(4):
        _wrong(people)
    assert _right(people)
    assert User.objects.get(id=people.ana.user.id).failed_logins == 0


def test_too_many_wrong_passwords_lock_out_for_a_time(people: Any, settings: Any) -> None:
    settings.NOVELLA_LOCKOUT_FAILURES, settings.NOVELLA_LOCKOUT_SECONDS = 2, 3600
    _wrong(people)
    assert _right(people)  # and the count begins anew
    _wrong(people)
    _wrong(people)
    with pytest.raises(NotAuthenticated):
        _right(people)
    assert authenticate(None, username="ana", password=PASSWORD) is None
    users.change(people.ana.user.id, {"options": {"ignore_lockout_failure_attempts": True}})
    assert _right(people)
    users.change(people.ana.user.id, {"options": {"ignore_lockout_failure_attempts": None}})
    settings.NOVELLA_LOCKOUT_SECONDS = 0.0
    assert _right(people)


def test_a_browser_signs_in_by_name_and_by_name_with_domain(people: Any) -> None:
    north = domains.create("north")
    twin = users.create("ana", "other-word", domain_id=north.id)
    only = users.create("zoe", "third-word", domain_id=north.id)
    assert authenticate(None, username="ana", password=PASSWORD) == people.ana.user
    assert authenticate(None, username="ana", password="other-word") is None
    assert authenticate(None, username="ana@north", password="other-word") == twin
    assert authenticate(None, username="zoe", password="third-word") == only
    domains.change(north.id, {"is_enabled": False})
    assert authenticate(None, username="zoe", password="third-word") is None


def test_the_portal_knows_rights_of_groups_and_inherited_ones(people: Any) -> None:
    place = AssignmentScope(user_id=people.ana.user.id, domain_id="default", is_inherited=True)
    assignments.grant(place, people.rea.role.id)
    assert [choice.name for choice in sign_in.projects_of(people.ana.user.id)] == ["admin", "lab", "shop"]
    context = sign_in.context_for(people.ana.user.id, people.chi.project.id, "req-1")
    assert context is not None
    assert context.roles == {"reader"}
    assignments.take_away(place, people.rea.role.id)
    assert sign_in.context_for(people.ana.user.id, people.chi.project.id, "req-1") is None


def test_a_role_of_one_domain_stands_only_for_what_it_implies(people: Any) -> None:
    local = roles.create("caretaker", domain_id="default")
    place = AssignmentScope(user_id=people.ana.user.id, project_id=people.chi.project.id)
    assignments.grant(place, local.id)
    lab = Project.objects.get(id=people.chi.project.id)
    assert effective.roles_on(people.ana.user.id, project=lab) == []
    with pytest.raises(NotAuthenticated):
        tokens.issue(people.ana.user, lab, ["password"])


def test_a_role_named_like_a_keyword_of_the_policies_gives_no_right(people: Any, api_client: Any) -> None:
    for word in ("anyone", "owner", "system_reader", "own_project"):
        role = roles.create(word)
        assignments.grant(AssignmentScope(user_id=people.ana.user.id, project_id=people.ana.project.id), role.id)
    assert api_client("ana").get("/identity/v3/users").status_code == 403
    assert api_client("ana").get(f"/identity/v3/users/{people.bo.user.id}").status_code == 403


def test_lists_cost_the_same_however_long_they_are(people: Any, api_client: Any) -> None:
    client, admin = api_client("admin"), people.admin.user.id
    paths = ["/identity/v3/projects", "/identity/v3/users", "/identity/v3/auth/projects"]
    paths += ["/identity/v3/role_assignments?effective&include_names", "/identity/v3/role_assignments?include_names"]

    def costs() -> list[int]:
        found = []
        for path in paths:
            client.get(path)
            with Captured(connection) as queries:
                assert client.get(path).status_code == 200
            found.append(len(queries))
        return found

    few = costs()
    for number in range(20):
        project = Project.objects.create(domain_id="default", name=f"p-{number}")
        User.objects.create(domain_id="default", username=f"u-{number}")
        assignments.grant(AssignmentScope(user_id=admin, project_id=project.id), people.ana.role.id)
    assert costs() == few
    assert len(list(assignments.given(AssignmentFilter(user_id=admin)))) == 21
    assert len(users.find(IdentityListQuery({"name__startswith": "u-"}))[0]) == 20


def test_a_stored_credential_is_not_readable_in_the_database(people: Any) -> None:
    made = create(people.ana.user.id, None, "cert", "very-secret-text")
    assert "very-secret-text" not in str(Credential.objects.values().get())
    assert blob_of(Credential.objects.get(id=made.id)) == "very-secret-text"
