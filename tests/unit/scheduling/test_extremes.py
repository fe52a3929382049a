"""Cached minimum and maximum of columns equal those of all hosts."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from conductor.core.extremes import KEPT
from conductor.core.host_state import CLAIMED_COLUMNS, HostState, HostTable, Mask
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.needs import needs_of
from conductor.core.scheduling.working_table import WorkingTable
from tests.unit.scheduling.fleets import host, spec


def drawn(dice: random.Random, row: int) -> HostState:
    """Few distinct numbers of I/O, many of memory, some below nothing."""
    return host(f"host-{row}", memory_mb_used=dice.randrange(20_000), num_io_ops=dice.randrange(3))


def assert_known(hosts: HostTable, passing: Mask, *, must_know: bool = False) -> None:
    for name in CLAIMED_COLUMNS:
        column = getattr(hosts, name)
        found = hosts.ends_of(column, passing)
        assert found is not None or not must_know, name
        if found is not None:
            assert found == (column[passing].min(), column[passing].max()), name


@pytest.mark.parametrize("count", [2, KEPT, KEPT + 1, 500])
def test_ends_are_found_while_hosts_change(count: int) -> None:
    dice = random.Random(count)
    hosts = HostTable.from_states([drawn(dice, row) for row in range(count)])
    assert_known(hosts, hosts.everyone, must_know=True)
    for _ in range(120):
        hosts = hosts.with_rows({row: drawn(dice, row) for row in dice.sample(range(count), dice.randrange(1, 3))})
        passing = np.array([dice.random() < 0.5 for _ in range(count)])
        passing[dice.randrange(count)] = True
        assert_known(hosts, passing)
        assert_known(hosts, hosts.everyone, must_know=True)


def test_the_greatest_going_one_after_another_is_followed_to_the_last() -> None:
    hosts = HostTable.from_states([host(f"host-{row}", memory_mb_used=row) for row in range(100)])
    for _ in range(3 * KEPT):
        row = int(hosts.unused_memory_mb.argmax())
        hosts = hosts.with_rows({row: replace(hosts.states[row], memory_mb_used=1000)})
        assert_known(hosts, hosts.everyone, must_know=True)


def test_rejected_hosts_are_no_extremes_and_only_a_few_rows_are_searched() -> None:
    hosts = HostTable.from_states([host(f"host-{row}", memory_mb_used=row) for row in range(200)])
    middle = np.arange(200) // 10 == 10
    assert hosts.ends_of(hosts.unused_memory_mb, middle) is None  # none of those that are known
    assert hosts.ends_of(hosts.unused_memory_mb, ~middle) == (
        hosts.unused_memory_mb[199],
        hosts.unused_memory_mb[0],
    )


def test_columns_with_infinite_values_have_no_extremes() -> None:
    endless = host("host-0", cpu_ratio=float("inf"))
    hosts = HostTable.from_states([endless, *(host(f"host-{row}") for row in range(1, 5))])
    assert hosts.ends_of(hosts.free_vcpus, hosts.everyone) is None
    assert_known(hosts.with_rows({0: host("host-0", vcpus_used=3)}), hosts.everyone, must_know=True)
    mended = HostTable.from_states([host(f"host-{row}") for row in range(5)])
    assert_known(mended, mended.everyone, must_know=True)
    spoilt = mended.with_rows({0: endless})
    assert spoilt.ends_of(spoilt.free_vcpus, spoilt.everyone) is None


def test_a_table_whose_rows_change_in_place_knows_none() -> None:
    hosts = HostTable.from_states([host(f"host-{row}") for row in range(5)])
    request: RequestSpec = spec()
    table = WorkingTable(hosts)
    table.take(0, request, needs_of(request))
    assert table.hosts.ends_of(table.hosts.free_vcpus, table.hosts.everyone) is None
    assert table.hosts.ends_of(hosts.free_vcpus, table.hosts.everyone) is None
    assert_known(hosts, hosts.everyone, must_know=True)
