"""System health and settings as operators see them."""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import Any

import pytest
from django.db import connections
from django.test import Client, override_settings

from conductor.cells import schedulers
from conductor.services.cells import health
from conductor.services.operations import system_health
from portal import environment, setting_facts
from tests import factories
from tests import fleet as made
from tests.counting import Captured
from tests.integration.page_clients import signed_in, text
from tests.services.process import free_port


@pytest.fixture
def admin(people: Any) -> Client:
    factories.cells()
    return signed_in("admin")


def part(caller: Any, ident: str) -> system_health.Component:
    return next(one for one in system_health.survey(caller).parts if one.id == ident)


def test_others_get_404(people: Any) -> None:
    ana = signed_in("ana")
    assert [ana.get(path).status_code for path in ("/system", "/settings")] == [404, 404]
    assert Client().get("/system")["Location"].startswith("/sign-in?next=")


def test_every_part_says_how_it_is_and_what_users_notice(admin: Client, people: Any) -> None:
    made.add_host("sim-1")
    made.add_host("sim-2")
    made.silence("sim-2")
    page = text(admin.get("/system"))
    for title in ("Database of the API", "Database cell1", "Message broker", "Disk of the data directory"):
        assert title in page
    assert "1 of 2 is down." in page
    assert "cell1 has no running conductor." in page
    assert "servers stay in BUILD" in page
    assert "in-process memory" in page
    assert page.index("Conductors") < page.index("Database of the API")  # the worst first


def test_waiting_work_is_shown(admin: Client, people: Any) -> None:
    factories.run(people.ana.context(), "cell1", state="queued", age=90)
    factories.run(people.ana.context(), "cell2", state="needs operator")
    found = part(people.admin.context(), "queue")
    assert found.state == system_health.LOOK
    assert [one.rpartition(" for ")[0] for one in found.troubles if "queued" in one] == ["cell1: work has been queued"]
    assert "cell2: 1 workflow needs an operator." in found.troubles


def test_a_cell_whose_database_is_unresponsive_is_down(
    admin: Client, people: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    survey = health.survey

    def without_one(context: Any) -> health.Health:
        found = survey(context)
        down = health.CellHealth("cell2", False, False, 3, 5, failure="OperationalError: gone")
        return replace(found, cells=[down if one.name == "cell2" else one for one in found.cells])

    monkeypatch.setattr(health, "survey", without_one)
    found = part(people.admin.context(), "database-cell2")
    assert (found.state, found.troubles) == (system_health.DOWN, ("No response: OperationalError: gone.",))
    assert "OperationalError: gone" in text(admin.get("/system"))


def test_addresses_of_services_are_checked_and_their_passwords_hidden(people: Any) -> None:
    factories.cells()
    caller = people.admin.context()
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = server.getsockname()[1]
        with override_settings(NOVELLA_BROKER_URL=f"amqp://novella:hunter-two@127.0.0.1:{here}/"):
            found = part(caller, "broker")
    assert found.state == system_health.UP
    nowhere = free_port()
    with override_settings(NOVELLA_BROKER_URL=f"amqp://novella:hunter-two@127.0.0.1:{nowhere}/"):
        gone = part(caller, "broker")
    assert gone.state == system_health.DOWN
    assert f"127.0.0.1:{nowhere} doesn't respond" in gone.troubles[0]
    assert "hunter" not in str((found, gone))
    with override_settings(NOVELLA_MEMBERSHIP_URL=f"zookeeper://127.0.0.1:{nowhere},[::1]:{nowhere}/novella"):
        assert len(part(caller, "membership").troubles) == 2


def test_an_admin_project_that_is_any_is_shown_with_its_risk(admin: Client, people: Any) -> None:
    caller = people.admin.context()
    found = part(caller, "administrators")
    assert (found.state, dict(found.facts), found.troubles) == (system_health.UP, {"Admin project": "admin"}, ())
    with override_settings(NOVELLA_ADMIN_PROJECT="any"):
        found = part(caller, "administrators")
        assert (found.state, dict(found.facts)) == (system_health.LOOK, {"Admin project": "any"})
        assert "the role admin in any project administers the whole cloud" in text(admin.get("/system"))


def test_more_hosts_and_work_cost_no_more_queries(admin: Client, people: Any) -> None:
    def count() -> int:
        with Captured(connections["default"]) as api, Captured(connections["cell1"]) as cell:
            assert admin.get("/system").status_code == 200
        return len(api) + len(cell)

    made.add_host("sim-1")
    factories.run(people.ana.context(), "cell1", state="queued")
    few = [count() for _ in range(2)][1]
    for number in range(5):
        made.add_host(f"more-{number}")
        factories.run(people.ana.context(), "cell1", state="queued")
    assert count() == few


def settings_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Any, **variables: str) -> dict[str, setting_facts.Setting]:
    given = {"NOVELLA_DATA": str(tmp_path), **{f"NOVELLA_{name}": value for name, value in variables.items()}}
    read = environment.load(given)
    monkeypatch.setattr(setting_facts, "current", lambda: read)
    return {one.name: one for section in setting_facts.sections() for one in section.settings}


def test_every_setting_is_shown_with_its_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    found = settings_of(
        monkeypatch, tmp_path, PORT="8123", DEBUG="on", CORS_ORIGINS="https://a.example,https://b.example"
    )
    assert set(environment.variable_names()) <= found.keys()
    assert (found["NOVELLA_PORT"].value, found["NOVELLA_PORT"].source) == ("8123", "environment")
    assert (found["NOVELLA_HOST"].value, found["NOVELLA_HOST"].source) == ("127.0.0.1", "default")
    assert found["NOVELLA_HOST"].default == "127.0.0.1"
    assert "Address or name to listen on" in found["NOVELLA_HOST"].meaning
    assert found["NOVELLA_DEBUG"].value == "on"
    assert found["NOVELLA_CORS_ORIGINS"].value == "https://a.example, https://b.example"
    assert found["NOVELLA_ALLOWED_HOSTS"].source == "derived"
    assert found["NOVELLA_BROKER_URL"].value == "not set"
    assert found["NOVELLA_MAX_BUILD_ATTEMPTS"].source == "portal/settings.py"
    assert found["NOVELLA_MAX_BUILD_ATTEMPTS"].default == "3"
    assert all(one.meaning and one.default for one in found.values())


def test_secrets_are_never_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    words = "correct-horse-battery-staple-twice-over"
    secrets = {
        "SECRET_KEY": words,
        "NOTIFICATION_SECRET": words,
        "BROKER_URL": f"amqp://me:{words}@broker.example/",
        "DATABASE_URL": f"postgresql://me:{words}@db.example/novella",
        "DATABASE_URL_CELL1": f"postgresql://me:{words}@far.example/cell1",
        "NOTIFICATION_WEBHOOKS": f"https://hooks.example/{words}",
    }
    with override_settings(NOVELLA_NOTIFICATION_SINKS={"pager": {"token": words}}):
        found = settings_of(monkeypatch, tmp_path, **secrets)
    assert words not in str(found)
    for name in secrets:
        assert found[f"NOVELLA_{name}"].value == setting_facts.HIDDEN
        assert found[f"NOVELLA_{name}"].source == "environment"


def test_settings_are_narrowed(admin: Client) -> None:
    page = text(admin.get("/settings", {"q": "lease"}))
    assert "NOVELLA_LEASE_SECONDS" in page
    assert "NOVELLA_HOST_DOWN_SECONDS" not in page
    assert "No settings match this filter." in text(admin.get("/settings", {"q": "nothing of the kind"}))
    assert "docs/reference/configuration.md#workflows" in text(admin.get("/settings"))


def test_settings_are_explained_in_the_language_of_the_page(admin: Client) -> None:
    page = text(admin.get("/settings", headers={"Accept-Language": "de"}))
    assert "Port für Seiten, APIs und WebSockets" in page
    assert "beim ersten Start erzeugt" in page
    assert "the same for" not in page


def test_schedulers_are_shown_with_their_queue_and_their_time_per_decision(admin: Client, people: Any) -> None:
    caller = people.admin.context()
    found = part(caller, "schedulers")
    assert (found.state, dict(found.facts)) == (system_health.OFF, {"Fallback": "the conductors"})
    with override_settings(NOVELLA_SCHEDULER="service"):
        found = part(caller, "schedulers")
        assert (found.state, found.troubles) == (system_health.DOWN, ("None is running.",))
        for name, figures in {
            "s1": {"worker": "rack1:1:aaaaaaaa", "waiting": 3, "oldest_seconds": 0.1, "decisions": 200, "seconds": 1.7},
            "s2": {"worker": "rack1:2:bbbbbbbb", "waiting": 0, "oldest_seconds": 0.0, "decisions": 0, "seconds": 0.0},
        }.items():
            schedulers.record(name, 1, figures)
        found = part(caller, "schedulers")
        assert found.state == system_health.UP
        assert dict(found.facts) == {
            "s1": "3 waiting, 8.5 ms per decision (200)",
            "s2": "0 waiting, no decision yet",
        }
        assert "3 waiting, 8.5 ms per decision (200)" in text(admin.get("/system"))
        schedulers.record("s1", 1, {"worker": "rack1:1:aaaaaaaa", "waiting": 3, "oldest_seconds": 7.5})
        schedulers.note_end("bbbbbbbb")
        found = part(caller, "schedulers")
        assert (found.state, found.troubles) == (
            system_health.LOOK,
            (
                "s1 is slow: its oldest request waits for 7.5 s.",
                "s2 isn't running. Start it, or remove its service.",
            ),
        )
    listed = text(admin.get("/services?binary=nova-scheduler"))
    assert "s1" in listed
    assert "s2" in listed
