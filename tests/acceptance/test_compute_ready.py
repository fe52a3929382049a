"""Readiness of `compute`: after a conductor has stored a report of its host. Launches wait for the first report."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.acceptance.deployment import Deployment
from tests.waiting import wait_until

WAITING = "Waiting for a conductor of cell1 at amqp://"


def test_a_new_host_waits_for_a_conductor_and_can_then_be_chosen(tmp_path: Path) -> None:
    patient = {"NOVELLA_FIRST_REPORT_SECONDS": "3600"}
    with Deployment(tmp_path, webs=1, api_conductors=1, cells={"cell1": 1}, hosts={"cell1": ()}, **patient) as cloud:
        early = _launch(cloud, "web-0")
        waits = "select waits_for->>'cause' from journal_workflowrun where flow = 'build_instances'"
        wait_until("it waits for the first report", lambda: cloud.rows("api", waits) == [("first report",)])
        cloud.enroll_host("cell1", "h1")
        _is_ready_only_with_a_conductor(cloud)
        assert _end_of(cloud, early) == "ACTIVE", cloud.log_tail()
        assert _launched(cloud, "web-1") == "ACTIVE", cloud.log_tail()
        cloud.kill("host", 0, signal.SIGTERM)
        _is_ready_only_with_a_conductor(cloud)  # a known host waits for the report of its new process
        assert _launched(cloud, "web-2") == "ACTIVE", cloud.log_tail()


def _is_ready_only_with_a_conductor(cloud: Deployment) -> None:
    """Check that a host is not ready while the conductor of its cell is down, and ready once that runs."""
    cloud.kill("cell1", 0, signal.SIGTERM)
    host = cloud.begin("host")
    wait_until("the host says that it waits", lambda: WAITING in log_since(host.log_path, host.began_at))
    assert not host.is_ready()
    assert "@" not in log_since(host.log_path, host.began_at).partition(WAITING)[2].splitlines()[0]
    cloud.restart("cell1", 0)
    wait_until("the host is ready", host.is_ready)


def _launched(cloud: Deployment, name: str) -> str:
    """Launch a server; return its status at the end."""
    return _end_of(cloud, _launch(cloud, name))


def _launch(cloud: Deployment, name: str) -> str:
    answer = cloud.api(0).launch(name, flavor="tiny")
    assert answer.status == 202, answer.raw
    return str(answer.json["server"]["id"])


def _end_of(cloud: Deployment, uuid: str) -> str:
    status: str = wait_until("the launch has ended", lambda: ended(cloud, uuid))
    return status


def log_since(path: Path, began_at: int) -> str:
    return path.read_bytes()[began_at:].decode(errors="replace")


def ended(cloud: Deployment, uuid: str) -> str:
    status = str(cloud.api(0).server(uuid)["status"])
    return "" if status == "BUILD" else status
