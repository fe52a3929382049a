"""Bounds from pre-filters are stored with the request, so that a repeated decision has the same ones."""

from __future__ import annotations

import json
from dataclasses import replace

from conductor.core.placement.query import UNBOUND, Bounds
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.needs import needs_of
from conductor.core.scheduling.replay import replay
from conductor.core.scheduling.select import Pipeline
from tests.unit.scheduling.fleets import host, spec, table

BOUNDS = Bounds(
    root_required=frozenset({"CUSTOM_GOLD"}),
    root_forbidden=frozenset({"COMPUTE_STATUS_DISABLED"}),
    member_of=(frozenset({"rack-1", "rack-2"}), frozenset()),
    forbidden_aggregates=frozenset({"rack-3"}),
)


def kept(request: RequestSpec) -> RequestSpec:
    return RequestSpec.from_json(json.loads(json.dumps(request.to_json())))


def test_bounds_come_back_as_they_were() -> None:
    bound = replace(spec(), bounds=BOUNDS)

    assert kept(bound).bounds == BOUNDS
    assert needs_of(kept(bound)).queries == needs_of(bound).queries
    assert kept(spec()).bounds == UNBOUND


def test_requests_that_were_kept_without_bounds_have_none() -> None:
    old = spec().to_json()

    assert "bounds" not in old
    assert RequestSpec.from_json(old).bounds == UNBOUND


def test_a_replay_turns_away_whom_the_bounds_turned_away() -> None:
    bound = replace(spec(), bounds=Bounds(root_required=frozenset({"CUSTOM_GOLD"})))
    hosts = table(host("plain"), host("golden", traits=frozenset({"COMPUTE_NODE", "CUSTOM_GOLD"})))

    again = replay(hosts, kept(bound), Pipeline((), ()))

    assert again.misses.tolist() == [1, 0]
    assert again.row(0).cells[0].reason == "the host lacks a required trait"
