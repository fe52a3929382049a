"""Ledgers: their sums are what is in use after any changes, and readers add up few entries."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest
from django.db import connections
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conductor.api_db.models import InstanceMapping, UsageEntry
from conductor.db import ledgers
from conductor.db.transactions import write_tx
from conductor.network import port_rows
from conductor.network.models import AddressAllocation, Network, Port, ShareEntry, Subnet
from conductor.services.quotas import quotas
from conductor.services.quotas.quotas import Usage
from tests.compute_rows import TINY
from tests.databases import empty_all
from tests.fixtures.addresses import CONTEXT, make_network

PROJECTS = ("shop", "lab")
USERS = ("ana", "bo")
places = st.tuples(st.sampled_from(PROJECTS), st.sampled_from(USERS), st.integers(1, 4))
moves = st.lists(
    st.one_of(
        st.tuples(st.just("add"), places),
        st.tuples(st.sampled_from(("flag", "unflag", "delete", "resize", "move")), places),
        st.tuples(st.just("read"), places),
    ),
    max_size=30,
)


def add(project: str, user: str, size: int) -> None:
    InstanceMapping.objects.create(
        instance_uuid=uuid4(), project_id=project, user_id=user, vcpus=size, memory_mb=size * 512,
        build_run_uuid=uuid4(), created_at=timezone.now(),
    )  # fmt: skip


def counted(project: str, user: str = "") -> Usage:
    rows = InstanceMapping.objects.filter(project_id=project, is_deleted=False)
    mine = list(rows.filter(user_id=user) if user else rows)
    return Usage(len(mine), sum(row.vcpus for row in mine), sum(row.memory_mb for row in mine))


def change(kind: str, project: str, user: str, size: int) -> None:
    first = InstanceMapping.objects.filter(project_id=project, vcpus=size).order_by("pk")[:1]
    rows = InstanceMapping.objects.filter(pk__in=list(first.values_list("pk", flat=True)))
    if kind == "add":
        add(project, user, size)
    elif kind in ("flag", "unflag"):
        rows.update(is_deleted=kind == "flag")
    elif kind == "delete":
        rows.delete()
    elif kind == "resize":
        rows.update(vcpus=size + 1, memory_mb=0, is_deleted=False)
    elif kind == "move":
        rows.update(user_id=user, project_id=PROJECTS[0])
    else:
        with write_tx():
            quotas.usage(project, user)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=moves)
def test_usage_is_what_the_instances_use(databases: None, monkeypatch: pytest.MonkeyPatch, changes: Any) -> None:
    monkeypatch.setattr(quotas, "MOST_ENTRIES", 3)
    empty_all()
    for kind, place in changes:
        change(kind, *place)
        for project in PROJECTS:
            assert quotas.usage(project) == counted(project)
            for user in USERS:
                assert quotas.usage(project, user) == counted(project, user)


def test_a_request_adds_up_few_entries_however_many_instances_there_are(databases: None) -> None:
    most = 0
    for _ in range(5 * ledgers.MOST_ENTRIES):
        with write_tx():
            quotas.check_launch("shop", TINY, at_least=0, at_most=1)
            add("shop", "ana", 1)
        most = max(most, UsageEntry.objects.count())
    assert most <= ledgers.MOST_ENTRIES + 2
    assert quotas.usage("shop") == counted("shop")


def test_requests_at_once_use_no_more_than_the_quota(databases: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while entries are compacted, and instances of other users are deleted."""
    monkeypatch.setattr(quotas, "MOST_ENTRIES", 2)
    monkeypatch.setattr(quotas, "DEFAULTS", {**quotas.DEFAULTS, "instances": 10, "cores": -1, "ram": -1})

    def work(number: int) -> None:
        user = f"user-{number}"
        try:
            for turn in range(10):
                with write_tx():
                    if quotas.check_launch("shop", TINY, at_least=0, at_most=1):
                        add("shop", user, 1)
                with write_tx():
                    alive = InstanceMapping.objects.filter(project_id="shop", is_deleted=False)
                    assert alive.count() <= 10
                    if turn % 2:
                        alive.filter(user_id=user).update(is_deleted=True)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert quotas.usage("shop") == counted("shop")


def shares() -> Counter[str]:
    held = AddressAllocation.objects.exclude(port__project_id=CONTEXT.project_id)
    return Counter(held.values_list("port__project_id", flat=True))


def in_ledger() -> Counter[str]:
    found: Counter[str] = Counter()
    for project, addresses in ShareEntry.objects.values_list("project_id", "addresses"):
        found[project] += addresses
    return +found


def port_of(network: Network, project: str) -> Port:
    with write_tx():
        return port_rows.create(network, groups=[], project_id=project)


def test_shares_of_a_subnet_are_what_guests_hold(databases: None) -> None:
    network = make_network("10.0.0.0/20")
    ports = [port_of(network, project) for project in (*PROJECTS, CONTEXT.project_id) for _ in range(5)]
    assert in_ledger() == shares() == {"shop": 5, "lab": 5}
    for port in ports[::2]:
        port.delete()
    port_rows.delete([ports[1].pk])
    assert in_ledger() == shares()
    for _ in range(3 * ledgers.MOST_ENTRIES):
        port_of(network, "shop")
    assert in_ledger() == shares()
    assert ShareEntry.objects.filter(project_id="shop").count() <= ledgers.MOST_ENTRIES + 2
    Port.objects.all().delete()
    Subnet.objects.get().delete()
    assert not ShareEntry.objects.exists()
