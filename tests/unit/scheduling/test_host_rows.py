"""A host's row is created field by field, without the constructor: it must equal one from the constructor."""

from __future__ import annotations

from dataclasses import fields

import pytest

from conductor.core.frozen import FrozenDict
from conductor.core.host_state import HostState
from conductor.core.placement.amounts import Amount
from conductor.placement.changes import ProviderState
from conductor.scheduler.host_facts import HostAggregates, ServiceFacts, Sources, row_of
from conductor.scheduler.node_facts import NodeFacts

METRICS = {"cpu.percent": 5.0}
NODE = NodeFacts("uuid", "h1", "h1", False, "QEMU", 8_002_000, (), {"cpu_info": {}}, 7, "192.0.2.1", METRICS)
VCPUS, MEMORY = Amount(64, used=3, allocation_ratio=4.0), Amount(4096, reserved=512)
SIZES = {"VCPU": VCPUS, "MEMORY_MB": MEMORY, "DISK_GB": Amount(100)}
NOWHERE = HostAggregates()


def row(amounts: dict[str, Amount], membership: HostAggregates = NOWHERE) -> HostState:
    provider = ProviderState("uuid", "h1", 1, 1, frozenset({"COMPUTE_NODE"}), amounts, 2, aggregates=frozenset({"a1"}))
    return row_of(Sources(NODE, provider, "cell1", ServiceFacts(), membership=membership))


def test_a_row_has_every_field() -> None:
    state = row(SIZES)
    values = {one.name: getattr(state, one.name) for one in fields(HostState)}
    assert state == HostState(**values)
    assert (state.vcpus, state.vcpus_used, state.cpu_ratio) == (64, 3, 4.0)
    assert (state.reserved_memory_mb, state.disk_gb) == (512, 100)
    assert (state.num_instances, state.disk_available_least_gb, state.availability_zone) == (2, 7, "nova")


def test_rows_are_immutable() -> None:
    state = row({**SIZES, "PCPU": Amount(4)})
    for mapping in (state.capabilities, state.metrics, state.amounts, state.aggregate_metadata, state.image_properties):
        assert type(mapping) is FrozenDict
    with pytest.raises(TypeError, match="plugins must not change"):
        state.amounts["PCPU"] = Amount(5)  # type: ignore[index]


def test_only_rules_that_bind_and_other_classes_are_beside_the_sizes() -> None:
    assert row(SIZES).units == ()
    assert row(SIZES).amounts is row({}).amounts, "hosts without other classes share one value"
    bound = row({**SIZES, "VCPU": Amount(64, max_unit=8), "CUSTOM_GPU": Amount(2, min_unit=2)})
    assert bound.units == (("CUSTOM_GPU", 2, 2**31 - 1, 1), ("VCPU", 1, 8, 1))
    assert bound.amounts == {"CUSTOM_GPU": Amount(2, min_unit=2)}


def test_aggregates_of_placement_count_too_and_zones_are_named_by_them() -> None:
    zoned = HostAggregates(frozenset({"a1", "a2"}), {"availability_zone": frozenset({"west", "east"})})
    assert row(SIZES, zoned).availability_zone == "east"
    assert row(SIZES, zoned).aggregates is zoned.aggregates, "placement's are among them"
    assert row(SIZES, HostAggregates(frozenset({"a2"}))).aggregates == {"a1", "a2"}
