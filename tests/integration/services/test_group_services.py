"""ZooKeeper and etcd as groups: dead members are noticed, but not because a server dies or hangs."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from conductor.actors import liveness
from conductor.core.errors import Invalid, Unavailable
from conductor.core.membership import Member, Membership, MembershipLocation, OnGone
from conductor.membership.etcd import EtcdMembership
from conductor.membership.plugin import register_memberships
from conductor.membership.zookeeper import ZooKeeperMembership
from tests.services import etcd, zookeeper
from tests.waiting import WAIT_SECONDS, assert_stays, wait_until

PROJECT = Path(__file__).resolve().parents[3]
# A member counts as dead after this long without a heartbeat: longer than a slow machine holds a process up.
SESSION_SECONDS = 12
QUIET_SECONDS = 16.0
# By then members without heartbeats count as dead, and all others have checked again.
SETTLED_SECONDS = 17.0
SERVICES = {"zookeeper": zookeeper.start, "etcd": etcd.start}
Service = zookeeper.Service | etcd.Service
# A process that joins and then does nothing.
SLEEPER = """
import sys
from pathlib import Path
from conductor.membership import etcd, zookeeper
from conductor.core.membership import Member, MembershipLocation
from conductor.membership.plugin import register_memberships
etcd.LEASE_SECONDS = zookeeper.SESSION_SECONDS = int(sys.argv[3])
kind = register_memberships()[sys.argv[1].partition(":")[0]]
kind(MembershipLocation(sys.argv[1], Path())).join(Member(sys.argv[2], "sleeper"), print)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _long_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conductor.membership.etcd.LEASE_SECONDS", SESSION_SECONDS)
    monkeypatch.setattr("conductor.membership.zookeeper.SESSION_SECONDS", float(SESSION_SECONDS))
    monkeypatch.setattr("conductor.membership.polled.QUIET_SECONDS", QUIET_SECONDS)


@pytest.fixture(scope="module", params=sorted(SERVICES))
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    started = SERVICES[request.param](tmp_path_factory.mktemp(request.param))
    yield started
    started.stop()


def made(service: Service) -> Membership:
    return register_memberships()[service.url.partition(":")[0]](MembershipLocation(service.url, Path()))


def a_worker() -> str:
    return f"rack-1:{os.getpid()}:{uuid4().hex[:8]}"


def names(membership: Membership) -> list[str]:
    try:
        return sorted(member.name for member in membership.members())
    except Unavailable:
        return []


@contextmanager
def joined(service: Service, name: str, on_gone: OnGone) -> Iterator[Membership]:
    membership = made(service)
    membership.join(Member(a_worker(), name), on_gone)
    try:
        yield membership
    finally:
        membership.leave()


@contextmanager
def sleeper(service: Service, worker: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", SLEEPER, service.url, worker, str(SESSION_SECONDS)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, cwd=PROJECT)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=WAIT_SECONDS)


def test_killed_members_are_noticed_and_members_that_leave_are_gone_at_once(service: Service) -> None:
    gone: queue.Queue[str] = queue.Queue()
    worker = a_worker()
    with joined(service, "watcher", gone.put) as watcher:
        with joined(service, "other", lambda life: None), sleeper(service, worker) as process:
            wait_until("all are there", lambda: names(watcher) == ["other", "sleeper", "watcher"])
            assert worker in {member.worker for member in watcher.members()}
            assert_stays("no member is missed", gone.empty)
            process.kill()
            assert gone.get(timeout=WAIT_SECONDS) == worker.rpartition(":")[2]
        assert names(watcher) == ["watcher"]
    assert made(service).members() == []


def test_a_killed_group_server_does_not_make_members_dead(service: Service) -> None:
    gone: queue.Queue[str] = queue.Queue()
    worker = a_worker()
    with (
        joined(service, "one", gone.put) as one,
        joined(service, "two", gone.put),
        sleeper(service, worker) as process,
    ):
        wait_until("all are there", lambda: names(one) == ["one", "sleeper", "two"])
        assert_stays("no member is missed", gone.empty)
        service.kill()
        with pytest.raises(Unavailable):
            one.members()
        service.restart()
        wait_until("all are there again", lambda: names(one) == ["one", "sleeper", "two"])
        assert_stays("no member is missed", gone.empty, seconds=SETTLED_SECONDS)
        wait_until("all are there still", lambda: names(one) == ["one", "sleeper", "two"])
        assert gone.empty()
        process.kill()
        assert {gone.get(timeout=WAIT_SECONDS) for _ in range(2)} == {worker.rpartition(":")[2]}


def test_a_server_that_hangs_delays_no_caller(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    membership = made(service)
    service.send_signal(signal.SIGSTOP)
    try:
        with monkeypatch.context() as patient:
            # No test may wait for this long.
            patient.setattr(f"{type(membership).__module__}.ANSWER_SECONDS", 3600.0)
            membership.join(Member(a_worker(), "one"), lambda life: None)
        with pytest.raises(Unavailable):
            made(service).members()
        membership.leave()
    finally:
        service.send_signal(signal.SIGCONT)


@pytest.mark.parametrize(
    ("kind", "url", "hosts", "path"),
    [
        (ZooKeeperMembership, "zookeeper://a", (("a", 2181),), "/novella/members"),
        (ZooKeeperMembership, "zookeeper://a:1,b,[::1]:3/x/y/", (("a", 1), ("b", 2181), ("::1", 3)), "/x/y"),
        (EtcdMembership, "etcd://etcd.example/shop", (("etcd.example", 2379),), "/shop"),
    ],
)
def test_addresses(
    kind: type[ZooKeeperMembership | EtcdMembership], url: str, hosts: tuple[tuple[str, int], ...], path: str
) -> None:
    membership = kind(MembershipLocation(url, Path()))
    assert (membership._addresses.hosts, membership._addresses.path) == (hosts, path)


def test_a_scheme_that_no_plugin_brings_is_refused(settings: object) -> None:
    settings.NOVELLA_MEMBERSHIP_URL = "consul://a:1/x"  # type: ignore[attr-defined]
    with pytest.raises(Invalid) as refused:
        liveness.memberships()
    assert refused.value.message.startswith("NOVELLA_MEMBERSHIP_URL: no plugin brings consul://.")
