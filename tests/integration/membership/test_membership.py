"""Dead members are noticed at once: by a locked file on one machine, by an advisory lock on a PostgreSQL server."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.db import OperationalError
from django.db.utils import ConnectionHandler

from conductor.core.context import RequestContext
from conductor.core.errors import Unavailable
from conductor.core.membership import Member, OnGone
from conductor.db.transactions import database_now, write_tx
from conductor.journal.models import WorkflowRun
from conductor.membership import sessions
from conductor.membership.files import FOLDER, FileWatch
from conductor.membership.sessions import SessionWatch
from conductor.rpc import broker, outbox
from conductor.workflows.engine import leases, recovery
from portal.databases import databases as described
from portal.environment import load
from tests.services import postgresql
from tests.waiting import WAIT_SECONDS, assert_stays, wait_until

ANA = RequestContext(user_id="a" * 32, project_id="b" * 32, request_id="req-1", roles=frozenset({"member"}))
PROJECT = Path(__file__).resolve().parents[3]
SETTLED_SECONDS = 3 * SessionWatch.poll_seconds
# A process that joins by a locked file and then does nothing.
SLEEPER = """
import sys
from pathlib import Path
from conductor.core.membership import Member
from conductor.membership.files import FileWatch
FileWatch(Path(sys.argv[1])).join(Member(worker=sys.argv[2], name="sleeper"), print)
print("ready", flush=True)
sys.stdin.read()
"""


def a_worker() -> str:
    return f"rack-1:{os.getpid()}:{uuid4().hex[:8]}"


@contextmanager
def sleeper(folder: Path, worker: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", SLEEPER, str(folder), worker]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=PROJECT)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate(timeout=WAIT_SECONDS)


@contextmanager
def joined(watch: FileWatch | SessionWatch, name: str, on_gone: OnGone) -> Iterator[Member]:
    me = Member(worker=a_worker(), name=name)
    watch.join(me, on_gone)
    try:
        yield me
    finally:
        watch.leave()


# -- files ----------------------------------------------------------------------------------------------------------


def test_a_killed_process_is_missed_at_once_and_a_stopped_one_is_not(tmp_path: Path) -> None:
    gone: queue.Queue[str] = queue.Queue()
    watch, worker = FileWatch(tmp_path), a_worker()
    with sleeper(tmp_path, worker) as process, joined(watch, "watcher", gone.put) as me:
        assert {member.name for member in watch.members()} == {"sleeper", "watcher"}
        process.send_signal(signal.SIGSTOP)
        assert_stays("a stopped process is not missed", gone.empty)
        process.send_signal(signal.SIGKILL)
        assert gone.get(timeout=WAIT_SECONDS) == worker.rpartition(":")[2]
        assert [member.worker for member in watch.members()] == [me.worker]
        wait_until("the file of the dead is taken away", lambda: os.listdir(tmp_path / FOLDER) == [me.worker])
    assert os.listdir(tmp_path / FOLDER) == []


def test_a_process_that_starts_later_notices_earlier_deaths(tmp_path: Path) -> None:
    gone: queue.Queue[str] = queue.Queue()
    worker = a_worker()
    with sleeper(tmp_path, worker):
        pass
    assert os.listdir(tmp_path / FOLDER) == [worker]
    with joined(FileWatch(tmp_path), "watcher", gone.put):
        assert gone.get(timeout=WAIT_SECONDS) == worker.rpartition(":")[2]


def test_a_member_that_leaves_does_not_count_as_dead(tmp_path: Path) -> None:
    gone: queue.Queue[str] = queue.Queue()
    watch = FileWatch(tmp_path)
    with joined(watch, "watcher", gone.put):
        with joined(FileWatch(tmp_path), "other", gone.put) as other:
            wait_until("the other is watched", lambda: other.worker in watch._watched)
        wait_until("only one is there", lambda: [one.name for one in watch.members()] == ["watcher"])
        # A hint that comes all the same finds nothing to end.
        assert_stays("no other is missed", lambda: set(gone.queue) <= {other.life}, seconds=0.2)


def test_a_folder_that_cannot_be_written_costs_the_hint_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / FOLDER).write_text("in the way")
    watch = FileWatch(tmp_path)
    with joined(watch, "watcher", lambda life: None):
        assert watch.members() == []
    assert "this process's death will be noticed by its leases only" in caplog.text


# -- sessions on a PostgreSQL server --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[postgresql.Service]:
    service = postgresql.start(tmp_path_factory.mktemp("postgresql") / "server")
    service.psql("CREATE DATABASE novella_api")
    yield service
    service.stop()


@pytest.fixture
def on_server(server: postgresql.Service, monkeypatch: pytest.MonkeyPatch) -> postgresql.Service:
    wanted = load({"NOVELLA_SECRET_KEY": "k" * 32, "NOVELLA_DATABASE_URL": server.url})
    monkeypatch.setattr(sessions, "connections", ConnectionHandler(described(wanted)))
    return server


@contextmanager
def holder(server: postgresql.Service, worker: str) -> Iterator[psycopg.Connection[Any]]:
    """Hold the lock of another process, on a session that a test can cut."""
    key = sessions._key(worker.rpartition(":")[2])
    with psycopg.connect(server.url + "_api", autocommit=True, application_name=f"{worker} other") as session:
        session.execute(f"SELECT pg_advisory_lock({sessions.LOCK_CLASS}, %s)", [key])
        yield session


@pytest.mark.parametrize("life", ["00000001", "7fffffff", "80000000", "deadbeef", "ffffffff"])
def test_a_lost_session_is_missed_at_once(on_server: postgresql.Service, life: str) -> None:
    gone: queue.Queue[str] = queue.Queue()
    watch = SessionWatch("default")
    with joined(watch, "watcher", gone.put) as me:
        with holder(on_server, f"rack-2:1:{life}"):
            wait_until("both are there", lambda: {one.life for one in watch.members()} == {me.life, life})
            assert {one.name for one in watch.members()} == {"watcher", "other"}
            assert_stays("no member is missed", gone.empty, seconds=SETTLED_SECONDS)
        assert gone.get(timeout=WAIT_SECONDS) == life
        wait_until("only one is there", lambda: [one.worker for one in watch.members()] == [me.worker])


def test_a_dead_database_server_does_not_make_members_dead(on_server: postgresql.Service) -> None:
    gone: queue.Queue[str] = queue.Queue()
    watches = [SessionWatch("default"), SessionWatch("default")]
    with joined(watches[0], "one", gone.put) as one, joined(watches[1], "two", gone.put) as two:

        def are_both_there() -> bool:
            return {member.life for member in watches[0].members()} == {one.life, two.life}

        wait_until("both are there", are_both_there)
        assert_stays("no member is missed", gone.empty, seconds=SETTLED_SECONDS)
        on_server.kill()
        with pytest.raises(Unavailable):
            watches[0].members()
        on_server.restart()
        wait_until("both are there again", are_both_there)
        assert_stays("no member is missed", gone.empty, seconds=SETTLED_SECONDS)


def test_a_session_that_is_cut_is_made_again(on_server: postgresql.Service) -> None:
    watch = SessionWatch("default")
    with joined(watch, "one", lambda life: None) as me:
        wait_until("it is there", lambda: [one.life for one in watch.members()] == [me.life])
        on_server.psql(f"SELECT pg_terminate_backend(pid) FROM pg_locks WHERE classid = {sessions.LOCK_CLASS}")
        wait_until("it is there again", lambda: [one.life for one in watch.members()] == [me.life])


# -- what is done then ----------------------------------------------------------------------------------------------


def owned_run(resource: str) -> WorkflowRun:
    with write_tx("cell1"):
        wanted = outbox.NewRun(flow="delete_instance", action="delete", context=ANA, resources=[resource])
        run = outbox.open_run("cell1", wanted)
    claimed = leases.claim("cell1", run.uuid)
    assert claimed is not None
    return claimed


def test_only_runs_of_dead_members_are_released_and_notified(databases: None, monkeypatch: pytest.MonkeyPatch) -> None:
    rung: list[str] = []
    monkeypatch.setattr(leases, "WORKER", "rack-1:7:aaaaaaaa")
    first = owned_run("instance:1")
    monkeypatch.setattr(leases, "WORKER", "rack-1:8:bbbbbbbb")
    second = owned_run("instance:2")
    monkeypatch.setattr(broker, "notify_conductor", lambda queue, body: rung.append(body["run_uuid"]))
    assert recovery.take_over_from("cell1", "cccccccc") == 0
    assert recovery.take_over_from("cell1", "aaaaaaaa") == 1
    assert recovery.take_over_from("cell1", "aaaaaaaa") == 0  # of two observers, one takes over
    assert rung == [str(first.uuid)]
    owned = WorkflowRun.objects.using("cell1").filter(lease_expires_at__gt=database_now())
    assert [run.pk for run in owned] == [second.pk]
    taken = leases.claim("cell1", first.uuid)
    assert taken is not None
    assert taken.fencing_token > first.fencing_token


def test_a_run_whose_database_was_unreachable_is_released_when_it_answers(
    databases: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rung: list[str] = []
    run = owned_run("instance:1")
    monkeypatch.setattr(broker, "notify_conductor", lambda queue, body: rung.append(body["run_uuid"]))
    monkeypatch.setattr(leases, "_given_up", set())
    with leases.LeaseHeartbeat("cell1", run.uuid):
        leases.give_up("cell1", run.uuid)
        assert recovery.go_on_with_given_up() == 0  # worked on again: not to be given away
    end = leases._end

    def away(alias: str, whose: object) -> None:
        raise OperationalError("the connection is lost")

    monkeypatch.setattr(leases, "_end", away)
    assert recovery.go_on_with_given_up() == 0
    monkeypatch.setattr(leases, "_end", end)
    assert recovery.go_on_with_given_up() == 1
    assert recovery.go_on_with_given_up() == 0
    assert rung == [str(run.uuid)]
    assert leases.claim("cell1", run.uuid) is not None
