"""Weighers that are neutral without data: failures, versions, cells, images and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from conductor.core.host_state import HostState, HostTable
from conductor.core.metrics import kept
from conductor.core.request_spec import GroupSpec, RequestSpec
from conductor.core.scheduling.weighing import Multipliers, Weighing, WeightMissing, weigh
from conductor.core.weigher import Weigher
from tests.unit.scheduling.fleets import SHIPPED, host, spec, table

BROUGHT: dict[str, type[Weigher]] = {one.name: type(one) for one in SHIPPED.loaded_weighers}


def weighed(
    name: str,
    hosts: HostTable,
    request: RequestSpec | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    factors: Mapping[str, float] | None = None,
    passing: list[bool] | None = None,
) -> Weighing:
    mask = np.array(passing or [True] * len(hosts))
    one = BROUGHT[name](options)
    return weigh(hosts, request or spec(), (one,), multipliers=Multipliers(factors or {}), passing=mask)


def parts_of(weighing: Weighing) -> list[tuple[float, float, float]]:
    """Raw number, share and factor of each host."""
    assert not weighing.faults
    (part,) = weighing.parts
    return [part.of(row) for row in range(len(weighing.totals))]


def fleet(*values: Mapping[str, Any]) -> HostTable:
    return table(*(host(f"host-{row}", **one) for row, one in enumerate(values)))


def test_failed_builds_count_against_a_host() -> None:
    hosts = fleet({}, {"failed_builds": 1}, {"failed_builds": 4})
    assert parts_of(weighed("BuildFailureWeigher", hosts)) == [(0, 0, -1e6), (1, 0.25, -1e6), (4, 1, -1e6)]
    weighing = weighed("BuildFailureWeigher", hosts, factors={"build_failure_weight_multiplier": 8.0})
    assert weighing.totals.tolist() == [0.0, -2.0, -8.0]


def test_aggregates_say_how_much_failed_builds_count_against() -> None:
    mild = {"build_failure_weight_multiplier": frozenset({"2", "3"})}
    odd = {"build_failure_weight_multiplier": frozenset({"2", "much"})}
    hosts = fleet({}, {"failed_builds": 1, "aggregate_metadata": mild}, {"failed_builds": 1, "aggregate_metadata": odd})
    assert weighed("BuildFailureWeigher", hosts).totals.tolist() == [0.0, -2.0, -1e6]


def test_versions_and_counts() -> None:
    hosts = fleet({"hypervisor_version": 8_000_000, "num_instances": 4}, {"hypervisor_version": 9_000_000}, {})
    assert [share for _, share, _ in parts_of(weighed("HypervisorVersionWeigher", hosts))] == [0.0, 1.0, 0.002]
    assert weighed("NumInstancesWeigher", hosts).totals.tolist() == [0.0, 0.0, 0.0]
    weighing = weighed("NumInstancesWeigher", hosts, factors={"num_instances_weight_multiplier": -2.0})
    assert weighing.totals.tolist() == [-2.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("values", "raw"),
    [
        ({"requested_cell": "cell1", "allows_cross_cell_move": True}, [1.0, -1.0]),
        ({"requested_cell": "cell1"}, [0.0, 0.0]),
        ({"allows_cross_cell_move": True}, [0.0, 0.0]),
    ],
)
def test_the_cell_of_a_move(values: dict[str, Any], raw: list[float]) -> None:
    weighing = weighed("CrossCellWeigher", fleet({}, {"cell": "cell2"}), spec(**values))
    assert [number for number, _, _ in parts_of(weighing)] == raw


IMAGES = fleet({"image_properties": {("os_distro", "debian"): 3, ("hw_boot_menu", "True"): 1}}, {})


@pytest.mark.parametrize(
    ("setting", "raw"),
    [
        ([], [4.0, 0.0]),
        (["os_distro=2"], [6.0, 0.0]),
        (["os_distro=2", "hw_boot_menu=-1"], [5.0, 0.0]),
        (["x=1"], [0, 0]),
    ],
)
def test_the_weigher_of_image_properties_prefers_similar_images(setting: list[str], raw: list[float]) -> None:
    request = spec(image={"os_distro": "debian", "hw_boot_menu": "yes", "colour": "red"})
    options = {"image_props_weight_setting": setting}
    factors = {"image_props_weight_multiplier": 1.0}
    weighing = weighed("ImagePropertiesWeigher", IMAGES, request, options=options, factors=factors)
    assert [number for number, _, _ in parts_of(weighing)] == raw


def test_images_are_not_looked_at_where_they_count_for_nothing() -> None:
    request = spec(image={"os_distro": "debian"})
    assert parts_of(weighed("ImagePropertiesWeigher", IMAGES, request)) == [(0.0, 0.0, 0.0)] * 2


METRICS = fleet({"metrics": {"cpu.percent": 50.0, "cpu.frequency": 2000.0}}, {"metrics": {"cpu.percent": 10.0}}, {})
SETTING = {"weight_setting": ["cpu.percent=-2", "cpu.frequency=1", "cpu.percent"]}


def test_a_metric_that_is_required_and_missing_ends_the_request() -> None:
    with pytest.raises(WeightMissing, match="MetricsWeigher"):
        weighed("MetricsWeigher", METRICS, options=SETTING)
    only = {"weight_setting": ["cpu.percent=-2"]}
    weighing = weighed("MetricsWeigher", METRICS, options=only, passing=[True, True, False])
    assert weighing.totals[:2].tolist() == [0.0, 1.0]  # the host that lacks it is no candidate
    assert parts_of(weighed("MetricsWeigher", METRICS)) == [(0.0, 0.0, 1.0)] * 3  # no metric is requested


def test_a_metric_that_may_be_missing_weighs_what_the_operator_says() -> None:
    options = {**SETTING, "required": False, "weight_of_unavailable": -7.0}
    assert [raw for raw, _, _ in parts_of(weighed("MetricsWeigher", METRICS, options=options))] == [
        1900.0,
        -7.0,
        -7.0,
    ]


def test_a_metric_that_counts_for_nothing_may_be_missing() -> None:
    options = {"weight_setting": ["cpu.percent=0"], "required": False}
    assert [raw for raw, _, _ in parts_of(weighed("MetricsWeigher", METRICS, options=options))] == [0.0, 0.0, 0.0]
    unset: HostState = host("silent", aggregate_metadata={"metrics_weight_multiplier": frozenset({"0"})})
    options = {"weight_setting": ["cpu.percent=1"], "required": False, "weight_multiplier": 3.0}
    parts = parts_of(weighed("MetricsWeigher", table(*METRICS.states, unset), options=options))
    assert [(raw, factor) for raw, _, factor in parts] == [(50.0, 3.0), (10.0, 3.0), (-10000.0, 3.0), (0.0, 0.0)]


def test_metrics_are_kept_as_whole_numbers_of_known_names() -> None:
    reported = {"cpu.percent": 0.5, "cpu.frequency": 2400.7, "colour": 1, "cpu.user.time": "9", "cpu.idle.time": None}
    assert kept(reported) == {"cpu.percent": 50.0, "cpu.frequency": 2400.0}


def test_a_member_that_moves_counts_where_it_still_is() -> None:
    group = GroupSpec("group", "soft-affinity", member_hosts={"a": "host-1"})
    request = spec(group=group, instance_uuid="own", instance_hosts={"own": "host-0"})
    raw = [number for number, _, _ in parts_of(weighed("ServerGroupSoftAffinityWeigher", fleet({}, {}, {}), request))]
    assert raw == [1.0, 1.0, 0.0]
