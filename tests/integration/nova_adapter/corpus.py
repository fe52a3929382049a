"""Our filters and weighers against those of Nova, asked through the adapter about the same hosts and requests.

Requests of the cases that were worked out by hand are asked about hosts of theirs and of others, drawn at random.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from conductor.core.errors import NovellaError
from conductor.core.host_state import HostState, HostTable
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.cases import read
from conductor.core.scheduling.cases.requests import spec_of
from conductor.core.scheduling.cases.settings import Settings
from conductor.core.scheduling.filtering import verdict_of
from conductor.plugins import PluginOptions, load
from scheduler_plugins.nova_adapter.asking import NovaViews
from scheduler_plugins.nova_adapter.filters import filter_of
from scheduler_plugins.nova_adapter.guests import Guests, start
from scheduler_plugins.nova_adapter.weighers import weigher_of

CASES = Path(__file__).parents[2] / "unit" / "scheduling" / "cases"
FLEETS, OWN, OTHERS = 30, 5, 3


@dataclass(frozen=True)
class CaseRequest:
    """A request of a case, with the hosts of that case."""

    settings: Settings
    spec: RequestSpec
    states: tuple[HostState, ...]


def compared(seed: int) -> dict[str, Any]:
    start()
    reported = Comparison()
    draw = random.Random(seed)
    states, requests = corpus()
    for number, requested in enumerate(draw.sample(requests, FLEETS)):
        chosen = draw.sample(requested.states, min(OWN, len(requested.states))) + draw.sample(states, OTHERS)
        fleet = [replace(one, node=f"{one.node}-{index}") for index, one in enumerate(chosen)]
        with configured(requested.settings.config):
            reported.ask(number, HostTable.from_states(fleet), requested)
    fields = {
        "asked": reported.asked,
        "passed": reported.passed,
        "refused": reported.refused,
        "different": reported.different,
    }
    return {"seed": seed, **fields}


def corpus() -> tuple[list[HostState], list[CaseRequest]]:
    """Return all hosts, and the requests of the cases that name more than a size."""
    states: list[HostState] = []
    requests: list[CaseRequest] = []
    for case in itertools.chain.from_iterable(read(path.read_text()) for path in sorted(CASES.glob("*.json"))):
        states += case.fleet.states
        for request in case.requests:
            try:
                spec = spec_of(request, case.fleet, case.settings.config)
            except NovellaError:
                continue
            if (
                spec.scheduler_hints
                or spec.numa
                or spec.pci_requests
                or spec.image.properties
                or spec.flavor.extra_specs
            ):
                requests.append(CaseRequest(case.settings, spec, case.fleet.states))
    return states, requests


class configured:  # noqa: N801 a context manager
    """The options of a case, in Nova's own place for them."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        from nova.conf import CONF

        self._conf, self._config = CONF, config

    def _each(self) -> Iterator[tuple[str, dict[str, str], Any]]:
        for name, value in self._config.items():
            group, _, last = name.rpartition(".")
            yield last, {"group": group} if group else {}, value

    def __enter__(self) -> None:
        for name, place, value in self._each():
            self._conf.set_override(name, value, **place)

    def __exit__(self, *error: object) -> None:
        for name, place, _ in self._each():
            self._conf.clear_override(name, **place)


class Comparison:
    def __init__(self) -> None:
        from nova.scheduler import filters, weights

        self._filters = {one.__name__: f"{one.__module__}.{one.__name__}" for one in filters.all_filters()}
        self._weighers = {one.__name__: f"{one.__module__}.{one.__name__}" for one in weights.all_weighers()}
        self._ours = load(["scheduler_plugins.plugin"], PluginOptions(), finds_installed=False)
        self.asked: Counter[str] = Counter()
        self.passed: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()  # requests that cannot be put in Nova's words, by the kind of its error
        self.different: list[str] = []

    def ask(self, number: int, hosts: HostTable, requested: CaseRequest) -> None:
        try:
            NovaViews().request(requested.spec)
        except Exception as error:
            self.refused[f"{type(error).__module__}.{type(error).__name__}"] += 1
            return
        for one in self._ours.loaded_filters:
            if one.name in self._filters and (one.runs_on_rebuild or not requested.spec.is_rebuild):
                theirs = filter_of(one.name, self._filters[one.name], Guests())()
                self._compare(number, hosts, requested.spec, (type(one)(requested.settings.values), theirs))
        for weigher in self._ours.loaded_weighers:
            theirs_too = weigher_of(weigher.name, self._weighers[weigher.name], Guests(), None)()
            self._weigh(number, hosts, requested.spec, (type(weigher)(requested.settings.values), theirs_too))

    def _compare(self, number: int, hosts: HostTable, spec: RequestSpec, pair: tuple[Any, Any]) -> None:
        ours, theirs = pair
        for row, state in enumerate(hosts.states):
            mine, fields = verdict_of(ours, hosts, spec, row), _answer(theirs, hosts, spec, row)
            self.asked[ours.name] += 1
            self.passed[ours.name] += bool(mine)
            if fields != ("unreadable" if mine.is_unreadable and fields == "unreadable" else str(bool(mine))):
                self.different.append(f"{number} {ours.name} {state.host}: {mine.passed} {mine.reason} | {fields}")

    def _weigh(self, number: int, hosts: HostTable, spec: RequestSpec, pair: tuple[Any, Any]) -> None:
        ours, theirs = pair
        self.asked[ours.name] += len(hosts)
        mine = np.asarray(ours.weigh(hosts, spec), np.float64)
        try:
            fields = theirs.weigh(hosts, spec)
        except Exception as error:
            if np.isfinite(mine).all() or type(error).__name__ != "ComputeHostMetricNotFound":
                self.different.append(f"{number} {ours.name}: {mine} | {type(error).__name__}")
            return
        low = -np.inf if ours.minval is None else ours.minval
        self.passed[ours.name] += len(set(fields.tolist())) > 1
        if not np.allclose(np.maximum(mine, low), fields):
            self.different.append(f"{number} {ours.name}: {mine} | {fields}")


def _answer(theirs: Any, hosts: HostTable, spec: RequestSpec, row: int) -> str:
    try:
        return str(bool(verdict_of(theirs, hosts, spec, row)))
    except Exception:
        return "unreadable"
