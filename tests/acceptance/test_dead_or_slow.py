"""Dead or slow conductors: slow ones keep their work, stopped ones are fenced, dead ones are noticed soon."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conductor.core.errors import Unavailable
from conductor.core.membership import MembershipLocation
from conductor.membership.plugin import register_memberships
from tests.acceptance.crew import Crew
from tests.services import etcd, zookeeper
from tests.waiting import assert_stays, wait_until

# So long that a conductor renews its leases in time even on a machine that stalls for seconds.
LEASE_SECONDS = 15.0
SWEEP_SECONDS = 0.3
QUICK = {"NOVELLA_LEASE_SECONDS": str(LEASE_SECONDS), "NOVELLA_SWEEP_SECONDS": str(SWEEP_SECONDS)}
FOREVER = 3600.0  # no test waits as long
Service = zookeeper.Service | etcd.Service


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    folder = tmp_path_factory.mktemp("crew")
    with Crew(folder, database="postgresql", **QUICK) as started:
        started.add("a")
        started.add("b")
        yield started


def await_state(crew: Crew, run: str, state: str) -> dict[str, object]:

    def look() -> dict[str, object] | None:
        row = crew.row(run)
        return row if row["state"] == state else None

    found: dict[str, object] = wait_until(f"{run} is {state}", look, details=lambda: crew.row(run))
    return found


def test_a_step_that_takes_longer_than_its_lease_keeps_its_conductor(crew: Crew) -> None:
    run = crew.open_run(FOREVER)
    crew.await_line("begin", run)
    first_ends_at, _ = crew.lease(run)
    wait_until("its first lease would be over", lambda: crew.lease(run)[1] > first_ends_at + 2 * SWEEP_SECONDS)
    crew.let_end(run)
    ended = crew.await_line("end", run)
    assert [line.pid for line in crew.lines(run=run)] == [ended.pid, ended.pid]
    await_state(crew, run, "done")


def test_a_stopped_conductor_is_replaced_after_its_lease_and_then_fenced(crew: Crew) -> None:
    run = crew.open_run(FOREVER)
    first = crew.await_line("begin", run)
    token = crew.row(run)["fencing_token"]
    os.kill(first.pid, signal.SIGSTOP)
    try:
        lease_ends_at, _ = crew.lease(run)
        second = crew.await_line("begin", run, after=first)
        assert crew.lease(run)[1] > lease_ends_at
        assert second.pid != first.pid
        done = await_state(crew, run, "done")
        assert done["fencing_token"] > token
    finally:
        os.kill(first.pid, signal.SIGCONT)
    crew.let_end(run)
    refused = crew.await_line("refused", run, after=second)
    assert refused.pid == first.pid
    assert_stays("the run is as the second has left it", lambda: crew.row(run) == done, 1.0)
    assert [(line.what, line.pid) for line in crew.lines(run=run)] == [
        ("begin", first.pid),
        ("begin", second.pid),
        ("end", second.pid),
        ("refused", first.pid),
    ]


@pytest.mark.parametrize("is_apart", [False, True], ids=["by its file", "by its session alone"])
def test_a_killed_conductor_is_replaced_at_once(crew: Crew, is_apart: bool) -> None:
    """Its lease is longer than the limit of this test, so only its death can cause the takeover."""
    third = crew.add("c", is_apart=is_apart, lease_seconds=FOREVER)
    crew.await_seen("a", "b", "c")
    os.kill(crew.pids["a"], signal.SIGSTOP)
    os.kill(crew.pids["b"], signal.SIGSTOP)
    try:
        run = crew.open_run(FOREVER)
        first = crew.await_line("begin", run)
        assert first.pid == third
    finally:
        os.kill(crew.pids["a"], signal.SIGCONT)
        os.kill(crew.pids["b"], signal.SIGCONT)
    os.kill(third, signal.SIGKILL)
    crew.await_line("begin", run, after=first)
    await_state(crew, run, "done")


def test_a_conductor_that_stops_on_request_gives_up_its_leases(crew: Crew) -> None:
    third = crew.add("d", lease_seconds=FOREVER)
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
def test_a_group_service_speeds_up_takeovers_and_its_failure_delays_nothing(
    start: Callable[..., Service], tmp_path: Path
) -> None:
    """These conductors share no folder and no PostgreSQL server, and their leases are too long to wait for."""
    service = start(tmp_path / "service")
    variables = {"NOVELLA_MEMBERSHIP_URL": service.url, "NOVELLA_LEASE_SECONDS": "3600", "NOVELLA_SWEEP_SECONDS": "0.3"}
    try:
        with Crew(tmp_path / "crew", **variables) as crew:
            crew.add("a", is_apart=True)
            crew.add("b", is_apart=True)
            wait_until("both are in the group", lambda: names(service) == ["a", "b"])
            crew.await_seen("a", "b")
            run = crew.open_run(FOREVER)
            first = crew.await_line("begin", run)
            os.kill(first.pid, signal.SIGKILL)
            crew.await_line("end", run, after=first)

            complaint, again = "deaths are noticed by leases only, for now", "deaths are noticed at once again"
            known = Counter({phrase: crew.log().count(phrase) for phrase in (complaint, again)})
            service.kill()
            run = crew.open_run(0.1)
            crew.await_line("end", run)
            crew.add("c", is_apart=True)
            run = crew.open_run(0.1)
            crew.await_line("end", run)
            wait_until("each says once what is lost", lambda: crew.log().count(complaint) == known[complaint] + 2)
            left = sorted({"a", "b", "c"} - {name for name, pid in crew.pids.items() if pid == first.pid})
            service.restart()
            wait_until("those who live are in the group again", lambda: names(service) == left)
            wait_until("both say so", lambda: crew.log().count(again) == known[again] + 2)
            assert crew.log().count(complaint) == known[complaint] + 2
    finally:
        service.stop()


def names(service: Service) -> list[str]:
    membership = register_memberships()[service.url.partition("://")[0]](MembershipLocation(service.url, Path()))
    try:
        return sorted(member.name for member in membership.members())
    except Unavailable:
        return []
