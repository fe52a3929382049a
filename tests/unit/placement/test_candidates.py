"""Allocation candidates: the meaning of each query parameter, and the search compared with exhaustive search."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.core.errors import Invalid
from conductor.core.placement.amounts import Amount
from conductor.core.placement.candidates import (
    BREADTH_FIRST,
    Candidates,
    ProviderNode,
    SearchOptions,
    find,
    within_single_providers,
)
from conductor.core.placement.query import CandidateQuery, RequestGroup

SHARES = "MISC_SHARES_VIA_AGGREGATE"


def node(uuid: str, *, under: str = "", has: str = "", of: str = "", **amounts: int | Amount) -> ProviderNode:
    """`under` is the parent and, after a slash, the root; `has` are traits, `of` aggregates."""
    parent, _, root = under.partition("/")
    stock = {kind: amount if isinstance(amount, Amount) else Amount(amount) for kind, amount in amounts.items()}
    return ProviderNode(
        uuid, uuid, parent or None, root or parent or uuid, 0, frozenset(has.split()), frozenset(of.split()), stock
    )


def group(required: str = "", forbidden: str = "", **resources: int) -> RequestGroup:
    """`required` are alternatives joined by a bar, and what must hold together joined by a space."""
    sets = tuple(frozenset(part.split("|")) for part in required.split())
    return RequestGroup(resources, sets, frozenset(forbidden.split()))


def ways(found: Candidates) -> list[dict[str, dict[str, int]]]:
    return [{uuid: dict(amounts) for uuid, amounts in way.resources_by_provider.items()} for way in found.requests]


def asked(policy: str = "none", **groups: RequestGroup) -> CandidateQuery:
    """Groups by suffix; `spread` is the one without."""
    return CandidateQuery({"" if name == "spread" else name: of for name, of in groups.items()}, policy)


HOSTS = (node("one", VCPU=4, MEMORY_MB=512), node("two", VCPU=1, MEMORY_MB=512), node("three", VCPU=4))
NUMA = (
    node("host", has="ROOT", DISK_GB=10),
    node("cell0", under="host", has="FAST", VCPU=2, MEMORY_MB=256),
    node("cell1", under="host", VCPU=2, MEMORY_MB=256),
    node("nic0", under="cell0/host", has="NIC", VF=2),
)


def test_flat_hosts_give_all_from_one() -> None:
    found = find(HOSTS, asked(spread=group(VCPU=2, MEMORY_MB=256)))
    assert ways(found) == [{"one": {"VCPU": 2, "MEMORY_MB": 256}}]
    assert found.requests[0].mappings == {"": ("one",)}
    assert list(found.summaries) == ["one"]


def test_the_spread_group_takes_each_class_from_wherever_the_tree_has_it() -> None:
    found = find(NUMA, asked(spread=group(VCPU=1, DISK_GB=5)))
    assert ways(found) == [{"host": {"DISK_GB": 5}, cell: {"VCPU": 1}} for cell in ("cell0", "cell1")]
    assert set(found.summaries) == {"host", "cell0", "cell1", "nic0"}


def test_a_named_group_comes_whole_from_one_provider() -> None:
    assert ways(find(NUMA, asked(a=group(VCPU=1, DISK_GB=5)))) == []
    assert ways(find(NUMA, asked(a=group(VCPU=1, MEMORY_MB=8)))) == [
        {"cell0": {"VCPU": 1, "MEMORY_MB": 8}},
        {"cell1": {"VCPU": 1, "MEMORY_MB": 8}},
    ]


@pytest.mark.parametrize(
    ("wanted", "cells"),
    [
        (group("FAST", VCPU=1), ["cell0"]),
        (group("FAST|SLOW", VCPU=1), ["cell0"]),
        (group("FAST SLOW", VCPU=1), []),
        (group("", "FAST", VCPU=1), ["cell1"]),
        (group("ROOT", VCPU=1), []),
    ],
    ids=["one", "one of two", "both", "none", "the parent's do not count"],
)
@pytest.mark.parametrize("suffix", ["spread", "a"])
def test_traits(wanted: RequestGroup, cells: list[str], suffix: str) -> None:
    assert ways(find(NUMA, asked(**{suffix: wanted}))) == [{cell: {"VCPU": 1}} for cell in cells]


def test_the_spread_group_has_its_traits_together() -> None:
    query = asked(spread=group("FAST ROOT", VCPU=1, DISK_GB=1))
    assert [set(way) for way in ways(find(NUMA, query))] == [{"cell0", "host"}]


def test_several_groups_share_a_provider_as_far_as_it_reaches() -> None:
    two = asked(a=group(VCPU=1), b=group(VCPU=1))
    assert ways(find(NUMA[:2], two)) == [{"cell0": {"VCPU": 2}}]
    assert ways(find(NUMA[:2], asked("isolate", a=group(VCPU=1), b=group(VCPU=1)))) == []
    assert len(ways(find(NUMA, asked("isolate", a=group(VCPU=1), b=group(VCPU=1))))) == 2
    assert ways(find(NUMA[:2], asked(a=group(VCPU=2), b=group(VCPU=1)))) == []


def test_the_sum_of_groups_on_a_provider_may_not_exceed_max_unit() -> None:
    few = (node("host", VCPU=Amount(8, max_unit=2)),)
    assert len(ways(find(few, asked(a=group(VCPU=1), b=group(VCPU=1))))) == 1
    assert ways(find(few, asked(a=group(VCPU=2), b=group(VCPU=1)))) == []


def test_a_subtree_hangs_below_one_of_its_groups() -> None:
    groups = {"a": group(VCPU=1), "b": group(VF=1)}
    assert len(find(NUMA, CandidateQuery(groups, "none")).requests) == 2
    found = find(NUMA, CandidateQuery(groups, "none", same_subtrees=(frozenset("ab"),)))
    assert ways(found) == [{"cell0": {"VCPU": 1}, "nic0": {"VF": 1}}]
    cells = {"a": group("FAST", VCPU=1), "b": group("", "FAST", VCPU=1)}
    assert find(NUMA, CandidateQuery(cells, "none", same_subtrees=(frozenset("ab"),))).requests == ()


def test_a_group_without_resources_names_a_place() -> None:
    groups = {"a": group("ROOT"), "b": group(VCPU=1)}
    found = find(NUMA, CandidateQuery(groups, "none", same_subtrees=(frozenset("ab"),)))
    assert [way.mappings for way in found.requests] == [{"a": ("host",), "b": (cell,)} for cell in ("cell0", "cell1")]
    assert find(NUMA, asked(a=RequestGroup(), b=group(VCPU=1))).requests == ()


def test_root_required_checks_the_traits_of_roots() -> None:
    groups = {"": group(VCPU=1)}
    assert len(find(NUMA, CandidateQuery(groups, root_required=frozenset({"ROOT"}))).requests) == 2
    assert find(NUMA, CandidateQuery(groups, root_forbidden=frozenset({"ROOT"}))).requests == ()
    assert find(NUMA, CandidateQuery(groups, root_required=frozenset({"FAST"}))).requests == ()


def test_one_tree_may_be_named() -> None:
    for uuid, count in (("nic0", 2), ("one", 1), ("nobody", 0)):
        found = find((*NUMA, *HOSTS), asked(spread=RequestGroup({"VCPU": 1}, in_tree=uuid)))
        assert len(found.requests) == count


def test_an_aggregate_of_the_root_holds_for_the_spread_group_alone() -> None:
    tree = (node("host", of="east"), node("cell", under="host", of="west", VCPU=1))
    for names, count in ((("east",), 1), (("west",), 1), (("north",), 0), (("east", "west"), 0)):
        members = tuple(frozenset({name}) for name in names)
        assert len(find(tree, asked(spread=RequestGroup({"VCPU": 1}, member_of=members))).requests) == count
    for name, spread, whole in (("east", 0, 1), ("west", 0, 0), ("north", 1, 1)):
        away = RequestGroup({"VCPU": 1}, forbidden_aggregates=frozenset({name}))
        assert len(find(tree, asked(spread=away)).requests) == spread
        assert len(find(tree, asked(a=away)).requests) == whole
    assert find(tree, asked(a=RequestGroup({"VCPU": 1}, member_of=(frozenset({"east"}),)))).requests == ()


def test_a_sharing_provider_serves_the_trees_of_its_aggregates() -> None:
    hosts = (node("one", of="rack", VCPU=4), node("two", VCPU=4), node("disks", has=SHARES, of="rack", DISK_GB=100))
    both = group(VCPU=1, DISK_GB=5)
    assert [set(way) for way in ways(find(hosts, asked(spread=both)))] == [{"one", "disks"}]
    assert [set(way) for way in ways(find(hosts, asked(a=group(DISK_GB=5), b=group(VCPU=1))))] == [{"one", "disks"}]
    assert ways(find(hosts, asked(spread=RequestGroup(both.resources, in_tree="one")))) == []
    alone = find(hosts, asked(spread=group(DISK_GB=5)))
    assert ways(alone) == [{"disks": {"DISK_GB": 5}}], "the same way through two trees is one"
    assert set(find(hosts, asked(spread=both)).summaries) == {"one", "disks"}


def test_a_query_without_resources_finds_nothing() -> None:
    assert find(HOSTS, CandidateQuery()) == find(HOSTS, asked(spread=RequestGroup())) == Candidates()


def test_bounds_and_orders() -> None:
    trees = tuple(
        one for host in "abc" for one in (node(host), *(node(f"{host}{n}", under=host, VCPU=1) for n in range(3)))
    )
    query = asked(spread=group(VCPU=1))
    names = [next(iter(way)) for way in ways(find(trees, query))]
    assert names == ["a0", "a1", "a2", "b0", "b1", "b2", "c0", "c1", "c2"]
    bounded = find(trees, query, SearchOptions(BREADTH_FIRST, at_most=4))
    assert [next(iter(way)) for way in ways(bounded)] == ["a0", "b0", "c0", "a1"]
    few = CandidateQuery(query.groups, limit=2)
    assert [next(iter(way)) for way in ways(find(trees, few))] == names[:2]
    assert set(find(trees, few).summaries) == {"a", "a0", "a1", "a2"}
    drawn = [find(trees, query, SearchOptions(seed=seed)) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert sorted(next(iter(way)) for way in ways(drawn[2])) == names
    assert len(find(trees, few, SearchOptions(seed=3)).requests) == 2
    with pytest.raises(Invalid, match="sideways"):
        find(trees, few, SearchOptions("sideways"))


def test_an_impossible_query_ends_before_all_combinations_are_tried() -> None:
    """Twelve groups on twelve equal providers: to try all combinations would outlast the time limit of the tests."""
    wide = (node("host"), *(node(f"n{n}", under="host", VF=1) for n in range(12)))
    groups = {f"g{n}": group(VF=1) for n in range(12)}
    assert len(find(wide, CandidateQuery(groups, "none", limit=100)).requests) == 100
    groups["g12"] = group(VF=1)
    assert find(wide, CandidateQuery(groups, "none")).requests == ()


def test_callers_that_know_no_trees() -> None:
    found = find(NUMA, asked(a=group(VCPU=1), b=group(MEMORY_MB=8)))
    single = within_single_providers(found)
    assert len(found.requests) == 4
    assert [set(way) for way in ways(single)] == [{"cell0"}, {"cell1"}]
    assert set(single.summaries) == {"cell0", "cell1"}
    flat = find(HOSTS, asked(spread=group(VCPU=1)))
    assert within_single_providers(flat) is flat


KINDS, TRAITS, PLACES = ("VCPU", "VF"), ("T1", "T2"), ("east", "west")
amounts_of = st.dictionaries(
    st.sampled_from(KINDS), st.builds(Amount, st.integers(1, 3), max_unit=st.integers(1, 3), used=st.integers(0, 1))
)
groups_of = st.builds(
    RequestGroup,
    st.dictionaries(st.sampled_from(KINDS), st.integers(1, 2), min_size=1),
    st.lists(st.frozensets(st.sampled_from(TRAITS), min_size=1), max_size=1).map(tuple),
    st.frozensets(st.sampled_from(TRAITS), max_size=1),
    st.lists(st.frozensets(st.sampled_from(PLACES), min_size=1), max_size=1).map(tuple),
)


@st.composite
def forests(draw: st.DrawFn) -> list[ProviderNode]:
    nodes: list[ProviderNode] = []
    for tree in range(draw(st.integers(1, 3))):
        root, size = f"{tree}", draw(st.integers(1, 3))
        for number in range(size):
            nodes.append(
                ProviderNode(
                    f"{tree}{'.' * number}",
                    parent_uuid=f"{tree}{'.' * (number - 1)}" if number else None,
                    root_uuid=root,
                    traits=draw(st.frozensets(st.sampled_from((*TRAITS, SHARES)))),
                    aggregates=draw(st.frozensets(st.sampled_from(PLACES))),
                    amounts=draw(amounts_of),
                )
            )
    return nodes


def every_way(nodes: list[ProviderNode], query: CandidateQuery) -> set[object]:
    """Tries all providers for all classes of all groups from every root, and keeps what breaks no rule."""
    places = [(suffix, kind) for suffix, one in query.groups.items() for kind in one.resources]
    found = set()
    for root in {one.root_uuid for one in nodes}:
        for chosen in product(nodes, repeat=len(places)):
            picks = list(zip(places, chosen, strict=True))
            if all(_holds(nodes, root, suffix, query, picks) for suffix in query.groups) and _fits(query, picks):
                sums: Counter[tuple[str, str]] = Counter()
                for (suffix, kind), one in picks:
                    sums[one.uuid, kind] += query.groups[suffix].resources[kind]
                served = frozenset((suffix, one.uuid) for (suffix, _), one in picks)
                found.add((frozenset(sums.items()), served))
    return found


def _holds(nodes: list[ProviderNode], root: str, suffix: str, query: CandidateQuery, picks: list) -> bool:  # type: ignore[type-arg]
    asked_of = query.groups[suffix]
    mine = [(kind, one) for (name, kind), one in picks if name == suffix]
    anchor = next(one for one in nodes if one.uuid == root)
    if suffix and len({one.uuid for _, one in mine}) > 1:
        return False
    traits = frozenset[str]().union(*(one.traits for _, one in mine))
    for kind, one in mine:
        reach = {other.root_uuid for other in nodes if SHARES in one.traits and one.aggregates & other.aggregates} | {
            one.root_uuid
        }
        member = all(names & one.aggregates for names in asked_of.member_of)
        if not suffix:
            if not member:
                reach = {one.root_uuid}
            member = member or all(names & anchor.aggregates for names in asked_of.member_of)
        gives = kind in one.amounts and one.amounts[kind].gives(asked_of.resources[kind])
        if root not in reach or not member or not gives or one.traits & asked_of.forbidden:
            return False
    return all(names & traits for names in asked_of.required)


def _fits(query: CandidateQuery, picks: list) -> bool:  # type: ignore[type-arg]
    sums: Counter[tuple[str, str]] = Counter()
    stock = {}
    for (suffix, kind), one in picks:
        sums[one.uuid, kind] += query.groups[suffix].resources[kind]
        stock[one.uuid, kind] = one.amounts[kind]
    if any(amount > stock[key].free or amount > stock[key].max_unit for key, amount in sums.items()):
        return False
    whole = {(suffix, one.uuid) for (suffix, _), one in picks if suffix}
    return query.group_policy != "isolate" or len({uuid for _, uuid in whole}) == len(whole)


@settings(max_examples=150, deadline=None)
@given(
    forests(),
    st.dictionaries(st.sampled_from(["", "a", "b"]), groups_of, min_size=1, max_size=2),
    st.sampled_from(["none", "isolate"]),
)
def test_the_search_finds_what_trying_all_finds(
    nodes: list[ProviderNode], groups: dict[str, RequestGroup], policy: str
) -> None:
    query = CandidateQuery(groups, policy)
    found = find(nodes, query)
    marks = [
        (
            frozenset(
                ((uuid, kind), amount) for uuid, of in way.resources_by_provider.items() for kind, amount in of.items()
            ),
            frozenset((suffix, uuid) for suffix, uuids in way.mappings.items() for uuid in uuids),
        )
        for way in found.requests
    ]
    assert len(marks) == len(set(marks))
    assert set(marks) == every_way(nodes, query)
    used = {uuid for way in found.requests for uuid in way.resources_by_provider}
    roots = {one.root_uuid for one in nodes if one.uuid in used}
    assert set(found.summaries) == {one.uuid for one in nodes if one.root_uuid in roots}
