"""Candidates of what is stored: SQL turns away only what the search would turn away, by few statements."""

from __future__ import annotations

import random

import pytest
from django.db import connection

from conductor.core.errors import Invalid
from conductor.core.placement import candidates as pure
from conductor.core.placement.amounts import Amount
from conductor.core.placement.candidates import BREADTH_FIRST, ProviderNode, SearchOptions
from conductor.core.placement.query import CandidateQuery, RequestGroup
from conductor.placement import candidates, inventories, providers
from tests.counting import Captured
from tests.integration.placement.stock import make, uuid_of

pytestmark = pytest.mark.usefixtures("databases")

KINDS = ("VCPU", "MEMORY_MB", "DISK_GB")
TRAITS = ("CUSTOM_A", "CUSTOM_B", "MISC_SHARES_VIA_AGGREGATE")
PLACES = ("east", "west")


def all_nodes() -> list[ProviderNode]:
    """Return the stored providers, without the search's own code."""
    return [
        ProviderNode(
            state.uuid,
            state.name,
            state.parent_uuid,
            state.root_uuid,
            state.generation,
            state.traits,
            state.aggregates,
            state.amounts,
        )
        for state in sorted(providers.changed_since(0), key=lambda state: int(state.name))
    ]


def some_query(dice: random.Random) -> CandidateQuery:
    groups = {}
    for suffix in dice.sample(["", "1", "_X"], dice.randint(1, 2)):
        groups[suffix] = RequestGroup(
            {kind: dice.randint(1, 2) for kind in dice.sample(KINDS, dice.randint(1, 2))},
            tuple(frozenset({dice.choice(TRAITS[:2])}) for _ in range(dice.choice([0, 0, 1]))),
            frozenset(dice.sample(TRAITS[:2], dice.choice([0, 0, 0, 1]))),
            tuple(frozenset({uuid_of(dice.choice(PLACES))}) for _ in range(dice.choice([0, 0, 0, 1]))),
            frozenset({uuid_of("east")} if dice.random() < 0.1 else ()),
            uuid_of(str(dice.randint(0, 12))) if dice.random() < 0.1 else "",
        )
    required = frozenset({"CUSTOM_A"}) if dice.random() < 0.1 else frozenset()
    forbidden = frozenset({"CUSTOM_B"}) if dice.random() < 0.1 else frozenset()
    return CandidateQuery(groups, "none", required, forbidden)


@pytest.mark.parametrize("seed", range(6))
def test_candidates_equal_those_of_an_exhaustive_search(seed: int) -> None:
    dice = random.Random(seed)
    shares = seed % 2
    for number in range(12):
        parent = str(dice.randint(0, number - 1)) if number and dice.random() < 0.6 else ""
        stock = {
            kind: Amount(dice.randint(1, 4), max_unit=dice.randint(1, 4), allocation_ratio=dice.choice([1.0, 1.5]))
            for kind in dice.sample(KINDS, dice.randint(0, 2))
        }
        has = dice.sample(TRAITS[: 2 + shares], dice.randint(0, 2))
        make(str(number), parent, " ".join(has), " ".join(dice.sample(PLACES, dice.randint(0, 1))), **stock)
    hits = 0
    for _ in range(40):
        query = some_query(dice)
        expected = pure.find(all_nodes(), query)
        found = candidates.search(query)
        assert found.requests == expected.requests
        assert found.summaries == expected.summaries
        hits += bool(found.requests)
    assert hits > 3


def statements(query: CandidateQuery) -> int:
    with Captured(connection) as requested:
        candidates.search(query)
    return len(requested)


def test_more_providers_are_no_more_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    query = CandidateQuery({"": RequestGroup({"VCPU": 1}), "1": RequestGroup({"MEMORY_MB": 1})})
    make("0", VCPU=4, MEMORY_MB=4)
    few = statements(query)
    for number in range(1, 12):
        make(str(number), VCPU=4, MEMORY_MB=4)
    assert statements(query) == few <= 6
    monkeypatch.setattr(candidates, "MOST_NAMED", 5)
    assert statements(query) == few
    assert len(candidates.search(query).requests) == 12
    limited = CandidateQuery(query.groups, limit=3)
    assert [list(way.resources_by_provider) for way in candidates.search(limited).requests] == [
        [uuid_of(str(number))] for number in range(3)
    ]
    assert statements(limited) == few
    full = CandidateQuery({"": RequestGroup({"VCPU": 1}), "1": RequestGroup({"VCPU": 4})}, "none", limit=3)
    assert candidates.search(full).requests == ()
    assert statements(full) <= 2 * few, "once more for all, when the first gave too few"


def test_options_reach_the_search() -> None:
    for host in ("0", "1"):
        make(host)
        for part in ("a", "b"):
            make(host + part, under=host, VCPU=1)
    query = CandidateQuery({"": RequestGroup({"VCPU": 1})})
    found = candidates.search(query, SearchOptions(BREADTH_FIRST, at_most=2))
    assert [list(way.resources_by_provider) for way in found.requests] == [[uuid_of("0a")], [uuid_of("1a")]]


def test_used_capacity_is_no_candidate_and_unknown_names_are_refused() -> None:
    uuid = make("0", VCPU=4)
    query = CandidateQuery({"": RequestGroup({"VCPU": 4})})
    assert len(candidates.search(query).requests) == 1
    inventories.put(uuid, "VCPU", Amount(4, reserved=1), providers.view(uuid).generation)
    assert candidates.search(query).requests == ()
    for wrong in (
        CandidateQuery({"": RequestGroup({"CUSTOM_NONE": 1})}),
        CandidateQuery({"": RequestGroup({"VCPU": 1}, (frozenset({"CUSTOM_NONE"}),))}),
        CandidateQuery({"": RequestGroup({"VCPU": 1}, forbidden=frozenset({"CUSTOM_NONE"}))}),
        CandidateQuery({"": RequestGroup({"VCPU": 1})}, root_required=frozenset({"CUSTOM_NONE"})),
    ):
        with pytest.raises(Invalid, match="CUSTOM_NONE"):
            candidates.search(wrong)
