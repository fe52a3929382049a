"""Hardware requests of a flavor and an image, and contradictions between them."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.core.errors import Invalid
from conductor.core.hardware import derive, guest_cpus
from conductor.core.hardware.constraints import HardwareRequirements
from conductor.core.hardware.request import ANY, LARGE, SMALL, CpuTopology
from conductor.core.request_spec import FlavorSpec
from tests.unit.hardware.inside import ALIASES, asked

Keys = dict[str, str]


def test_a_flavor_without_hardware_keys_derives_nothing() -> None:
    request = asked({"hw:cpu_policy": "shared", "hw:cpu_sockets": "2"})
    assert (request.numa, request.pci_requests) == (None, ())
    assert not {"numa", "pci_requests"} & request.to_json().keys()


def test_cells_share_cpus_and_memory_evenly() -> None:
    numa = asked({"hw:numa_nodes": "2", "hw:cpu_policy": "dedicated"}).numa
    assert numa is not None
    assert [(cell.id, set(cell.cpus), set(cell.pcpus), cell.memory_mb) for cell in numa.cells] == [
        (0, set(), {0, 1}, 1024),
        (1, set(), {2, 3}, 1024),
    ]


def test_cells_are_as_they_are_listed() -> None:
    listed = {"hw:numa_cpus.0": "0,2-3", "hw:numa_mem.0": "512", "hw:numa_cpus.1": "1", "hw:numa_mem.1": "1536"}
    numa = asked({"hw:numa_nodes": "2", **listed}).numa
    assert numa is not None
    assert [(set(cell.cpus), cell.memory_mb) for cell in numa.cells] == [({0, 2, 3}, 512), ({1}, 1536)]


@pytest.mark.parametrize(
    ("extra_specs", "pinned"),
    [
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-1"}, {0, 1}),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0"}, {1, 2, 3}),
        ({"hw:cpu_policy": "mixed", "hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "3"}, {3}),
        ({"resources:PCPU": "4"}, {0, 1, 2, 3}),
        ({"resources1:VCPU": "4", "hw:numa_nodes": "1"}, set()),
    ],
)
def test_pinned_cpus_of_policies(extra_specs: Keys, pinned: set[int]) -> None:
    numa = asked(extra_specs).numa
    assert numa is not None
    assert numa.cells[0].pcpus == pinned
    assert numa.cells[0].cpus == {0, 1, 2, 3} - pinned


@pytest.mark.parametrize(
    ("size", "found"),
    [
        ("small", SMALL),
        ("large", LARGE),
        ("any", ANY),
        ("2048", 2048),
        ("2MB", 2048),
        ("1GiB", 1 << 20),
        ("16Mb", 2048),
    ],
)
def test_page_sizes(size: str, found: int) -> None:
    numa = asked({"hw:mem_page_size": size}).numa
    assert numa is not None
    assert numa.cells[0].page_size_kb == found


def test_precedence_of_flavor_and_image() -> None:
    assert asked(image={"hw_cpu_policy": "dedicated"}).numa is not None
    numa = asked({"hw:mem_page_size": "any"}, image={"hw_mem_page_size": "2048"}).numa
    assert numa is not None
    assert numa.cells[0].page_size_kb == 2048
    numa = asked(
        {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "prefer"}, image={"hw_cpu_thread_policy": "isolate"}
    ).numa
    assert numa is not None
    assert numa.cells[0].thread_policy == "prefer"
    numa = asked({"hw:cpu_policy": "dedicated", "trait:HW_CPU_HYPERTHREADING": "forbidden"}).numa
    assert numa is not None
    assert numa.cells[0].thread_policy == "isolate"


MIXED = {"hw:cpu_policy": "mixed"}
PINNED = {"hw:cpu_policy": "dedicated"}
TWO = {"hw:numa_nodes": "2"}
THREADS = {"trait:HW_CPU_HYPERTHREADING": "required"}
MEMORY = {"hw:numa_mem.0": "1", "hw:numa_mem.1": "2"}
LEGACY = {"hw:pci_numa_affinity_policy": "legacy"}


@pytest.mark.parametrize(
    ("key", "extra_specs", "image"),
    [
        ("hw:cpu_policy", {"hw:cpu_policy": "often"}, {}),
        ("hw_cpu_policy", {}, {"hw_cpu_policy": "often"}),
        ("hw_cpu_policy", {"hw:cpu_policy": "shared"}, {"hw_cpu_policy": "dedicated"}),
        ("hw_cpu_policy", MIXED, {"hw_cpu_policy": "dedicated"}),
        ("hw:cpu_policy", {**PINNED, "resources:PCPU": "4"}, {}),
        ("resources:PCPU", {"resources:PCPU": "3"}, {}),
        ("resources:PCPU", {"resources:PCPU": "4", "resources:VCPU": "4"}, {}),
        ("hw:cpu_thread_policy", {"hw:cpu_thread_policy": "require"}, {}),
        ("hw_cpu_thread_policy", {**PINNED, "hw:cpu_thread_policy": "require"}, {"hw_cpu_thread_policy": "isolate"}),
        ("hw:cpu_thread_policy", {**PINNED, "hw:cpu_thread_policy": "prefer", **THREADS}, {}),
        ("hw:emulator_threads_policy", {"hw:emulator_threads_policy": "isolate"}, {}),
        ("hw:emulator_threads_policy", {**PINNED, "hw:emulator_threads_policy": "x"}, {}),
        ("hw:cpu_dedicated_mask", {**PINNED, "hw:cpu_dedicated_mask": "0"}, {}),
        ("hw:cpu_dedicated_mask", MIXED, {}),
        ("hw:cpu_dedicated_mask", {**MIXED, "hw:cpu_dedicated_mask": "0-3"}, {}),
        ("hw:cpu_dedicated_mask", {**MIXED, "hw:cpu_dedicated_mask": "0-9"}, {}),
        ("hw:cpu_dedicated_mask", {**MIXED, "hw:cpu_dedicated_mask": "a"}, {}),
        ("hw:cpu_realtime", {"hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0"}, {}),
        ("hw:cpu_realtime_mask", {**PINNED, "hw:cpu_realtime": "yes"}, {}),
        ("hw_cpu_realtime_mask", {**PINNED, "hw:cpu_realtime": "yes"}, {"hw_cpu_realtime_mask": "7"}),
        ("hw:numa_nodes", {"hw:numa_nodes": "0"}, {}),
        ("hw:numa_nodes", {"hw:numa_nodes": "3"}, {}),
        ("hw_numa_nodes", TWO, {"hw_numa_nodes": "2"}),
        ("hw:numa_cpus", {**TWO, "hw:numa_cpus.0": "0-3"}, {}),
        ("hw:numa_cpus.1", {**TWO, **MEMORY, "hw:numa_cpus.0": "0-2", "hw:numa_cpus.1": "2-3"}, {}),
        ("hw:numa_cpus.0", {"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-4", "hw:numa_mem.0": "2048"}, {}),
        ("hw:numa_cpus.N", {"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-2", "hw:numa_mem.0": "2048"}, {}),
        ("hw:numa_mem.N", {"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-3", "hw:numa_mem.0": "1"}, {}),
        ("hw:numa_mem.0", {"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-3", "hw:numa_mem.0": "lots"}, {}),
        ("hw:mem_page_size", {"hw:mem_page_size": "huge"}, {}),
        ("hw_mem_page_size", {}, {"hw_mem_page_size": "2048"}),
        ("hw_mem_page_size", {"hw:mem_page_size": "small"}, {"hw_mem_page_size": "2048"}),
        ("hw:locked_memory", {"hw:locked_memory": "true"}, {}),
        ("hw_locked_memory", {"hw:locked_memory": "true", "hw:mem_page_size": "any"}, {"hw_locked_memory": "no"}),
        ("hw:pci_numa_affinity_policy", {"hw:pci_numa_affinity_policy": "near"}, {}),
        ("hw_pci_numa_affinity_policy", LEGACY, {"hw_pci_numa_affinity_policy": "required"}),
        ("pci_passthrough:alias", {"pci_passthrough:alias": "gpu"}, {}),
        ("pci_passthrough:alias", {"pci_passthrough:alias": "gpu:x"}, {}),
        ("pci_passthrough:alias", {"pci_passthrough:alias": "fpga:1"}, {}),
    ],
)  # fmt: skip
def test_contradictory_requests_name_their_key(key: str, extra_specs: Keys, image: Keys) -> None:
    with pytest.raises(Invalid, match=rf"^{key}") as caught:
        asked(extra_specs, image=image)
    with pytest.raises(Invalid) as again:
        derive.check(FlavorSpec("1", "small", 4, 2048, extra_specs=extra_specs), image, {"pci.alias": ALIASES})
    assert again.value.message == caught.value.message


def test_aliases_become_requests_for_devices() -> None:
    requests = asked({"pci_passthrough:alias": "gpu:2, nic:1"}).pci_requests
    assert [(one.count, one.alias, one.policy) for one in requests] == [(2, "gpu", "legacy"), (1, "nic", "required")]
    assert requests[1].specs == ({"vendor_id": "8086", "product_id": "154d", "dev_type": "type-PF"},)
    nearer = asked({"pci_passthrough:alias": "nic:1", "hw:pci_numa_affinity_policy": "socket"}).pci_requests
    assert nearer[0].policy == "socket"


GPU = {"name": "gpu", "vendor_id": "10de", "product_id": "1db4"}


@pytest.mark.parametrize(
    "aliases",
    [["{"], [{"name": "gpu"}], [{**GPU, "vendor_id": "x"}], [GPU, {**GPU, "numa_policy": "socket"}]],
    ids=["no JSON", "no ids", "odd id", "two policies"],
)
def test_aliases_that_cannot_be_are_refused(aliases: list[Any]) -> None:
    flavor = FlavorSpec("1", "small", 1, 512, extra_specs={"pci_passthrough:alias": "gpu:1"})
    with pytest.raises(Invalid, match=r"^pci.alias"):
        derive.check(flavor, {}, {"pci.alias": aliases})


@pytest.mark.parametrize(
    ("extra_specs", "image", "best"),
    [
        ({}, {}, (4, 1, 1)),
        ({"hw:cpu_sockets": "2"}, {}, (2, 2, 1)),
        ({"hw:cpu_max_sockets": "1"}, {}, (1, 4, 1)),
        ({"hw:cpu_max_sockets": "1", "hw:cpu_threads": "2"}, {}, (1, 2, 2)),
        ({"hw:cpu_cores": "4"}, {"hw_cpu_max_cores": "2"}, (4, 1, 1)),
        ({"hw:cpu_cores": "4"}, {"hw_cpu_threads": "4"}, (1, 1, 4)),
    ],
)
def test_the_guest_sees_sockets_cores_and_threads(extra_specs: Keys, image: Keys, best: tuple[int, ...]) -> None:
    requirements = HardwareRequirements(FlavorSpec("1", "small", 4, 2048, extra_specs=extra_specs), image)
    assert guest_cpus.best_topology(requirements) == CpuTopology(*best)


@pytest.mark.parametrize(
    ("key", "extra_specs", "image"),
    [
        ("hw_cpu_max_cores", {"hw:cpu_max_cores": "2"}, {"hw_cpu_max_cores": "4"}),
        ("hw_cpu_cores", {"hw:cpu_max_cores": "2"}, {"hw_cpu_cores": "4"}),
        ("hw:cpu_cores", {"hw:cpu_cores": "some"}, {}),
        ("hw:cpu_max_sockets", {"hw:cpu_max_sockets": "1", "hw:cpu_max_cores": "1", "hw:cpu_max_threads": "2"}, {}),
    ],
)
def test_sockets_cores_and_threads_that_cannot_be(key: str, extra_specs: Keys, image: Keys) -> None:
    with pytest.raises(Invalid, match=rf"^{key}"):
        guest_cpus.best_topology(
            HardwareRequirements(FlavorSpec("1", "small", 4, 2048, extra_specs=extra_specs), image)
        )
