"""Laws of grants: no resource is granted twice, and grants survive JSON."""

from __future__ import annotations

import json
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.core.hardware import wire
from conductor.core.hardware.grants import Device, HardwareGrant, HardwareRequest, Host, grant
from conductor.core.hardware.topology import PciDevice
from tests.unit.hardware.inside import LIMITS, asked, cell, host

GPUS = tuple(PciDevice(f"0000:8{node}:00.{n}", "10de", "1db4", node) for node in (0, 1) for n in range(2))
WHOLE = PciDevice("0000:05:00.0", "8086", "154d", 0, tags={"dev_type": "type-PF"})
PARTS = tuple(
    PciDevice(f"0000:05:10.{n}", "8086", "10ca", 0, parent=WHOLE.address, tags={"dev_type": "type-VF"})
    for n in range(2)
)
HOST = Host(host(), (*GPUS, WHOLE, *PARTS))
REQUESTS = (
    {"hw:cpu_policy": "dedicated"},
    {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "isolate"},
    {"hw:cpu_policy": "dedicated", "hw:emulator_threads_policy": "isolate"},
    {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0"},
    {"hw:numa_nodes": "2", "hw:cpu_policy": "dedicated"},
    {"hw:numa_nodes": "2", "hw:mem_page_size": "large"},
    {"hw:mem_page_size": "2048", "pci_passthrough:alias": "gpu:1"},
    {"pci_passthrough:alias": "gpu:2"},
    {"pci_passthrough:alias": "nic:1"},
    {"pci_passthrough:alias": "vf:1"},
)
wanted = st.sampled_from(REQUESTS).flatmap(
    lambda requested: st.sampled_from((1, 2, 4)).map(
        lambda vcpus: asked(requested, vcpus=max(vcpus, 2), memory_mb=512 * max(vcpus, 2))
    )
)


@settings(max_examples=60, deadline=None)
@given(requests=st.lists(wanted, max_size=12), leavers=st.lists(st.integers(0, 11), max_size=6))
def test_no_two_have_the_same(requests: list[object], leavers: list[int]) -> None:
    held: dict[int, HardwareGrant] = {}
    for number, request in enumerate(requests):
        given_now = grant(HOST.without(held.values()), HardwareRequest(request.numa, request.pci_requests), LIMITS)  # type: ignore[attr-defined]
        if given_now is not None:
            held[number] = given_now
            assert_apart(held)
        if number < len(leavers):
            held.pop(leavers[number], None)


def assert_apart(held: dict[int, HardwareGrant]) -> None:
    cpus = Counter(cpu for one in held.values() if one.numa for part in one.numa.cells for cpu in part.host_cpus)
    devices = Counter(device.address for one in held.values() for device in one.devices)
    assert set(cpus.values()) <= {1}
    assert set(devices.values()) <= {1}
    assert not (devices[WHOLE.address] and any(devices[part.address] for part in PARTS))
    assert HOST.topology is not None
    for one in HOST.topology.cells:
        mine = [part for grant in held.values() if grant.numa for part in grant.numa.cells if part.id == one.id]
        pages = sum(part.memory_mb for part in mine if part.page_size_kb == 2048) // 2
        assert pages <= 512
        isolated = [part.host_cpus for part in mine if part.thread_policy == "isolate"]
        for cores in isolated:
            shared = {cpu for core in one.siblings if core & cores for cpu in core}
            assert not any(shared & part.host_cpus for part in mine if part.host_cpus != cores)


@settings(max_examples=50, deadline=None)
@given(request=wanted)
def test_grants_survive_json(request: object) -> None:
    requested = HardwareRequest(request.numa, request.pci_requests)  # type: ignore[attr-defined]
    assert wire.wanted_from_json(json.loads(json.dumps(wire.wanted_to_json(requested)))) == requested
    given_now = grant(HOST, requested, LIMITS) or HardwareGrant(devices=(Device("0000:00:00.0"),))
    assert wire.grant_from_json(json.loads(json.dumps(wire.grant_to_json(given_now)))) == given_now


def test_a_host_goes_to_json_and_back() -> None:
    assert HOST.topology is not None
    cells = [wire.cell_to_json(one) for one in HOST.topology.cells]
    devices = [wire.device_to_json(one) for one in HOST.devices]
    assert wire.host_from_json(json.loads(json.dumps(cells)), json.loads(json.dumps(devices))) == HOST
    assert wire.host_from_json([], []) == Host()


def test_no_requests_give_no_grants() -> None:
    assert wire.wanted_to_json(HardwareRequest()) == {}
    assert not wire.wanted_from_json({})
    assert grant(Host(), HardwareRequest(), LIMITS) == HardwareGrant()


def test_a_device_goes_with_its_parts_and_a_part_with_the_whole() -> None:
    left = HOST.without([HardwareGrant(devices=(Device(PARTS[0].address, "vf"),))])
    assert {one.address for one in left.devices} == {one.address for one in (*GPUS, PARTS[1])}
    left = HOST.without([HardwareGrant(devices=(Device(WHOLE.address, "nic"),))])
    assert left.devices == GPUS


def test_a_cell_that_is_gone_takes_no_claim_with_it() -> None:
    """The claim of a cell that its host reports no longer stays with its consumer, and binds nothing else."""
    first = grant(HOST, HardwareRequest(asked({"hw:cpu_policy": "dedicated"}).numa), LIMITS)
    assert first is not None
    assert Host(host(cell(5))).without([first]).topology == host(cell(5))
