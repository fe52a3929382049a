"""Hosts as bytes and back: nothing is lost, and only plain values result."""

from __future__ import annotations

import json
import zlib
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conductor.core.hardware.topology import HostCell, HostTopology, Pages, PciPool
from conductor.core.host_state import HostState
from conductor.core.placement.amounts import Amount
from conductor.core.scheduling.snapshots import Unreadable, changed_rows, pack, unpack
from tests.unit.scheduling.fleets import host, hosts

RICH = host(
    "rich",
    disk_available_least_gb=7,
    is_disabled=True,
    aggregate_metadata={"ssd": frozenset({"true", "yes"})},
    capabilities={"cpu_info": {"features": ["avx", "aes"], "topology": {"cores": 4}}, "nothing": None},
    units=(("VCPU", 1, 4, 1),),
    amounts={"CUSTOM_GPU": Amount(4, used=1)},
    aggregates=frozenset({"a-1"}),
    metrics={"cpu.percent": 0.5},
    image_properties={("os_distro", "debian"): 2},
    topology=HostTopology((HostCell(0, frozenset({0, 1}), siblings=(frozenset({0, 1}),), pages=(Pages(4, 10, 2),)),)),
    pci_pools=(PciPool("8086", "10ed", 3, tags={"dev_type": "type-VF"}),),
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(hosts)
def test_hosts_survive_serialization(states: list[HostState]) -> None:
    found = unpack(pack(states))
    assert list(found.states) == states
    assert found.rows == tuple(range(len(states)))


def test_every_kind_of_value_comes_back_as_it_was() -> None:
    poor = host("poor")
    [rich, other] = unpack(pack([RICH, poor])).states
    assert (rich, other) == (RICH, poor)
    for one in fields(HostState):
        assert type(getattr(rich, one.name)) is type(getattr(RICH, one.name)), one.name


def test_numbers_keep_their_kind() -> None:
    states = [host("a", metrics={"x": 1}), host("b", metrics={"x": 1.0}), host("c", cpu_ratio=1), host("d")]
    kinds = [(type(one.metrics.get("x")), type(one.cpu_ratio)) for one in unpack(pack(states)).states]
    assert kinds == [(int, float), (float, float), (type(None), int), (type(None), float)]


def test_some_rows_keep_their_places() -> None:
    states = [host(f"host-{number}", num_instances=number) for number in range(9)]
    found = unpack(pack(states, [7, 2]))
    assert found.rows == (7, 2)
    assert [state.host for state in found.states] == ["host-7", "host-2"]
    assert unpack(pack(states, [])).states == ()


def test_equal_hosts_are_equal_bytes_and_many_are_few() -> None:
    states = [host(f"host-{number}") for number in range(1000)]
    assert pack(states) == pack([replace(state) for state in states])
    assert len(pack(states)) < 20 * len(states)


def test_unreadable_values_are_refused() -> None:
    with pytest.raises(TypeError, match="object cannot be kept"):
        pack([host(capabilities={"odd": object()})])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"nonsense",
        zlib.compress(b"[]"),
        zlib.compress(json.dumps({"version": 1, "count": 1, "rows": None}).encode()),
        zlib.compress(json.dumps({"version": 2, "count": 0, "rows": None, "columns": {}}).encode()),
        zlib.compress(
            json.dumps({"version": 1, "count": 1, "rows": None, "columns": {"host": {"one": {"d": "Popen"}}}}).encode()
        ),
    ],
)
def test_unknown_formats_are_refused(content: bytes) -> None:
    with pytest.raises(Unreadable):
        unpack(content)


def test_fields_that_are_gone_are_passed_over_and_new_ones_have_their_defaults() -> None:
    body: dict[str, Any] = json.loads(zlib.decompress(pack([host("old")])))
    body["columns"]["colour"] = {"one": "red"}
    del body["columns"]["failed_builds"]
    [found] = unpack(zlib.compress(json.dumps(body).encode())).states
    assert found == host("old")


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(hosts, st.data())
def test_the_rows_that_changed_are_found(states: list[HostState], data: Any) -> None:
    rows = data.draw(st.sets(st.sampled_from(range(len(states))))) if states else set()
    now = [replace(state, failed_builds=state.failed_builds + 1) if row in rows else state
           for row, state in enumerate(states)]  # fmt: skip
    assert changed_rows(states, now, most=len(states)) == sorted(rows)
    if rows:
        assert changed_rows(states, now, most=len(rows) - 1) is None


def test_different_sets_of_hosts_have_no_changed_rows() -> None:
    assert changed_rows([host("a")], [host("a"), host("b")], most=9) is None
    assert changed_rows([host("a")], [host("b")], most=9) is None
