"""Emptying hosts over HTTP and from the command line."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from conductor.cell_db.models import Drain, Instance, Service
from conductor.journal.models import AuditRecord, WorkflowRun
from tests.fixtures.drains import drained
from tests.fleet import silence
from tests.integration.flows.conftest import ana, hosts, launch
from tests.integration.flows.moving import CELL, Hosts, instance_of, run_to_the_end

__all__ = ["ana", "hosts", "launch"]


def test_a_host_is_drained_after_a_dry_run_and_opened(api_client: Any, hosts: Hosts, launch: Any) -> None:
    uuid = launch()
    home = instance_of(uuid).host
    admin = api_client("admin")
    planned = admin.post(f"/api/hosts/{home}/drain", {"dry_run": True})
    assert planned.status_code == 200
    assert planned.json() == {"plan": [{"instance_uuid": uuid, "name": "web-1", "how": "live", "reason": ""}]}
    assert not Drain.objects.using(CELL).exists()
    begun = admin.post(
        f"/api/hosts/{home}/drain", {"most_at_once": 1, "allows_cold": False, "deadline_at": "2099-01-31T12:00:00Z"}
    )
    assert begun.status_code == 202
    drain = begun.json()["drain"]
    requested = {"most_at_once": 1, "allows_cold": False, "deadline_at": "2099-01-31T12:00:00Z"}
    assert (drain["host"], drain["requested"], drain["is_late"]) == (home, requested, False)
    noted = admin.post(f"/api/hosts/{home}/note", {"note": "new fans"})
    assert noted.json() == {"host": {"host": home, "maintenance_note": "new fans"}}
    (row,) = admin.get(f"/api/hosts?host={home}").json()["hosts"]
    assert row["service"]["maintenance_note"] == "new fans"
    again = admin.post(f"/api/hosts/{home}/drain", {})
    assert (again.status_code, drain["run_uuid"] in again.json()["error"]["message"]) == (409, True)
    assert admin.post(f"/api/hosts/{home}/open").status_code == 409
    assert admin.post(f"/api/hosts/{home}/drain/action", {"action": "pause"}).json()["drain"]["is_paused"]
    assert admin.post(f"/api/hosts/{home}/drain/action", {"action": "resume"}).status_code == 202
    assert drained(hosts)
    shown = admin.get(f"/api/hosts/{home}/drain").json()["drain"]
    assert (shown["state"], shown["moved"], shown["left"]) == ("done", 1, [])
    assert admin.get(f"/api/workflows/{drain['run_uuid']}").json()["workflow"]["state"] == "done"
    assert admin.post(f"/api/hosts/{home}/open").json()["host"] == {"host": home, "is_disabled": False, "is_up": True}


@pytest.mark.parametrize(
    ("who", "path", "body", "status"),
    [
        ("ana", "sim-1/drain", {}, 403),
        ("ana", "sim-1/evacuate", {}, 403),
        ("admin", "moon/drain", {}, 404),
        ("admin", "sim-1/drain", {"most_at_once": 0}, 400),
        ("admin", "sim-1/drain", {"most_at_once": 101}, 400),
        ("admin", "sim-1/drain", {"fast": True}, 400),
        ("admin", "sim-1/drain", {"deadline_at": "soon"}, 400),
        ("admin", "sim-1/drain", {"deadline_at": "2020-01-31T12:00:00Z"}, 400),
        ("admin", "sim-1/note", {"note": "fans"}, 409),
        ("ana", "sim-1/note", {"note": "fans"}, 403),
        ("admin", "sim-1/drain/action", {"action": "pause"}, 404),
        ("admin", "sim-1/drain/action", {"action": "explode"}, 400),
        ("admin", "sim-1/evacuate", {}, 400),
    ],
)
def test_refused_requests_change_nothing(
    who: str, path: str, body: Any, status: int, api_client: Any, hosts: Hosts
) -> None:
    answer = api_client(who).post(f"/api/hosts/{path}", body)
    assert answer.status_code == status, answer.content
    assert not WorkflowRun.objects.using(CELL).exists()
    assert not Service.objects.using(CELL).filter(is_disabled=True).exists()


def test_all_servers_of_a_dead_host_are_evacuated(api_client: Any, hosts: Hosts, launch: Any) -> None:
    uuid = launch()
    home = instance_of(uuid).host or ""
    hosts.mute.add(home)
    silence(home)
    admin = api_client("admin")
    assert admin.post(f"/api/hosts/{home}/evacuate").status_code == 409
    Service.objects.using(CELL).filter(host=home).update(is_forced_down=True)
    answer = admin.post(f"/api/hosts/{home}/evacuate")
    assert (answer.status_code, list(answer.json()["workflows"])) == (202, [uuid])
    run_to_the_end(hosts)
    assert instance_of(uuid).host != home


def test_the_command_does_the_same(hosts: Hosts, launch: Any) -> None:
    uuid = launch()
    home = instance_of(uuid).host or ""

    def output(*words: str) -> str:
        out = StringIO()
        call_command("drain", home, *words, stdout=out)
        return out.getvalue()

    assert output("--dry-run") == "web-1: live\n"
    begun = json.loads(output("--json", "--reason", "ticket 7", "--note", "new fans"))
    assert (begun["host"], begun["requested"]) == (home, {"most_at_once": 2, "allows_cold": False, "deadline_at": None})
    assert Service.objects.using(CELL).get(host=home).maintenance_note == "new fans"
    record = AuditRecord.objects.using(CELL).get(action="host.drain")
    assert (record.reason, record.details["host"]) == ("ticket 7", home)
    assert "0 moved" in output("--pause")
    output("--resume")
    with pytest.raises(CommandError, match="is draining host"):
        output("--open")
    assert drained(hosts)
    assert not Instance.objects.using(CELL).filter(host=home).exists()
    assert output("--open") == f"{home} takes new work.\n"
    with pytest.raises(CommandError, match="could not be found"):
        call_command("drain", "moon")
