"""Attacks by managers of a domain on users and groups above them, and on roles that they may not grant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from django.db import transaction
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.core.context import RequestContext
from conductor.identity import assignments, managers, passwords, rights, users
from conductor.identity.models import (
    Domain,
    Group,
    GroupMembership,
    ImpliedRole,
    Project,
    Role,
    RoleAssignment,
    Trust,
    User,
)
from tests.api.attacks.scopes import (
    IDENTITY,
    client_for,
    give,
    group_of,
    home_of,
    role_id,
    statuses,
    user,
    with_role,
)
from tests.api_client import ApiClient
from tests.people import People

ROLES = ("manager", "member", "reader")


def _of_system(people: People, dora: User) -> None:
    give(dora, "admin", None)


def _of_admin_project(people: People, dora: User) -> None:
    give(dora, "admin", people.admin.project)


def _through_group(people: People, dora: User) -> None:
    give(group_of("admins", home_of(people), dora), "admin", people.admin.project)


def _inherited(people: People, dora: User) -> None:
    give(dora, "admin", home_of(people), is_inherited=True)


def _as_service(people: People, dora: User) -> None:
    give(dora, "service", people.ana.project)


def _implied(people: People, dora: User) -> None:
    above = Role.objects.create(name="keeper")
    ImpliedRole.objects.create(prior=above, implied=Role.objects.get(name="service"))
    give(dora, "keeper", people.ana.project)


def _in_another_domain(people: People, dora: User) -> None:
    give(dora, "reader", Project.objects.create(name="far", domain=Domain.objects.create(name="south")))


def _by_trust(people: People, dora: User) -> None:
    trust = Trust.objects.create(
        trustor=people.admin.user, trustee=dora, project=people.admin.project, is_impersonation=True
    )
    trust.roles.add(Role.objects.get(name="admin"))


ABOVE = (
    _of_system,
    _of_admin_project,
    _through_group,
    _inherited,
    _as_service,
    _implied,
    _in_another_domain,
    _by_trust,
)


@pytest.mark.parametrize("make", ABOVE)
def test_a_manager_cannot_change_users_with_higher_roles(make: Any, people: People) -> None:
    home = home_of(people)
    _, manager = with_role("mia", "manager", home, home)
    dora, own = user("dora", home), group_of("own", home)
    shop = people.ana.project.pk
    make(people, dora)
    path = f"{IDENTITY}/users/{dora.pk}"
    before = _state()
    attacks = [
        ("PATCH", path, {"user": {"password": "mine-now"}}),
        ("PATCH", path, {"user": {"enabled": False}}),
        ("PATCH", path, {"user": {"email": "mia@example.org"}}),
        ("DELETE", path),
        ("PUT", f"{IDENTITY}/groups/{own.pk}/users/{dora.pk}"),
        ("PUT", f"{IDENTITY}/projects/{shop}/users/{dora.pk}/roles/{role_id('member')}"),
    ]
    assert statuses(manager, *attacks) == {403}
    assert _state() == before


def test_a_manager_cannot_join_or_change_groups_with_higher_roles(people: People) -> None:
    home = home_of(people)
    mia, manager = with_role("mia", "manager", home, home)
    admins = group_of("admins", home, people.admin.user)
    give(admins, "admin", people.admin.project)
    path = f"{IDENTITY}/groups/{admins.pk}"
    before = _state()
    attacks = [
        ("PUT", f"{path}/users/{mia.pk}"),
        ("DELETE", f"{path}/users/{people.admin.user.pk}"),
        ("PATCH", path, {"group": {"name": "x"}}),
        ("DELETE", path),
    ]
    assert statuses(manager, *attacks) == {403}
    assert _state() == before


@dataclass
class After:
    """Passes calls of a function on, and runs something else during the one with this number."""

    number: int
    original: Any
    meanwhile: Any

    def __call__(self, *given: Any, **named: Any) -> Any:
        self.number -= 1
        if self.number == 0:
            self.meanwhile()
        return self.original(*given, **named)


def test_a_role_that_is_given_while_a_password_is_hashed_counts(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = home_of(people)
    _, manager = with_role("mia", "manager", home, home)
    dora = user("dora", home)
    rise = After(1, passwords.hashed, lambda: give(dora, "admin", people.admin.project))
    monkeypatch.setattr(passwords, "hashed", rise)
    before = dora.password
    assert statuses(manager, ("PATCH", f"{IDENTITY}/users/{dora.pk}", {"user": {"password": "mine-now-2"}})) == {403}
    dora.refresh_from_db()
    assert (rise.number, dora.password) == (0, before)


@pytest.mark.parametrize("rises", ["group", "user"])
def test_a_role_that_is_given_while_a_user_joins_a_group_counts(
    people: People, monkeypatch: pytest.MonkeyPatch, rises: str
) -> None:
    """The view looks at the user first, and the change itself once more before it is written."""
    home = home_of(people)
    _, manager = with_role("mia", "manager", home, home)
    dora, own = user("dora", home), group_of("own", home)
    risen = {"group": own, "user": dora}[rises]
    rise = After(2, users.get, lambda: give(risen, "admin", people.admin.project))
    monkeypatch.setattr(users, "get", rise)
    assert statuses(manager, ("PUT", f"{IDENTITY}/groups/{own.pk}/users/{dora.pk}")) == {403}
    assert (rise.number, GroupMembership.objects.filter(group=own).count()) == (0, 0)


def test_a_role_given_concurrently_counts_when_a_manager_grants_another(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = home_of(people)
    _, manager = with_role("mia", "manager", home, home)
    dora, shop = user("dora", home), people.ana.project.pk
    rise = After(1, assignments.AssignmentScope.require, lambda: give(dora, "admin", people.admin.project))
    monkeypatch.setattr(assignments.AssignmentScope, "require", lambda place: rise(place))
    path = f"{IDENTITY}/projects/{shop}/users/{dora.pk}/roles/{role_id('member')}"
    assert statuses(manager, ("PUT", path)) == {403}
    assert (rise.number, RoleAssignment.objects.filter(user=dora, project_id=shop).count()) == (0, 0)


def test_a_manager_grants_no_higher_roles_and_none_that_imply_cloud_rights(people: People) -> None:
    home = home_of(people)
    mia, manager = with_role("mia", "manager", home, home)
    eve, boss = with_role("eve", "admin", home, home)
    own = group_of("own", home, mia, eve)
    admin_project = people.admin.project.pk
    before = _state()
    places = [f"projects/{admin_project}", f"projects/{people.ana.project.pk}", f"domains/{home.pk}"]
    actors = [f"users/{mia.pk}", f"groups/{own.pk}"]
    for place in places:
        for actor in actors:
            attacks = [("PUT", f"{IDENTITY}/{place}/{actor}/roles/{role_id(role)}") for role in ("admin", "service")]
            assert statuses(manager, *attacks) == {403}
    # The administrator of the domain may grant `admin` in it, but not where it is `admin` of the cloud.
    inherited = f"{IDENTITY}/OS-INHERIT/domains/{home.pk}/users/{eve.pk}/roles/{role_id('admin')}/inherited_to_projects"
    attacks = [("PUT", f"{IDENTITY}/projects/{admin_project}/{actor}/roles/{role_id('admin')}") for actor in actors]
    assert statuses(boss, *attacks, ("PUT", inherited)) == {403}
    system = f"{IDENTITY}/system/users/{eve.pk}/roles/{role_id('admin')}"
    assert statuses(boss, ("PUT", system)) == {403}
    assert _state() == before


def test_a_manager_neither_changes_the_admin_project_nor_takes_its_name(people: People, settings: Any) -> None:
    home = home_of(people)
    _, manager = with_role("mia", "manager", home, home)
    path = f"{IDENTITY}/projects/{people.admin.project.pk}"
    new = {"project": {"name": "admin", "domain_id": home.pk}}
    attacks = [
        ("PATCH", path, {"project": {"name": "old"}}),
        ("PATCH", path, {"project": {"enabled": False}}),
        ("DELETE", path),
    ]
    assert statuses(manager, *attacks) == {403}
    settings.NOVELLA_ADMIN_PROJECT = "ops"
    shop = f"{IDENTITY}/projects/{people.ana.project.pk}"
    new["project"]["name"] = "ops"
    assert statuses(manager, ("POST", f"{IDENTITY}/projects", new)) == {403}
    assert statuses(manager, ("PATCH", shop, {"project": {"name": "ops"}})) == {403}
    assert sorted(Project.objects.values_list("name", flat=True)) == ["admin", "lab", "shop"]


def test_a_manager_manages_the_users_of_the_domain(people: People) -> None:
    home = home_of(people)
    _, manager = with_role("mia", "manager", home, home)
    shop = people.ana.project.pk
    bo = people.bo.user.pk
    own = group_of("own", home)
    wanted = [
        ("PATCH", f"{IDENTITY}/users/{bo}", {"user": {"description": "x"}}),
        ("PUT", f"{IDENTITY}/groups/{own.pk}/users/{bo}"),
        ("PUT", f"{IDENTITY}/projects/{shop}/users/{bo}/roles/{role_id('manager')}"),
        ("PUT", f"{IDENTITY}/projects/{shop}/groups/{own.pk}/roles/{role_id('reader')}"),
        ("DELETE", f"{IDENTITY}/groups/{own.pk}/users/{bo}"),
        ("DELETE", f"{IDENTITY}/groups/{own.pk}"),
        ("DELETE", f"{IDENTITY}/users/{bo}"),
    ]
    assert statuses(manager, *wanted) == {200, 204}


def _state() -> tuple[list[Any], ...]:
    """Return everything that a manager could have changed."""
    rows = RoleAssignment.objects.order_by("pk").values_list("user_id", "group_id", "role_id", "project_id")
    users = User.objects.order_by("pk").values_list("pk", "password", "is_active", "email")
    members = GroupMembership.objects.order_by("pk").values_list("user_id", "group_id")
    groups = Group.objects.order_by("pk").values_list("pk", "name")
    projects = Project.objects.order_by("pk").values_list("pk", "name", "is_enabled")
    return list(rows), list(users), list(members), list(groups), list(projects)


@dataclass(frozen=True)
class Cast:
    """The ids that a generated sequence of actions may name."""

    users: tuple[str, ...]
    groups: tuple[str, ...]
    projects: tuple[str, ...]
    roles: tuple[str, ...]
    domain: str


def _cast(people: People, mia: User) -> Cast:
    home = home_of(people)
    admins, staff = group_of("admins", home, people.admin.user), group_of("staff", home, people.bo.user)
    give(admins, "admin", people.admin.project)
    give(staff, "member", people.ana.project)
    return Cast(
        users=(mia.pk, people.bo.user.pk, people.admin.user.pk, user("eve", home).pk),
        groups=(admins.pk, staff.pk),
        projects=(people.ana.project.pk, people.admin.project.pk),
        roles=tuple(role_id(name) for name in ("admin", "manager", "member", "service")),
        domain=home.pk,
    )


def _play(manager: ApiClient, cast: Cast, numbers: tuple[int, int, int, int, int]) -> None:
    """Carry out one action; the numbers select the action, its target and its arguments."""
    kind, *picks = numbers
    person = cast.users[picks[0] % len(cast.users)]
    group = cast.groups[picks[1] % len(cast.groups)]
    project = cast.projects[picks[2] % len(cast.projects)]
    role = cast.roles[picks[3] % len(cast.roles)]
    actor = f"users/{person}" if picks[1] % 3 else f"groups/{group}"
    inherited = f"OS-INHERIT/domains/{cast.domain}/{actor}/roles/{role}/inherited_to_projects"
    actions: tuple[tuple[Any, ...], ...] = (
        ("PUT", f"groups/{group}/users/{person}"),
        ("DELETE", f"groups/{group}/users/{person}"),
        ("PUT", f"projects/{project}/{actor}/roles/{role}"),
        ("DELETE", f"projects/{project}/{actor}/roles/{role}"),
        ("PUT", f"domains/{cast.domain}/{actor}/roles/{role}"),
        ("PUT", inherited),
        ("PATCH", f"users/{person}", {"user": {"email": "taken@example.org"}}),
        ("PATCH", f"projects/{project}", {"project": {"name": "admin"}}),
    )
    method, path, *body = actions[kind % len(actions)]
    assert manager.call(method, f"{IDENTITY}/{path}", *body).status_code < 500


def test_no_sequence_of_actions_raises_a_manager_or_changes_higher_users(people: People) -> None:
    """Users above the manager stay the same, and as they were: no user rises, no user above is changed."""
    home = home_of(people)
    mia, manager = with_role("mia", "manager", home, home)
    cast = _cast(people, mia)
    context = RequestContext(mia.pk, "", "req-1", frozenset((*ROLES,)), domain_id=home.pk)

    def above() -> dict[str, Any]:
        every = User.objects.filter(pk__in=cast.users)
        return {row.pk: (row.email, row.is_active) for row in every if not managers.may_manage(context, row)}

    numbers = st.tuples(*(st.integers(0, 11) for _ in range(5)))

    @settings(max_examples=12)
    @given(st.lists(numbers, min_size=4, max_size=14))
    def hold(played: list[tuple[int, int, int, int, int]]) -> None:
        with transaction.atomic():
            before = above()
            for action in played:
                _play(manager, cast, action)
            assert above() == before
            transaction.set_rollback(True)
        rights.changed()  # what was remembered of rights is of what was rolled back

    hold()


def test_a_manager_of_a_project_is_no_manager_of_the_domain(people: People) -> None:
    """The role `manager` on a project gives no rights over users."""
    mia = user("mia", home_of(people))
    give(mia, "manager", people.ana.project)
    bo = f"{IDENTITY}/users/{people.bo.user.pk}"
    attacker = client_for(mia, people.ana.project)
    assert statuses(attacker, ("PATCH", bo, {"user": {"password": "x"}}), ("DELETE", bo)) == {403}
