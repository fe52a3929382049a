"""Separate processes: the queues of a conductor, its leases at its end, and a host's process without databases."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management.base import CommandError
from django.db import OperationalError

from conductor.actors.periodic import ErrorLogger
from conductor.cell_db.models import Service
from conductor.cells.hosts import is_unresponsive
from conductor.core.context import RequestContext
from conductor.db.transactions import write_tx
from conductor.journal.models import WorkflowRun
from conductor.management.compute_process import host_config
from conductor.management.conductor_process import charge, keep_to_core
from conductor.rpc import broker, outbox
from conductor.services.cells import health
from conductor.workflows.engine import leases, recovery
from tests.acceptance.cloud import PROJECT
from tests.waiting import WAIT_SECONDS, wait_until

ANA = RequestContext(user_id="a" * 32, project_id="b" * 32, request_id="req-1", roles=frozenset({"member"}))
NO_DATABASE = """
import os
os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings"
import django
django.setup()
from conductor.management.compute_process import forbid_databases
from django.db import connections
connections["default"].ensure_connection()  # a connection that was opened before
forbid_databases()
from conductor.journal.models import Event
from conductor.db.transactions import write_tx
for alias in connections:
    for ask in (Event.objects.using(alias).exists, connections[alias].cursor, write_tx(alias).__enter__):
        try:
            ask()
        except Exception as error:
            print(type(error).__name__)
print("PASSWORD" in str(connections.settings) and any(one.get("PASSWORD") for one in connections.settings.values()))
"""


@pytest.mark.parametrize(
    ("cells", "is_api_level", "aliases"),
    [
        ([], False, ["default", "cell0", "cell1", "cell2"]),
        ([], True, ["default", "cell0"]),
        (["cell2"], False, ["cell2"]),
        (["cell1"], True, ["default", "cell0", "cell1"]),
    ],
)
def test_a_conductor_recovers_runs_notified_on_its_queues(
    cells: list[str], is_api_level: bool, aliases: list[str]
) -> None:
    assert list(charge(cells=cells, is_api_level=is_api_level).aliases) == aliases


def test_an_unknown_cell_is_refused_by_name() -> None:
    with pytest.raises(CommandError, match=r"--cell: there is no cell cell9\. Known cells: cell1, cell2\."):
        charge(cells=["cell1", "cell9"], is_api_level=False)


def test_a_conductor_is_pinned_to_an_existing_core() -> None:
    usable = os.sched_getaffinity(0)
    try:
        with pytest.raises(CommandError, match=r"--core: 4096 is not a core that this process may use"):
            keep_to_core(4096)
        assert os.sched_getaffinity(0) == usable
        keep_to_core(min(usable))
        assert os.sched_getaffinity(0) == {min(usable)}
    finally:
        os.sched_setaffinity(0, usable)


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"host": "h/1"}, '--host: "h/1" is not a name'),
        ({"cell": ""}, '--cell: "" is not a name'),
        ({"driver": "xen"}, "--driver: there is no driver xen. Known drivers: container, fake, libvirt, redfish."),
        ({"options": ["latency"]}, '--option: "latency" is not of the form key=value.'),
    ],
)
def test_an_invalid_host_is_refused_and_the_invalid_part_named(wrong: dict[str, Any], line: str) -> None:
    given = {"host": "h1", "cell": "cell1", "driver": "fake", "zone": "nova", "options": []} | wrong
    with pytest.raises(CommandError) as refused:
        host_config(given.pop("host"), given.pop("cell"), given.pop("driver"), **given)
    assert str(refused.value).startswith(line)


def test_options_that_look_like_numbers_are_numbers() -> None:
    config = host_config("h1", "cell1", "fake", zone="az-1", options=["latency_seconds=0.5", "state_file=/tmp/a=b"])
    assert config.options == {"latency_seconds": 0.5, "state_file": "/tmp/a=b"}
    assert config.journal_path.name == "h1.sqlite3"


def test_a_forked_process_has_its_own_worker_id() -> None:
    reported, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write_end, leases.WORKER.encode())
        os._exit(0)
    os.waitpid(pid, 0)
    name = os.read(reported, 200).decode()
    assert name.split(":")[:2] == [leases.WORKER.split(":")[0], str(pid)]
    assert name != leases.WORKER


def test_leases_of_a_process_are_released_at_its_end(
    databases: None, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.NOVELLA_LEASE_SECONDS = 3600.0  # no lease ends by itself
    with write_tx("cell1"):
        wanted = outbox.NewRun(flow="delete_instance", action="delete", context=ANA, resources=["instance:1"])
        run = outbox.open_run("cell1", wanted)
    first = leases.claim("cell1", run.uuid)
    assert first is not None
    monkeypatch.setattr(leases, "WORKER", "another")
    assert leases.claim("cell1", run.uuid) is None
    assert recovery.hand_on("cell1") == 0  # the lease is not its own
    monkeypatch.undo()
    notified: list[Any] = []
    monkeypatch.setattr(broker, "notify_conductor", lambda queue, body: notified.append((queue, body["run_uuid"])))
    assert recovery.hand_on("cell1") == 1
    assert notified == [("conductor.cell1", str(run.uuid))]
    monkeypatch.setattr(leases, "WORKER", "another")
    second = wait_until("it is free", lambda: leases.claim("cell1", run.uuid))
    assert second.fencing_token > first.fencing_token
    assert WorkflowRun.objects.using("cell1").get(pk=run.pk).owner == "another"


def test_a_conductor_is_a_service_and_sends_no_heartbeat_for_a_host_of_its_name(databases: None) -> None:
    health.record("cell1", "node-7")
    first = Service.objects.using("cell1").get(binary="nova-conductor", host="node-7")
    health.record("cell1", "node-7")
    again = Service.objects.using("cell1").get(binary="nova-conductor", host="node-7")
    assert again.pk == first.pk
    assert again.last_seen_at >= first.last_seen_at
    assert is_unresponsive("cell1", "node-7")


def test_a_process_of_a_host_cannot_use_a_database(tmp_path: Path) -> None:
    requested = subprocess.run(
        [sys.executable, "-c", NO_DATABASE],
        env={"NOVELLA_DATA": str(tmp_path), "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        cwd=PROJECT,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert requested.stdout.split() == [*["NoDatabaseHere"] * 12, "False"], requested.stderr


def test_a_database_that_does_not_answer_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    logger = ErrorLogger()

    def meet(error: Exception | None) -> None:
        with logger.about("sweep of cell1"):
            if error is not None:
                raise error

    for error in (None, OperationalError("gone\nfor now"), OperationalError("gone"), None, None, ValueError("ours")):
        meet(error)
    assert [record.getMessage() for record in caplog.records] == [
        "sweep of cell1: the database does not answer, tried again each time: gone",
        "sweep of cell1: the database answers again",
        "failed: sweep of cell1",
    ]
    assert caplog.records[-1].exc_info
