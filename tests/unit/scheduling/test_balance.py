"""Balance of a fleet: the ends of the scale, the effect of one more guest, and hosts that do not count."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conductor.core.host_state import HostState
from conductor.core.scheduling.balance import balance

EMPTY = HostState(
    host="", node="", cell="cell1", provider_uuid="", availability_zone="az-1", vcpus=8, vcpus_used=0,
    memory_mb=1000, memory_mb_used=0, disk_gb=100, disk_gb_used=0, cpu_ratio=1.0, ram_ratio=1.0,
)  # fmt: skip
HALF = {"VCPU": 4, "MEMORY_MB": 500}


def hosts(*used: float) -> list[HostState]:
    return [
        replace(EMPTY, host=f"h{number}", vcpus_used=int(8 * share), memory_mb_used=int(1000 * share))
        for number, share in enumerate(used)
    ]


@pytest.mark.parametrize(("used", "found"), [((0.5, 0.5), 100), ((0, 0, 0), 100), ((1, 0), 0), ((0.5, 0), 50)])
def test_the_balance_of_a_fleet(used: tuple[float, ...], found: float) -> None:
    assert balance(hosts(*used), {}, {}) == pytest.approx(found)


def test_one_more_guest_counts_on_its_host() -> None:
    fleet = hosts(0.5, 0)
    assert balance(fleet, {"h1": 1}, HALF) == pytest.approx(100)
    assert balance(fleet, {"h0": 1}, HALF) == pytest.approx(0)


def test_hosts_that_take_nothing_do_not_count() -> None:
    even, closed = hosts(0.2, 0.2), replace(hosts(1)[0], host="h9", is_disabled=True)
    assert balance([*even, closed], {}, {}) == pytest.approx(100)
    assert balance([even[0], closed, replace(even[1], is_up=False)], {}, {}) is None
