"""Addresses: none is held twice, and what is given back can be had again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address, ip_network
from threading import Barrier
from typing import Any

import pytest
from django.db import connections
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conductor.core.context import RequestContext
from conductor.network import operations, port_rows, ranges, subnets
from conductor.network.errors import IpAddressGenerationFailure
from conductor.network.models import AddressAllocation, Network, Port, Subnet
from conductor.network.subnets import SubnetWish
from conductor.transactions import write_tx
from tests.databases import empty_all

POOLS = [{"start": "10.0.0.3", "end": "10.0.0.5"}, {"start": "10.0.0.9", "end": "10.0.0.10"}]
IN_POOLS = ["10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.9", "10.0.0.10"]
CONTEXT = RequestContext(user_id="a" * 32, project_id="b" * 32, request_id="req-x", roles=frozenset({"member"}))


def make_network(cidr: str = "10.0.0.0/28", pools: Any = None) -> Network:
    network = operations.create_network(CONTEXT, {"name": "inner"})
    subnets.create_subnet(CONTEXT, SubnetWish(network_id=str(network.uuid), cidr=cidr, pools=pools))
    return network


def make_port(network: Network) -> Port:
    with write_tx():
        return port_rows.create(network, groups=[], project_id=CONTEXT.project_id)


def held() -> list[str]:
    return list(AddressAllocation.objects.order_by("pk").values_list("ip_address", flat=True))


def test_an_exhausted_network_leaves_no_port(databases: None) -> None:
    network = make_network(pools=POOLS)
    for _ in IN_POOLS:
        make_port(network)
    with pytest.raises(IpAddressGenerationFailure):
        make_port(network)
    assert sorted(held(), key=ip_address) == IN_POOLS
    assert Port.objects.count() == len(IN_POOLS)


def test_a_second_subnet_takes_over(databases: None) -> None:
    network = make_network("10.0.0.0/30")
    subnets.create_subnet(CONTEXT, SubnetWish(network_id=str(network.uuid), cidr="10.1.0.0/30"))
    subnets.create_subnet(CONTEXT, SubnetWish(network_id=str(network.uuid), cidr="fd00::/64", ip_version=6))
    for _ in range(2):
        make_port(network)
    assert held() == ["10.0.0.2", "fd00::2", "10.1.0.2", "fd00::3"]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves=st.lists(st.one_of(st.none(), st.integers(min_value=0, max_value=4)), max_size=25))
def test_any_order_of_taking_and_giving_back(databases: None, moves: list[int | None]) -> None:
    """None takes an address; a number gives back that one of those held. A model says what must come out."""
    empty_all()
    network = make_network(pools=POOLS)
    model: dict[str, Port] = {}
    for move in moves:
        if move is not None:
            if move < len(model):
                model.pop(sorted(model, key=ip_address)[move]).delete()
        elif free := [address for address in IN_POOLS if address not in model]:
            port = make_port(network)
            taken = port.addresses.get().ip_address
            assert taken == free[0]
            model[taken] = port
        else:
            with pytest.raises(IpAddressGenerationFailure):
                make_port(network)
        assert sorted(held()) == sorted(model)


def test_threads_never_share_an_address(databases: None) -> None:
    network = make_network("10.0.0.0/26")

    def take(_: int) -> str | None:
        try:
            return str(make_port(network).addresses.get().ip_address)
        except IpAddressGenerationFailure:
            return None
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(take, range(70)))
    given = [address for address in taken if address]
    assert len(given) == len(set(given)) == 61  # 64, less both ends and the gateway
    assert taken.count(None) == 9
    assert sorted(held()) == sorted(given)


def test_of_many_transactions_that_are_open_none_waits_for_another(databases: None) -> None:
    """On SQLite only one is open; on PostgreSQL who took what another had taken would wait for its end."""
    network = make_network("10.0.0.0/26")
    count = 24 if connections["default"].vendor == "postgresql" else 1
    all_have_one = Barrier(count, timeout=30)

    def take(_: int) -> None:
        try:
            with write_tx():
                port_rows.create(network, groups=[], project_id=CONTEXT.project_id)
                all_have_one.wait()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(take, range(count)))
    assert sorted(held(), key=ip_address) == [f"10.0.0.{number}" for number in range(2, 2 + count)]


def test_a_race_seen_only_by_the_constraint_is_tried_again(databases: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from conductor.network import addresses

    network = make_network()
    first = make_port(network)
    answers = iter(["10.0.0.2", "10.0.0.2", "10.0.0.3"])
    monkeypatch.setattr(addresses, "lowest_free", lambda subnet, held: iter([next(answers)]))
    second = make_port(network)
    assert [port.addresses.get().ip_address for port in (first, second)] == ["10.0.0.2", "10.0.0.3"]


prefixes = st.integers(min_value=20, max_value=30)


@settings(max_examples=60, deadline=None)
@given(lengths=st.lists(prefixes, max_size=20), dropped=st.sets(st.integers(0, 19), max_size=10))
def test_cut_ranges_never_overlap(lengths: list[int], dropped: set[int]) -> None:
    taken: list[str] = []
    for number, length in enumerate(lengths):
        found = ranges.cut(["10.64.0.0/18"], length, taken)
        if found is None:
            free = set(ip_network("10.64.0.0/18").subnets(new_prefix=length))
            assert all(any(one.overlaps(ip_network(other)) for other in taken) for one in free)
            continue
        assert found.prefixlen == length
        assert ranges.first_overlap(found, taken) is None
        assert found.subnet_of(ip_network("10.64.0.0/18"))  # type: ignore[arg-type]
        if number not in dropped:
            taken.append(str(found))


@given(length=st.integers(24, 31), offset=st.integers(0, 255))
def test_default_pools_are_all_hosts_but_the_gateway(length: int, offset: int) -> None:
    network = ip_network(f"10.0.0.0/{length}")
    gateway = str(network.network_address + offset % network.num_addresses)
    pools = ranges.default_pools(network, gateway)
    pooled = [
        str(ip_address(number))
        for pool in pools
        for number in range(int(ip_address(pool["start"])), int(ip_address(pool["end"])) + 1)
    ]
    assert pooled == [str(host) for host in network.hosts() if str(host) != gateway]


def test_a_subnet_forgets_nobody(databases: None) -> None:
    network = make_network()
    make_port(network)
    assert Subnet.objects.get().addresses.count() == 1
    Port.objects.get().delete()
    assert Subnet.objects.get().addresses.count() == 0
