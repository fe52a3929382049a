"""Verdicts of each built-in filter; its mask and its single answer never differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from conductor.core.filter import Filter
from conductor.core.host_state import HostState
from conductor.core.request_spec import GroupSpec, RequestSpec
from conductor.core.scheduling.builtin_filters import MoveRange, Placement, RequestedHosts, RequestedZone
from conductor.core.verdict import PASS, Verdict, reject
from tests.unit.scheduling.fleets import BROUGHT, FILTERS, host, hosts, spec, specs, table

ALL: dict[str, Filter] = {
    **BROUGHT,
    **{type(one).__name__: one for one in (Placement(), MoveRange(), RequestedHosts(), RequestedZone())},
}


def ask(name: str, state: HostState, request: RequestSpec) -> Verdict:
    """Return the filter's verdict, after a check that its mask agrees."""
    verdict = ALL[name].host_passes(state, request)
    assert ALL[name].mask(table(state), request).tolist() == [verdict.passed]
    return verdict


def test_the_filters_that_are_on_by_default_are_these_in_this_order() -> None:
    assert [name for name, one in FILTERS.items() if one.is_on_by_default] == [
        "ComputeFilter",
        "AvailabilityZoneFilter",
        "ComputeCapabilitiesFilter",
        "ImagePropertiesFilter",
        "SameHostFilter",
        "DifferentHostFilter",
        "ServerGroupAntiAffinityFilter",
        "ServerGroupAffinityFilter",
    ]


@settings(max_examples=100, deadline=None)
@given(states=hosts, request=specs)
def test_mask_and_single_answer_agree_on_every_row(states: list[HostState], request: RequestSpec) -> None:
    """Of all filters in turn: to draw hosts and requests takes much longer than to ask a filter about them."""
    for name, one in ALL.items():
        mask = one.mask(table(*states), request)
        verdicts = [one.host_passes(state, request) for state in states]
        assert mask.dtype == np.bool_, name
        assert mask.tolist() == [verdict.passed for verdict in verdicts], name
        assert all(verdict.reason for verdict in verdicts if not verdict.passed), name


def test_compute_status() -> None:
    assert ask("ComputeFilter", host(), spec()) == PASS
    assert ask("ComputeFilter", host(is_up=False), spec()) == reject("the host is down", need="up", have="down")
    closed = host(is_disabled=True, disabled_reason="new disks", is_up=False)
    assert ask("ComputeFilter", closed, spec()) == reject(
        "the host is closed to new instances", need="enabled", have="new disks"
    )


def test_availability_zone() -> None:
    there = host(availability_zone="az-1")
    assert ask("AvailabilityZoneFilter", there, spec()) == PASS
    assert ask("AvailabilityZoneFilter", there, spec(availability_zone="az-1")) == PASS
    assert ask("AvailabilityZoneFilter", there, spec(availability_zone="az-2")) == reject(
        "the request names another zone", need="az-2", have="az-1"
    )


CPU = {"cpu_info": {"model": "Skylake", "topology": {"cores": 4}, "features": ["avx", "aes"]}, "ssd": "true"}


@pytest.mark.parametrize(
    ("extra_specs", "passes"),
    [
        ({}, True),
        ({"capabilities:cpu_info:model": "Skylake"}, True),
        ({"capabilities:cpu_info:model": "Zen"}, False),
        ({"capabilities:cpu_info:topology:cores": ">= 4"}, True),
        ({"capabilities:cpu_info:topology:cores": "= 5"}, False),
        ({"capabilities:cpu_info:features": "<all-in> avx aes"}, True),
        ({"capabilities:cpu_info:nothing": "x"}, False),
        ({"capabilities:cpu_info:model:deeper": "x"}, False),
        ({"capabilities:hypervisor_type": "QEMU"}, True),
        ({"capabilities:free_ram_mb": ">= 16384"}, True),
        ({"capabilities:free_ram_mb": ">= 16385"}, False),
        ({"ssd": "true"}, True),
        ({"ssd": "false"}, False),
        ({"colour": "red"}, True),  # the host has nothing of that name
        ({"quota:cpu_shares": "2048"}, True),  # another scope is not our business
        ({"ssd": "true", "capabilities:vcpus_total": "> 8"}, False),
    ],
)
def test_compute_capabilities(extra_specs: dict[str, str], passes: bool) -> None:
    verdict = ask("ComputeCapabilitiesFilter", host(capabilities=CPU), spec(extra_specs=extra_specs))
    assert verdict.passed is passes


def test_a_hypervisor_without_a_name_has_an_empty_name() -> None:
    nameless = host(hypervisor_type="")
    for wanted, passes in (("s< kvm", True), ("s== kvm", False)):
        request = spec(extra_specs={"capabilities:hypervisor_type": wanted})
        assert ask("ComputeCapabilitiesFilter", nameless, request).passed is passes


def test_a_capability_may_be_json_text() -> None:
    state = host(capabilities={"cpu_info": '{"topology": {"cores": 4}}', "bad": "{"})
    wanted = {"capabilities:cpu_info:topology:cores": "== 4"}
    assert ask("ComputeCapabilitiesFilter", state, spec(extra_specs=wanted)) == PASS
    verdict = ask("ComputeCapabilitiesFilter", state, spec(extra_specs={"capabilities:bad:cores": "4"}))
    assert verdict == reject("the flavor requires bad:cores 4", need="4", have="not there")


@pytest.mark.parametrize(
    ("image", "passes"),
    [
        ({}, True),
        ({"hw_architecture": "x86_64"}, True),
        ({"hw_architecture": "AMD64", "hw_vm_mode": "hv"}, True),
        ({"hw_architecture": "i386", "img_hv_type": "qemu"}, True),
        ({"hw_architecture": "i686", "img_hv_type": "kvm"}, False),  # each is offered, but not together
        ({"img_hv_type": "fake"}, False),
        ({"hw_vm_mode": "xen"}, False),
        ({"img_hv_type": "qemu", "img_hv_requested_version": ">=4.2, <9"}, True),
        ({"img_hv_type": "qemu", "img_hv_requested_version": "==8.2"}, True),
        ({"img_hv_type": "qemu", "img_hv_requested_version": "<8.2"}, False),
        ({"img_hv_type": "qemu", "img_hv_requested_version": "newest"}, False),
        ({"img_hv_requested_version": "<1"}, True),  # alone it asks for nothing
    ],
)
def test_image_properties(image: dict[str, str], passes: bool) -> None:
    assert ask("ImagePropertiesFilter", host(), spec(image=image)).passed is passes


def test_image_properties_say_what_the_host_runs() -> None:
    simulated = host(supported_instances=(("x86_64", "fake", "hvm"),))
    assert ask("ImagePropertiesFilter", simulated, spec(image={"img_hv_type": "qemu"})) == reject(
        "image needs hypervisor qemu, host runs fake", need="qemu", have="fake"
    )
    unset = ask("ImagePropertiesFilter", host(supported_instances=()), spec(image={"hw_architecture": "x86_64"}))
    assert unset.reason == "image needs architecture x86_64, host runs nothing that it names"
    unversioned = host(hypervisor_version=0)
    image = {"img_hv_type": "qemu", "img_hv_requested_version": ">=99"}
    assert ask("ImagePropertiesFilter", unversioned, spec(image=image)) == PASS


LIVES = {"a": "host-0", "b": "host-1", "c": "host-1"}


@pytest.mark.parametrize(
    ("hint", "named", "passing"),
    [
        ("same_host", [], {"host-0", "host-1", "host-2"}),
        ("same_host", ["a"], {"host-0"}),
        ("same_host", ["a", "c"], {"host-0", "host-1"}),
        ("same_host", ["nobody"], set()),
        ("different_host", [], {"host-0", "host-1", "host-2"}),
        ("different_host", ["a"], {"host-1", "host-2"}),
        ("different_host", ["a", "b"], {"host-2"}),
        ("different_host", ["nobody"], {"host-0", "host-1", "host-2"}),
    ],
)
def test_hints(hint: str, named: list[str], passing: set[str]) -> None:
    request = spec(scheduler_hints={hint: named}, instance_hosts=LIVES)
    name = {"same_host": "SameHostFilter", "different_host": "DifferentHostFilter"}[hint]
    assert {f"host-{i}" for i in range(3) if ask(name, host(f"host-{i}"), request)} == passing


def group(policy: str, **values: Any) -> GroupSpec:
    members = {"a": "host-0", "b": "host-1", "c": "host-1", "d": ""}
    return GroupSpec("group", policy, **{"member_hosts": members, **values})


@pytest.mark.parametrize(
    ("policy", "values", "passing"),
    [
        ("anti-affinity", {}, {"host-2"}),
        ("anti-affinity", {"rules": {"max_server_per_host": 2}}, {"host-0", "host-2"}),
        ("anti-affinity", {"member_hosts": {"d": ""}}, {"host-0", "host-1", "host-2"}),
        ("affinity", {}, {"host-0", "host-1"}),
        ("affinity", {"member_hosts": {"d": ""}}, {"host-0", "host-1", "host-2"}),
        ("affinity", {"member_hosts": {"a": "gone"}}, set()),
        ("soft-affinity", {}, {"host-0", "host-1", "host-2"}),
        ("soft-anti-affinity", {}, {"host-0", "host-1", "host-2"}),
    ],
)
def test_server_groups(policy: str, values: dict[str, Any], passing: set[str]) -> None:
    request = spec(group=group(policy, **values))
    names = ("ServerGroupAffinityFilter", "ServerGroupAntiAffinityFilter")
    passed = {f"host-{i}" for i in range(3) if all(ask(name, host(f"host-{i}"), request) for name in names)}
    assert passed == passing


@pytest.mark.parametrize(
    ("state", "values", "verdict"),
    [
        ({}, {}, PASS),
        ({"memory_mb": 511}, {}, reject("not enough memory", need="512 MB", have="511 MB free")),
        (
            {"vcpus": 2, "vcpus_used": 1, "disk_gb": 3},
            {"vcpus": 2, "root_gb": 4},
            reject("not enough vCPUs and disk", need="2 vCPU, 4 GB", have="1 vCPU free, 3 GB free"),
        ),
        ({"vcpus": 2, "vcpus_used": 7, "cpu_ratio": 4.0}, {}, PASS),
        (
            {"vcpus": 2, "vcpus_used": 8, "cpu_ratio": 4.0},
            {},
            reject("not enough vCPUs", need="1 vCPU", have="0 vCPU free"),
        ),
        (
            {"units": (("VCPU", 2, 8, 2),)},
            {"vcpus": 3},
            reject("cannot give that amount of vCPUs at once", need="3 vCPU", have="2 to 8 in steps of 2"),
        ),
        (
            {},
            {"extra_specs": {"trait:HW_FAST": "required"}},
            reject("the host lacks a required trait", need="HW_FAST", have="not there"),
        ),
        (
            {},
            {"extra_specs": {"trait:COMPUTE_NODE": "forbidden"}},
            reject("the host has a forbidden trait", need="without COMPUTE_NODE", have="there"),
        ),
        ({"vcpus": 0}, {"extra_specs": {"resources:VCPU": "0"}}, PASS),
        (
            {},
            {"extra_specs": {"resources:CUSTOM_GPU": "1"}},
            reject("not enough CUSTOM_GPU", need="1 CUSTOM_GPU", have="0 CUSTOM_GPU free"),
        ),
    ],
)
def test_placement_checks_capacity(state: dict[str, Any], values: dict[str, Any], verdict: Verdict) -> None:
    assert ask("Placement", host(**state), spec(**values)) == verdict
