"""Full evaluation of a decision again, changes that would make it fit, and hypothetical fleets."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conductor.core.errors import Invalid
from conductor.core.filter import Filter
from conductor.core.host_state import HostState, HostTable
from conductor.core.request_spec import FlavorSpec, GroupSpec, RequestSpec
from conductor.core.scheduling import what_if
from conductor.core.scheduling.decision import explain
from conductor.core.scheduling.filtering import run_filters
from conductor.core.scheduling.fits_if import Fitting, fleet_remedies, mended, request_remedies
from conductor.core.scheduling.replay import FAILED, PASSED, REJECTED, place_of, replay
from conductor.core.scheduling.select import Pipeline, decide, links_of
from conductor.core.scheduling.what_if import FleetChange, InstanceToMove, NewHosts
from conductor.core.verdict import PASS, Verdict, reject
from tests.unit.scheduling.fleets import NAMES, SHIPPED, host, hosts, spec, specs, table

SLOW_MACHINES = [HealthCheck.too_slow]  # depends on the machine's load, not on the tested code
UUIDS = [f"asked-{number}" for number in range(5)]
PIPELINE = Pipeline(SHIPPED.filters, SHIPPED.weighers)


class Broken(Filter):
    name = "Broken"

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        if host.host == "odd":
            raise RuntimeError("secret of host odd")
        return PASS if host.host == "good" else reject("not good", need="good", have=host.host)


@settings(max_examples=60, suppress_health_check=SLOW_MACHINES)
@given(hosts, specs)
def test_hosts_that_no_filter_rejects_are_those_that_pass_the_pipeline(
    states: list[HostState], requested: RequestSpec
) -> None:
    fleet = HostTable.from_states(states)
    found = replay(fleet, requested, PIPELINE)
    passing = run_filters(fleet, requested, links_of(fleet, requested, PIPELINE), PIPELINE.rules).passing
    assert (found.misses == 0).tolist() == passing.tolist()
    for row in range(len(states)):
        shown = found.row(row)
        assert [cell.outcome == PASSED for cell in shown.cells] == [bool(mask[row]) for mask in found.masks]
        assert shown.misses == sum(cell.outcome == REJECTED for cell in shown.cells)
        assert all(cell.reason for cell in shown.cells if cell.outcome == REJECTED)
    assert sorted(int(row) for row in found.order()) == list(range(len(states)))
    assert [one["alone"] <= one["rejected"] for one in found.counts()].count(False) == 0


def test_a_filter_that_fails_is_named_without_its_words() -> None:
    fleet = table(host("good"), host("odd"), host("bad"))
    found = replay(fleet, spec(), replace(PIPELINE, filters=(Broken(),)))
    cells = [found.row(row).cells[-1] for row in range(3)]
    assert [cell.outcome for cell in cells] == [PASSED, FAILED, REJECTED]
    assert cells[1].reason == "the filter failed (RuntimeError): rejected"
    assert (cells[2].reason, cells[2].need, cells[2].have) == ("not good", "good", "bad")
    assert [fault.plugin for fault in found.faults] == ["Broken"]


def test_nearest_are_those_of_one_filter_then_of_two() -> None:
    fleet = table(
        host("far", memory_mb=256, is_disabled=True, availability_zone="z"),
        host("two", memory_mb=256, is_disabled=True),
        host("closed", is_disabled=True),
        host("half", memory_mb=256),
        host("most", memory_mb=500),
    )
    found = replay(fleet, spec(memory_mb=512, availability_zone="nova"), PIPELINE).nearest()
    assert [(one.host, one.misses) for one in found] == [("most", 1), ("half", 1), ("closed", 1), ("two", 2)]
    assert (found[0].shortfall, found[2].shortfall) == (0.0234, None)


def test_the_place_of_a_host_that_fits() -> None:
    fleet = table(host("big", memory_mb=32768), host("small"), host("full", memory_mb=1))
    big, small = (place_of(fleet, spec(), PIPELINE, row) for row in (0, 1))
    assert big is not None
    assert small is not None
    assert (big.rank, big.of, small.rank, small.of) == (1, 2, 2, 2)
    assert sum(part["weight"] for part in big.parts) == pytest.approx(big.total)
    assert place_of(fleet, spec(), PIPELINE, 2) is None


def texts(fleet: HostTable, request_spec: RequestSpec, count: int = 1) -> list[str]:
    return [remedy.text for remedy in request_remedies(fleet, request_spec, Fitting(PIPELINE, count))]


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ({"memory_mb": 20000}, "It fits with 16384 MB of memory instead of 20000."),
        ({"vcpus": 9}, "It fits with 8 vCPUs instead of 9."),
        ({"root_gb": 101}, "It fits with 100 GB of disk instead of 101."),
        ({"vcpus": 9, "root_gb": 101}, "It fits with 8 vCPUs instead of 9 and 100 GB of disk instead of 101."),
        ({"availability_zone": "moon"}, "It fits in any zone instead of moon."),
        ({"extra_specs": {"trait:HW_FAST": "required"}}, "It fits without the trait HW_FAST."),
        ({"extra_specs": {"capabilities:ssd": "true"}}, "It fits without the extra spec capabilities:ssd."),
        ({"image": {"hw_architecture": "s390x"}}, "It fits with an image without the property hw_architecture."),
        ({"requested_host": "elsewhere"}, "It fits on any host instead of the named ones."),
        ({"extra_specs": {"resources:MEMORY_MB": "20000"}}, "It fits with 16384 MB of memory instead of 20000."),
        (
            {"availability_zone": "moon", "memory_mb": 20000},
            "It fits in any zone instead of moon and with 16384 MB of memory instead of 20000.",
        ),
        (
            {"availability_zone": "moon", "extra_specs": {"trait:HW_FAST": "required"}},
            "It fits in any zone instead of moon and without the trait HW_FAST.",
        ),
    ],
)
def test_the_smallest_change_of_the_request(values: dict[str, Any], shown: str) -> None:
    assert texts(table(host("a"), host("b", memory_mb=4096)), spec(**values))[0] == shown


def test_a_group_may_be_softer() -> None:
    group = GroupSpec("g", "anti-affinity", {}, {"other": "a"})
    assert texts(table(host("a")), spec(group=group)) == ["It fits with a server group of policy soft-anti-affinity."]


def test_several_instances_may_be_fewer_or_smaller() -> None:
    fleet = table(host("a", memory_mb=1000), host("b", memory_mb=3000))
    assert texts(fleet, spec(memory_mb=1000), count=5) == [
        "It fits with 4 instances instead of 5.",
        "It fits with 750 MB of memory instead of 1000.",
    ]


def test_no_remedy_is_shown_where_no_change_helps() -> None:
    assert texts(table(host("a", is_up=False)), spec()) == []
    assert texts(table(), spec()) == []


def test_the_smallest_change_of_the_fleet() -> None:
    fleet = table(
        host("closed", is_disabled=True),
        host("silent", is_up=False),
        host("full", memory_mb_used=16000, vcpus_used=8),
        host("tiny", memory_mb=100),
        host("elsewhere", availability_zone="z"),
    )
    found = fleet_remedies(replay(fleet, spec(availability_zone="nova"), PIPELINE), Fitting(PIPELINE))
    assert [remedy.text for remedy in found] == [
        "It fits if the compute service is enabled on host closed.",
        "It fits if the compute service is up again on host silent.",
        "It fits if 1 vCPU, 128 MB of memory are freed on host full.",
    ]
    assert found[2].change == {"host": "full", "free": {"VCPU": 1, "MEMORY_MB": 128}}


@settings(max_examples=40, suppress_health_check=SLOW_MACHINES)
@given(hosts, specs, st.integers(1, 3))
def test_every_remedy_holds_and_no_request_remedy_names_a_host(
    states: list[HostState], requested: RequestSpec, count: int
) -> None:
    fleet = HostTable.from_states(states)
    fitting = Fitting(PIPELINE, count)
    if fitting.hosts_for(fleet, requested):
        return
    for remedy in request_remedies(fleet, requested, fitting):
        assert remedy.num_hosts > 0
        assert not any(name in remedy.text for name in (*NAMES, "node-a", "node-b"))
    asked_again = replay(fleet, requested, PIPELINE)
    for remedy in fleet_remedies(asked_again, fitting):
        if "open_cell" in remedy.change:  # all hosts here are in one
            opened = [replace(state, is_cell_closed=False) for state in states]
            tables = [HostTable.from_states(opened)]
        else:
            rows = fleet.rows_of([remedy.change["host"]])
            tables = [fleet.with_rows({row: mended(fleet.states[row], requested)[0]}) for row in rows]
        assert any(_placed(one, requested, count) for one in tables)


def _placed(fleet: HostTable, request_spec: RequestSpec, count: int) -> bool:
    uuids = [f"asked-{number}" for number in range(count)]
    return decide(fleet, request_spec, uuids, pipeline=PIPELINE, seed=0).is_successful


# -- fleets that do not exist


def test_a_launch_that_does_not_fit_says_how_many_would() -> None:
    fleet = table(host("a", memory_mb=2048), host("b", memory_mb=1024))
    before = list(fleet.states)
    trial = what_if.launch(fleet, spec(memory_mb=1000), UUIDS, pipeline=PIPELINE)
    assert (trial.placed, sorted(trial.hosts)) == (3, ["a", "a", "b"])
    assert not trial.decision.is_successful
    assert what_if.launch(fleet, spec(memory_mb=1000), UUIDS[:3], pipeline=PIPELINE).decision.is_successful
    assert what_if.launch(fleet, spec(memory_mb=4000), UUIDS[:3], pipeline=PIPELINE).placed == 0
    assert list(fleet.states) == before


def names(fleet: HostTable) -> list[str]:
    return [state.host for state in fleet.states]


def test_hosts_are_added_removed_opened_and_closed() -> None:
    fleet = table(host("a", memory_mb_used=16384, num_instances=3), host("b", is_disabled=True), host("new-1"))
    new = (NewHosts(2, like="a", values={"memory_mb": 999}), NewHosts(1))
    change = FleetChange(add=new, remove=("new-1",), enable=("b",), disable=("a",))
    found = what_if.changed(fleet, change)
    assert names(found) == ["a", "b", "new-2", "new-3", "new-4"]
    a, b, first, _, last = found.states
    assert (a.is_disabled, b.is_disabled) == (True, False)
    assert (first.memory_mb, first.memory_mb_used, first.num_instances, last.memory_mb) == (999, 0, 0, 16384)
    assert len({state.provider_uuid for state in found.states}) == 5
    assert names(fleet) == ["a", "b", "new-1"]
    assert what_if.changed(fleet, FleetChange()) is fleet


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (FleetChange(remove=("x",)), "fleet.remove"),
        (FleetChange(enable=("x",)), "fleet.enable"),
        (FleetChange(disable=("x",)), "fleet.disable"),
        (FleetChange(add=(NewHosts(1, like="x"),)), "fleet.add.like"),
        (FleetChange(add=(NewHosts(10_001),)), "fleet.add"),
    ],
)
def test_what_is_not_there_is_refused(change: FleetChange, field: str) -> None:
    with pytest.raises(Invalid) as caught:
        what_if.changed(table(host("a")), change)
    assert caught.value.details["field"] == field


def guests(*specs: RequestSpec) -> Sequence[InstanceToMove]:
    return [InstanceToMove(f"guest-{number}", f"web-{number}", one) for number, one in enumerate(specs)]


def test_guests_take_their_room_one_after_another() -> None:
    fleet = table(host("a"), host("b", memory_mb=1000), host("c", memory_mb=700))
    away = spec(memory_mb=600, ignore_hosts=("a",))
    plans, after = what_if.drain(fleet, guests(away, away, away), pipeline=PIPELINE)
    assert [plan.host for plan in plans] == ["b", "c", ""]
    assert any("not enough memory" in shown for shown in plans[2].advice)
    assert [state.memory_mb_used for state in after.states] == [0, 600, 600]
    assert [state.memory_mb_used for state in fleet.states] == [0, 0, 0]


def test_members_of_a_group_see_where_the_others_would_be_by_then() -> None:
    fleet = table(host("a"), host("b", memory_mb=20000), host("c"))
    group = GroupSpec("g", "anti-affinity", {"max_server_per_host": 1}, {"guest-0": "a", "guest-1": "a"})
    away = spec(group=group, ignore_hosts=("a",))
    plans, _ = what_if.drain(fleet, guests(away, away, away), pipeline=PIPELINE)
    assert [plan.host for plan in plans] == ["b", "c", ""]


def test_a_request_that_cannot_be_read_is_one_guest_that_stays() -> None:
    odd = replace(spec(), flavor=FlavorSpec("1", "odd", 1, 1, extra_specs={"resources:VCPU": "many"}))
    plans, _ = what_if.drain(table(host("a")), guests(odd, spec()), pipeline=PIPELINE)
    assert [plan.host for plan in plans] == ["", "a"]
    assert "resources:VCPU" in plans[0].advice[0]


def test_masks_are_of_all_hosts() -> None:
    found = replay(table(host("a", memory_mb=1), host("b")), spec(availability_zone="moon"), PIPELINE)
    assert np.array(found.masks).shape == (len(found.filters), 2)


# -- texts that all callers may read


class Talkative(Filter):
    """Rejects all hosts, with messages that name every host."""

    name = "Talkative"

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        return reject("full: see host-0, (host-1) or host-2; node-a/node-b: host-3. Ask elsewhere.")


@settings(max_examples=60, suppress_health_check=SLOW_MACHINES)
@given(hosts, specs, st.booleans())
def test_public_fields_name_no_host(states: list[HostState], requested: RequestSpec, is_talkative: bool) -> None:
    fleet = HostTable.from_states([replace(state, provider_uuid=f"p-{row}") for row, state in enumerate(states)])
    pipeline = replace(PIPELINE, filters=(Talkative(),)) if is_talkative else PIPELINE
    decision = explain(decide(fleet, requested, ["asked"], pipeline=pipeline, seed=0))
    there = {name for state in states for name in (state.host, state.node)}
    shown = " ".join(re.split(r"[^\w-]+", json.dumps(decision.summary()))).split()
    assert not there & set(shown)
