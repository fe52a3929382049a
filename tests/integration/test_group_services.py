"""ZooKeeper and etcd as groups: dead members are noticed, but not because a server dies or hangs."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
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

PROJECT = Path(__file__).resolve().parents[2]
SECONDS = 30.0
# By then members without heartbeats count as dead, and all others have checked again.
SETTLED_SECONDS = 11.0
SERVICES = {"zookeeper": zookeeper.start, "etcd": etcd.start}
Service = zookeeper.Service | etcd.Service
# A process that joins and then does nothing.
SLEEPER = """
import sys, time
from pathlib import Path
from conductor.core.membership import Member, MembershipLocation
from conductor.membership.plugin import register_memberships
kind = register_memberships()[sys.argv[1].partition(":")[0]]
kind(MembershipLocation(sys.argv[1], Path())).join(Member(sys.argv[2], "sleeper"), print)
time.sleep(600)
"""


@pytest.fixture(scope="module", params=sorted(SERVICES))
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    started = SERVICES[request.param](tmp_path_factory.mktemp(request.param))
    yield started
    started.stop()


def made(service: Service) -> Membership:
    return register_memberships()[service.url.partition(":")[0]](MembershipLocation(service.url, Path()))


def a_worker() -> str:
    return f"rack-1:{os.getpid()}:{uuid4().hex[:8]}"


def await_that(what: str, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


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
    process = subprocess.Popen([sys.executable, "-c", SLEEPER, service.url, worker], cwd=PROJECT)
    try:
        yield process
    finally:
        process.kill()
        process.wait(SECONDS)


def test_the_killed_are_missed_and_those_who_leave_are_gone_at_once(service: Service) -> None:
    gone: queue.Queue[str] = queue.Queue()
    worker = a_worker()
    with joined(service, "watcher", gone.put) as watcher:
        with joined(service, "other", lambda life: None), sleeper(service, worker) as process:
            await_that("all are there", lambda: names(watcher) == ["other", "sleeper", "watcher"])
            assert worker in {member.worker for member in watcher.members()}
            time.sleep(0.5)
            assert gone.empty()
            process.kill()
            assert gone.get(timeout=SECONDS) == worker.rpartition(":")[2]
        assert names(watcher) == ["watcher"]
    assert made(service).members() == []


def test_a_server_that_is_killed_takes_nobody_for_dead(service: Service) -> None:
    gone: queue.Queue[str] = queue.Queue()
    worker = a_worker()
    with (
        joined(service, "one", gone.put) as one,
        joined(service, "two", gone.put),
        sleeper(service, worker) as process,
    ):
        await_that("all are there", lambda: names(one) == ["one", "sleeper", "two"])
        time.sleep(0.5)
        service.kill()
        with pytest.raises(Unavailable):
            one.members()
        service.restart()
        await_that("all are there again", lambda: names(one) == ["one", "sleeper", "two"])
        time.sleep(SETTLED_SECONDS)
        assert names(one) == ["one", "sleeper", "two"]
        assert gone.empty()
        process.kill()
        assert {gone.get(timeout=SECONDS), gone.get(timeout=SECONDS)} == {worker.rpartition(":")[2]}


def test_a_server_that_hangs_keeps_nobody_waiting(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{type(made(service)).__module__}.ANSWER_SECONDS", 2 * SECONDS)  # a wait would be noticed
    membership = made(service)
    service.send_signal(signal.SIGSTOP)
    try:
        began = time.monotonic()
        membership.join(Member(a_worker(), "one"), lambda life: None)
        assert time.monotonic() - began < SECONDS
        monkeypatch.undo()
        with pytest.raises(Unavailable):
            made(service).members()
        began = time.monotonic()
        membership.leave()
        assert time.monotonic() - began < SECONDS
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
