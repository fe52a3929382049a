"""Initial data of a new cloud, and the files for the first sign-in."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.test import Client

from conductor.identity import passwords, seed, users
from conductor.identity.models import Domain, Project, Role, RoleAssignment, User
from conductor.services.accounts import credentials
from tests.waiting import WAIT_SECONDS


def _state() -> tuple[list[Any], ...]:
    return (
        list(Domain.objects.values_list("id", "name")),
        sorted(Project.objects.values_list("name", "domain_id")),
        sorted(Role.objects.values_list("name", flat=True)),
        sorted(
            (user, project or "", role)
            for user, project, role in RoleAssignment.objects.values_list(
                "user__username", "project__name", "role__name"
            )
        ),
        sorted(User.objects.values_list("username", "password")),
    )


def test_seeding_twice_changes_nothing(databases: None) -> None:
    seed.seed("one", "two")
    before = _state()
    assert before[:4] == (
        [("default", "Default")],
        [("admin", "default"), ("demo", "default")],
        ["admin", "manager", "member", "reader", "service"],
        [("admin", "", "admin"), ("admin", "admin", "admin"), ("admin", "demo", "admin"), ("demo", "demo", "member")],
    )
    seed.seed("three", "four")
    assert _state() == before


def test_a_changed_password_outlives_a_restart(databases: None) -> None:
    seed.seed("one", "two")
    demo = users.change(User.objects.get(username="demo").id, {"password": "my-own-ducks-swim"})
    seed.seed("one", "two")
    demo.refresh_from_db()
    assert passwords.is_right(demo, "my-own-ducks-swim")


def test_seeding_again_does_not_restore_a_revoked_role(databases: None) -> None:
    seed.seed("one", "two")
    RoleAssignment.objects.filter(user__username="demo").delete()
    seed.seed("one", "two")
    assert not RoleAssignment.objects.filter(user__username="demo").exists()


def test_passwords_are_made_once(tmp_path: Path) -> None:
    made = credentials.load_or_generate_passwords(tmp_path)
    assert made.keys() == {"admin", "demo"}
    assert all(len(password) == 20 for password in made.values())
    assert made["admin"] != made["demo"]
    assert credentials.load_or_generate_passwords(tmp_path) == made


def _source(openrc: Path, *arguments: str) -> dict[str, str]:
    script = 'rc=$1; shift; . "$rc" "$@"; env'
    done = subprocess.run(
        ["bash", "-euc", script, "-", str(openrc), *arguments], capture_output=True, text=True, check=True, env={}
    )
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if line.startswith("OS_"))


@pytest.mark.parametrize("password", ["plain", 'it\'s $HOME `x` "q" \\ #'])
def test_the_files_say_what_the_client_needs(tmp_path: Path, password: str) -> None:
    credentials.write(tmp_path, "http://127.0.0.1:8000", {"admin": "a-secret", "demo": password})
    credentials.write(tmp_path, "http://127.0.0.1:9000", {"admin": "a-secret", "demo": password})
    admin, demo = _source(tmp_path / "openrc.sh"), _source(tmp_path / "openrc.sh", "demo")
    assert (admin["OS_USERNAME"], admin["OS_PROJECT_NAME"], admin["OS_PASSWORD"]) == ("admin", "admin", "a-secret")
    assert (demo["OS_USERNAME"], demo["OS_PROJECT_NAME"], demo["OS_PASSWORD"]) == ("demo", "demo", password)
    assert demo["OS_AUTH_URL"] == "http://127.0.0.1:9000/identity/v3"
    clouds = yaml.safe_load((tmp_path / "clouds.yaml").read_text())["clouds"]
    assert clouds.keys() == {"novella", "novella-admin"}
    assert clouds["novella"]["auth"]["password"] == password
    assert clouds["novella-admin"]["auth"]["auth_url"] == "http://127.0.0.1:9000/identity/v3"


def test_no_other_account_can_read_them_at_any_time(tmp_path: Path) -> None:
    data_dir = tmp_path / "var"
    seen: set[int] = set()
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.is_set():
            for entry in os.scandir(data_dir) if data_dir.exists() else ():
                try:
                    seen.add(stat.S_IMODE(entry.stat().st_mode))
                except FileNotFoundError:
                    continue  # replaced between the two calls

    watcher = threading.Thread(target=watch)
    watcher.start()
    old_mask = os.umask(0)
    try:
        for _ in range(50):
            made = credentials.load_or_generate_passwords(data_dir)
            credentials.write(data_dir, "http://127.0.0.1:8000", made)
    finally:
        os.umask(old_mask)
        is_over.set()
        watcher.join(timeout=WAIT_SECONDS)
    assert seen == {0o600}
    assert sorted(path.name for path in data_dir.iterdir()) == ["clouds.yaml", "openrc.sh", "passwords.json"]
    assert json.loads((data_dir / "passwords.json").read_text()) == made


@pytest.mark.usefixtures("databases")
def test_the_administrator_goes_straight_into_the_portal(client: Client) -> None:
    seed.seed(admin_password="a long enough one", demo_password="another long one")
    entered = client.post("/sign-in", {"username": "admin", "password": "a long enough one", "next": "/servers"})
    assert (entered.status_code, entered["Location"]) == (302, "/servers")
    assert client.get("/servers").status_code == 200


@pytest.mark.usefixtures("databases")
def test_a_user_of_several_projects_is_asked_for_one_after_the_sign_in(client: Client) -> None:
    seed.seed(admin_password="a long enough one", demo_password="another long one")
    User.objects.update(default_project_id=None)
    client.post("/sign-in", {"username": "admin", "password": "a long enough one"})
    answer = client.get("/servers")
    assert (answer.status_code, answer["Location"]) == (302, "/project")
