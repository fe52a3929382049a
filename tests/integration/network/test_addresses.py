"""Addresses: none is held twice, and what is given back can be had again."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from ipaddress import ip_address, ip_network
from threading import Barrier

import pytest
from django.db import connections
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conductor.db.transactions import write_tx
from conductor.network import addresses, port_rows, ranges, statements, subnets
from conductor.network.errors import IpAddressAlreadyAllocated, IpAddressGenerationFailure
from conductor.network.models import AddressAllocation, FreedAddress, Network, Port, Subnet
from conductor.network.statements import WINDOW
from conductor.network.subnets import SubnetCreate
from tests.counting import counted
from tests.databases import empty_all
from tests.fixtures.addresses import CONTEXT, make_network, make_port
from tests.waiting import WAIT_SECONDS

POOLS = [{"start": "10.0.0.3", "end": "10.0.0.5"}, {"start": "10.0.0.9", "end": "10.0.0.10"}]
IN_POOLS = ["10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.9", "10.0.0.10"]


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
    subnets.create_subnet(CONTEXT, SubnetCreate(network_id=str(network.uuid), cidr="10.1.0.0/30"))
    subnets.create_subnet(CONTEXT, SubnetCreate(network_id=str(network.uuid), cidr="fd00::/64", ip_version=6))
    for _ in range(2):
        make_port(network)
    assert held() == ["10.0.0.2", "fd00::2", "10.1.0.2", "fd00::3"]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves=st.lists(st.one_of(st.none(), st.integers(min_value=0, max_value=4)), max_size=25))
def test_addresses_are_allocated_and_released_in_any_order(databases: None, moves: list[int | None]) -> None:
    """None takes an address; a number releases one of those held. A model gives the expected result."""
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


def statements_of_a_port(network: Network) -> int:
    with counted("default") as seen:
        make_port(network)
    return len(seen.statements)


def test_the_lowest_free_address_is_found_in_a_full_subnet_as_in_an_empty_one(databases: None) -> None:
    """What was given back comes first; what follows is found from where the last one was."""
    network = make_network("10.0.0.0/22")
    make_port(network)
    alone = statements_of_a_port(network)
    ports = [make_port(network) for _ in range(3 * WINDOW)]
    subnet = Subnet.objects.get()
    assert int(subnet.lowest_gap, 16) > int(ip_address("10.0.0.2")) + WINDOW
    assert statements_of_a_port(network) == alone
    given_back = [ports[number].addresses.get().ip_address for number in (70, 3, 150)]
    for number in (70, 3, 150):
        ports[number].delete()
    assert FreedAddress.objects.count() == 3
    taken = [make_port(network).addresses.get().ip_address for _ in range(4)]
    assert taken[:3] == sorted(given_back, key=ip_address)
    assert taken[3] == "10.0.0.197"
    assert not FreedAddress.objects.exists()


def test_pools_that_begin_lower_are_used_from_there(databases: None) -> None:
    network = make_network("10.0.0.0/22", pools=[{"start": "10.0.1.0", "end": "10.0.3.254"}])
    for _ in range(2 * WINDOW):
        make_port(network)
    subnet = Subnet.objects.get()
    assert subnet.lowest_gap
    pools = [{"start": "10.0.0.9", "end": "10.0.0.9"}, {"start": "10.0.2.0", "end": "10.0.3.254"}]
    subnets.update_subnet(CONTEXT, str(subnet.uuid), {"allocation_pools": pools})
    Port.objects.order_by("pk").first().delete()  # type: ignore[union-attr]
    assert [make_port(network).addresses.get().ip_address for _ in range(2)] == ["10.0.0.9", "10.0.2.0"]


def test_a_requested_address_is_not_free_any_more(databases: None) -> None:
    network = make_network(pools=POOLS)
    ports = [make_port(network) for _ in range(3)]
    ports[0].delete()
    with write_tx():
        addresses.allocate_address(Subnet.objects.get(), ports[1], "10.0.0.3")
    assert make_port(network).addresses.get().ip_address == "10.0.0.9"


Move = tuple[str, int]
moves_of_all_kinds = st.lists(
    st.tuples(st.sampled_from(("take", "take", "take", "choose", "free", "free", "pools")), st.integers(0, 13)),
    max_size=40,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves=moves_of_all_kinds)
def test_the_lowest_free_address_of_the_pools_is_taken_whatever_came_before(
    databases: None, monkeypatch: pytest.MonkeyPatch, moves: list[Move]
) -> None:
    """Addresses are also chosen, in a pool or outside, and pools change; a model gives the expected result."""
    monkeypatch.setattr(statements, "WINDOW", 2)
    monkeypatch.setattr(statements, "MORE", 3)
    monkeypatch.setattr(addresses, "CHOSEN_PER_CLEANUP", 2)
    empty_all()
    network = make_network(pools=POOLS)
    subnet = Subnet.objects.get()
    every = [f"10.0.0.{number}" for number in range(2, 15)]  # the gateway has the first
    pooled, model = list(IN_POOLS), dict[str, Port]()
    for kind, number in moves:
        free = [address for address in pooled if address not in model]
        chosen = every[number % len(every)]
        if kind == "take" and free:
            port = make_port(network)
            assert port.addresses.get().ip_address == free[0]
            model[free[0]] = port
        elif kind == "take":
            with pytest.raises(IpAddressGenerationFailure):
                make_port(network)
        elif kind == "choose" and chosen not in model:
            with write_tx():
                requests = [port_rows.AddressRequest(ip_address=chosen)]
                model[chosen] = port_rows.create(network, groups=[], project_id=CONTEXT.project_id, requests=requests)
        elif kind == "free" and model:
            model.pop(sorted(model, key=ip_address)[number % len(model)]).delete()
        elif kind == "pools":
            pools = [{"start": every[0], "end": chosen}, *([] if number > 9 else [POOLS[1]])] if number % 2 else POOLS
            if number in (7, 9):
                pools = [POOLS[1]]
            subnets.update_subnet(CONTEXT, str(subnet.uuid), {"allocation_pools": pools})
            pooled = [
                address
                for address in every
                if any(ip_address(p["start"]) <= ip_address(address) <= ip_address(p["end"]) for p in pools)
            ]
        assert sorted(held()) == sorted(model)


def test_freed_addresses_outside_of_the_pools_hide_none_of_the_pools(databases: None) -> None:
    network = make_network("10.0.0.0/22", pools=[{"start": "10.0.1.0", "end": "10.0.3.254"}])
    for number in range(2 * WINDOW):
        with write_tx():
            requests = [port_rows.AddressRequest(ip_address=f"10.0.0.{number + 2}")]
            port_rows.create(network, groups=[], requests=requests)
    ports = [make_port(network) for _ in range(2 * WINDOW + 2)]
    Port.objects.exclude(pk__in=[port.pk for port in ports]).delete()
    ports[5].delete()
    assert make_port(network).addresses.get().ip_address == "10.0.1.5"


def test_chosen_addresses_leave_no_rows_without_limit(databases: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "CHOSEN_PER_CLEANUP", 8)
    network = make_network("fd00::/64", version=6)
    for number in range(64):
        with write_tx():
            requests = [port_rows.AddressRequest(ip_address=f"fd00::{number + 99:x}")]
            port_rows.create(network, groups=[], requests=requests).delete()
    assert FreedAddress.objects.count() <= 8
    assert make_port(network).addresses.get().ip_address == "fd00::2"


def test_addresses_that_guests_derive_are_not_recorded_as_freed(databases: None) -> None:
    network = make_network("fd00::/64", version=6, mode="slaac")
    make_port(network).delete()
    assert not FreedAddress.objects.exists()


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


@pytest.mark.parametrize("before", [0, 2 * WINDOW])
def test_of_many_transactions_that_are_open_none_waits_for_another(databases: None, before: int) -> None:
    """On SQLite only one is open; on PostgreSQL a transaction would wait for another with the same address.

    The first to see many addresses raises the lowest gap of the subnet.
    """
    network = make_network("10.0.0.0/24")
    for _ in range(before):
        make_port(network)
    Subnet.objects.update(lowest_gap="")
    count = 24 if connections["default"].vendor == "postgresql" else 1
    all_have_one = Barrier(count, timeout=WAIT_SECONDS)

    def take(_: int) -> None:
        try:
            with write_tx():
                port_rows.create(network, groups=[], project_id=CONTEXT.project_id)
                all_have_one.wait()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(take, range(count)))
    assert sorted(held(), key=ip_address) == [f"10.0.0.{number}" for number in range(2, 2 + before + count)]
    assert bool(Subnet.objects.get().lowest_gap) == bool(before)


def test_threads_that_take_and_give_back_never_share_an_address(
    databases: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows are short, so that the gap rises and freed addresses are forgotten all the time."""
    monkeypatch.setattr(statements, "WINDOW", 2)
    monkeypatch.setattr(statements, "MORE", 3)
    monkeypatch.setattr(addresses, "CHOSEN_PER_CLEANUP", 2)
    network = make_network("10.0.0.0/26")

    def work(seed: int) -> None:
        choice = random.Random(seed)
        mine: list[Port] = []
        try:
            for _ in range(30):
                if len(mine) > 5 or (mine and choice.random() < 0.4):
                    mine.pop(choice.randrange(len(mine))).delete()
                    continue
                requests = None
                if choice.random() < 0.3:
                    requests = [port_rows.AddressRequest(ip_address=f"10.0.0.{choice.randint(2, 62)}")]
                with suppress(IpAddressAlreadyAllocated), write_tx():
                    mine.append(port_rows.create(network, groups=[], requests=requests))
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    rest = 61 - AddressAllocation.objects.count()
    for _ in range(rest):  # each of the free ones is found
        make_port(network)
    with pytest.raises(IpAddressGenerationFailure):
        make_port(network)
    assert sorted(held(), key=ip_address) == [f"10.0.0.{number}" for number in range(2, 63)]


def test_a_race_seen_only_by_the_constraint_is_tried_again(databases: None, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_subnet_forgets_no_address(databases: None) -> None:
    network = make_network()
    make_port(network)
    assert Subnet.objects.get().addresses.count() == 1
    Port.objects.get().delete()
    assert Subnet.objects.get().addresses.count() == 0
