"""Builds that fail are counted against their host until one succeeds there, and the scheduler avoids such hosts."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.cell_db import build_failures
from conductor.cell_db.models import ComputeNode, Instance
from conductor.core.states import VmState
from conductor.scheduler import host_manager as host_managers
from conductor.scheduler.host_manager import HostManager
from tests.fixtures.builds import ana, instance_of, launch, run_to_the_end

__all__ = ["ana"]
pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


@pytest.fixture(autouse=True)
def counts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_managers, "IO_OPS_EVERY_SECONDS", 0.0)


def failures() -> dict[str, int]:
    return build_failures.in_a_row("cell1")


def test_a_failed_build_counts_against_its_host_until_one_succeeds_there(ana: Any) -> None:
    first = launch(ana)
    run_to_the_end(refused=1)
    good = instance_of(first).host
    (bad,) = {"sim-1", "sim-2"} - {good}
    assert failures() == {bad: 1}
    for _ in range(3):  # the other host is liked better by far, however full it gets
        again = launch(ana)
        run_to_the_end()
        assert instance_of(again).host == good
    assert failures() == {bad: 1}
    ComputeNode.objects.using("cell1").filter(host=good).update(failed_builds=5, build_failed_at=instance_now(again))
    back = launch(ana)
    run_to_the_end()
    assert instance_of(back).host == bad
    assert failures() == {good: 5}


def instance_now(uuid: str) -> Any:
    launched = instance_of(uuid).launched_at
    assert launched is not None
    return launched


def test_a_build_that_both_hosts_refuse_counts_once_on_each_and_again_the_next_time(ana: Any) -> None:
    for round_number in (1, 2):
        uuid = launch(ana)
        run_to_the_end(refused=2)
        assert instance_of(uuid).vm_state == VmState.ERROR
        assert failures() == {"sim-1": round_number, "sim-2": round_number}
    launch(ana)
    run_to_the_end()
    assert len(failures()) == 1  # where it runs now is forgiven
    launch(ana)
    run_to_the_end(refused=2)
    assert sorted(failures().values()) == [1, 3]  # and begins anew there


def test_the_table_of_hosts_follows_failures_and_images(ana: Any) -> None:
    manager = HostManager()
    assert [state.failed_builds for state in manager.snapshot().table.states] == [0, 0]
    uuid = launch(ana)
    run_to_the_end(refused=1)
    by_host = {state.host: state for state in manager.snapshot().table.states}
    host = str(instance_of(uuid).host)
    assert {name: state.failed_builds for name, state in by_host.items()} == {**failures(), host: 0}
    assert not any(state.image_properties for state in by_host.values())  # not requested
    image = {**instance_of(uuid).image, "properties": {"os_distro": "debian", "hw_cpu_cores": "2", "colour": "red"}}
    Instance.objects.using("cell1").filter(uuid=uuid).update(image=image)
    counted = {state.host: state.image_properties for state in manager.snapshot(counts_images=True).table.states}
    assert counted.pop(host) == {("os_distro", "debian"): 1, ("hw_cpu_cores", "2"): 1}
    assert not any(counted.values())
