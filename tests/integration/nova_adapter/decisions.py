"""Decisions with third-party classes, by the scheduler, printed as JSON."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

from eventlet import patcher

from conductor.conformance.fleet import host, request
from conductor.core.host_state import HostTable
from conductor.core.plugin_choice import FILTER
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.decision import explain
from conductor.core.scheduling.filtering import Rules
from conductor.core.scheduling.select import Pipeline, decide
from conductor.core.scheduling.weighing import Multipliers
from conductor.plugins import PluginOptions, Registry, load

PLACE = "tests.integration.nova_adapter.third_party"
HOSTS = [
    host(f"host-{index}", num_instances=index, aggregate_metadata={"rack": frozenset({f"r{index % 2}"})})
    for index in range(6)
]
RACK = request(scheduler_hints={"rack": ["r1"]})


def adapted(config_file: str, *filters: str, weighers: dict[str, Any] | None = None) -> Registry:
    paths = tuple(f"{PLACE}.{name}" for name in filters)
    heavy = {f"{PLACE}.{name}": factor for name, factor in (weighers or {}).items()}
    return load([], PluginOptions((), (), {}, paths, heavy, (config_file,)), finds_installed=False)


def decided(found: Registry, spec: RequestSpec = RACK, **changes: Any) -> dict[str, Any]:
    """Return the decision about one instance, as it is kept."""
    pipeline = Pipeline(found.filters, found.weighers, keeps_order=True, **changes)
    table = HostTable.from_states(HOSTS)
    outcome = decide(table, spec, ["one"], pipeline=pipeline, seed=1)
    found = explain(outcome)
    chosen = [picked[0].host for picked in found.selections]
    return {"chosen": chosen, **found.summary(), **found.details(), "uses": [use.to_json() for use in outcome.uses]}


def answers(config_file: str) -> dict[str, Any]:
    """Return the answers by the name of the question."""
    both = adapted(config_file, "RackFilter", "OccupancyFilter")
    weighing = adapted(config_file, "RackFilter", weighers={"FewestWeigher": None})
    failing = adapted(config_file, "FailingFilter")
    broken = adapted(config_file, "NotOne", "Nowhere", "RackFilter", weighers={"FewestWeigher": "much"})
    return {
        "threads": [threading.Thread.__module__, patcher.is_monkey_patched("thread")],
        "names": [(one.name, one.runs_once_per_request, one.runs_on_rebuild) for one in both.filters],
        "both": decided(both),
        "weighing": decided(weighing),
        "by the operator": decided(weighing, multipliers=Multipliers({"fewest_weight_multiplier": -1.0})),
        "weigher": [
            (one.name, one.multiplier, one.multiplier_option, one.counts_against, one.compares_hosts)
            for one in weighing.weighers
        ],
        "failing": decided(failing),
        "fails open": decided(failing, rules=Rules(fail_open=frozenset({"nova.FailingFilter"}))),
        "dry run": decided(failing, rules=Rules(shadows=frozenset({(FILTER, "nova.FailingFilter")}))),
        "broken": {"warnings": broken.plugins[0].warnings, "shut out": len(broken.quarantined)},
        "broken decides": decided(broken),
        "rebuild": decided(both, replace(RACK, is_rebuild=True)),
    }
