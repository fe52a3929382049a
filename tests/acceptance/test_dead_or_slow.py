"""Dead or slow conductors: slow ones keep their work, stopped ones are fenced, dead ones are noticed soon."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conductor.core.errors import Unavailable
from conductor.core.membership import MembershipLocation
from conductor.membership.plugin import register_memberships
from tests.acceptance.cloud import wait_until
from tests.acceptance.crew import Crew
from tests.services import etcd, zookeeper

LEASE_SECONDS = 3.0
SWEEP_SECONDS = 0.3
QUICK = {"NOVELLA_LEASE_SECONDS": str(LEASE_SECONDS), "NOVELLA_SWEEP_SECONDS": str(SWEEP_SECONDS)}
# Margin for a loaded machine: a notification, a claim and a commit.
PATIENCE_SECONDS = 15.0
FOREVER = 600.0
Service = zookeeper.Service | etcd.Service


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    folder = tmp_path_factory.mktemp("crew")
    with Crew(folder, database="postgresql", **QUICK) as started:
        started.add("a")
        started.add("b")
        yield started


def await_state(crew: Crew, run: str, state: str) -> dict[str, object]:
    deadline = time.monotonic() + 30
    while (row := crew.row(run))["state"] != state:
        assert time.monotonic() < deadline, row
        time.sleep(0.05)
    return row


def test_a_step_that_takes_longer_than_its_lease_is_left_to_who_does_it(crew: Crew) -> None:
    run = crew.open_run(2.5 * LEASE_SECONDS)
    ended = crew.await_line("end", run)
    assert [line.pid for line in crew.lines(run=run)] == [ended.pid, ended.pid]
    await_state(crew, run, "done")


def test_who_is_stopped_is_replaced_after_its_lease_and_then_changes_nothing(crew: Crew) -> None:
    run = crew.open_run(2 * LEASE_SECONDS)
    first = crew.await_line("begin", run)
    token = crew.row(run)["fencing_token"]
    os.kill(first.pid, signal.SIGSTOP)
    try:
        stopped_at = time.monotonic()
        second = crew.await_line("begin", run, after=first)
        waited = second.at - stopped_at
        assert LEASE_SECONDS * 0.5 < waited < LEASE_SECONDS + SWEEP_SECONDS + PATIENCE_SECONDS
        assert second.pid != first.pid
        done = await_state(crew, run, "done")
        assert done["fencing_token"] > token
    finally:
        os.kill(first.pid, signal.SIGCONT)
    refused = crew.await_line("refused", run, after=second)
    assert refused.pid == first.pid
    time.sleep(1.0)
    assert crew.row(run) == done
    assert [(line.what, line.pid) for line in crew.lines(run=run)] == [
        ("begin", first.pid),
        ("begin", second.pid),
        ("end", second.pid),
        ("refused", first.pid),
    ]


@pytest.mark.parametrize("is_apart", [False, True], ids=["by its file", "by its session alone"])
def test_who_is_killed_is_replaced_at_once(crew: Crew, is_apart: bool) -> None:
    """Its lease outlasts the patience of this test, so that nothing but the death can have been noticed."""
    third = crew.add("c", is_apart=is_apart, lease_seconds=FOREVER)
    os.kill(crew.pids["a"], signal.SIGSTOP)
    os.kill(crew.pids["b"], signal.SIGSTOP)
    try:
        run = crew.open_run(FOREVER)
        first = crew.await_line("begin", run)
        assert first.pid == third
    finally:
        os.kill(crew.pids["a"], signal.SIGCONT)
        os.kill(crew.pids["b"], signal.SIGCONT)
    time.sleep(0.5)
    os.kill(third, signal.SIGKILL)
    crew.await_line("begin", run, after=first)
    await_state(crew, run, "done")


def test_who_is_asked_to_end_gives_up_its_leases(crew: Crew) -> None:
    third = crew.add("d")
    os.kill(crew.pids["a"], signal.SIGSTOP)
    os.kill(crew.pids["b"], signal.SIGSTOP)
    try:
        run = crew.open_run(FOREVER)
        first = crew.await_line("begin", run)
        assert first.pid == third
    finally:
        os.kill(crew.pids["a"], signal.SIGCONT)
        os.kill(crew.pids["b"], signal.SIGCONT)
    os.kill(third, signal.SIGTERM)  # it waits ten seconds for its step, and then gives it away
    second = crew.await_line("begin", run, after=first)
    assert second.pid in (crew.pids["a"], crew.pids["b"])
    await_state(crew, run, "done")


@pytest.mark.parametrize("start", [zookeeper.start, etcd.start], ids=["zookeeper", "etcd"])
def test_a_group_service_hastens_and_never_hinders(start: Callable[..., Service], tmp_path: Path) -> None:
    """These conductors share no folder and no PostgreSQL server, and their leases are too long to wait for."""
    service = start(tmp_path / "service")
    variables = {"NOVELLA_MEMBERSHIP_URL": service.url, "NOVELLA_LEASE_SECONDS": "300", "NOVELLA_SWEEP_SECONDS": "0.3"}
    try:
        with Crew(tmp_path / "crew", **variables) as crew:
            crew.add("a", is_apart=True)
            crew.add("b", is_apart=True)
            wait_until("both are in the group", lambda: names(service) == ["a", "b"])
            time.sleep(1.0)  # and have seen each other
            run = crew.open_run(FOREVER)
            first = crew.await_line("begin", run)
            os.kill(first.pid, signal.SIGKILL)
            crew.await_line("end", run, after=first)

            service.kill()
            run = crew.open_run(0.1)
            crew.await_line("end", run)
            crew.add("c", is_apart=True)
            run = crew.open_run(0.1)
            crew.await_line("end", run)
            complaint = "deaths are noticed by leases only, for now"
            wait_until("each says once what is lost", lambda: crew.log().count(complaint) == 2)
            left = sorted({"a", "b", "c"} - {name for name, pid in crew.pids.items() if pid == first.pid})
            service.restart()
            wait_until("those who live are in the group again", lambda: names(service) == left)
            again = "deaths are noticed at once again"
            wait_until("both say so", lambda: crew.log().count(again) == 2)
            assert crew.log().count(complaint) == 2
    finally:
        service.stop()


def names(service: Service) -> list[str]:
    membership = register_memberships()[service.url.partition("://")[0]](MembershipLocation(service.url, Path()))
    try:
        return sorted(member.name for member in membership.members())
    except Unavailable:
        return []
