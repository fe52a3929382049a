"""Finds the smallest changes of a request, or of the fleet, that make it fit, by trying them with the same engine."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from conductor.core.errors import Invalid
from conductor.core.host_state import Column, HostState, HostTable
from conductor.core.messages import Message, all_of, message
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.builtin_filters import CLASSES
from conductor.core.scheduling.filtering import run_filters
from conductor.core.scheduling.group_rules import AFFINITY, ANTI_AFFINITY, SOFT_AFFINITY, SOFT_ANTI_AFFINITY
from conductor.core.scheduling.needs import needs_of
from conductor.core.scheduling.provider_answers import free_of
from conductor.core.scheduling.replay import Replay
from conductor.core.scheduling.select import Pipeline, decide, links_of

MOST_TRIALS = 80
REMEDIES_KEPT = 8
HOSTS_TRIED = 20
KEYS_TRIED = 12
PAIRED = 6
SOFT: Mapping[str, str] = {AFFINITY: SOFT_AFFINITY, ANTI_AFFINITY: SOFT_ANTI_AFFINITY}

Derive = Callable[[RequestSpec], RequestSpec]


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change after which all instances find a host. Then `num_hosts` hosts fit.

    Attributes:
        kind: `request` for all users (its text names no host), or `fleet` for operators.
        change: The change as data, for programs.
    """

    kind: str
    text: str
    change: Mapping[str, Any]
    num_hosts: int


@dataclass(frozen=True)
class Fitting:
    """The condition for all variants: this many instances find a host.

    `derive` completes a variant with what follows from its flavor and image.
    """

    pipeline: Pipeline
    num_instances: int = 1
    derive: Derive = field(default=lambda spec: spec)

    def hosts_for(self, hosts: HostTable, spec: RequestSpec) -> int:
        """Return how many hosts fit if all instances find one. Otherwise 0."""
        try:
            spec = self.derive(spec)
            if self.num_instances == 1:
                passing = run_filters(hosts, spec, links_of(hosts, spec, self.pipeline), self.pipeline.rules).passing
                return int(np.count_nonzero(passing))
            uuids = [f"asked-{number}" for number in range(self.num_instances)]
            outcome = decide(hosts, spec, uuids, pipeline=self.pipeline, seed=0)
        except Invalid:  # an invalid variant is no remedy
            return 0
        return outcome.shown.weighing.count if outcome.is_successful else 0


@dataclass(frozen=True)
class _Variant:
    """A changed request with its description. Remedies are ordered by `cost`, small changes first."""

    text: Message
    change: Mapping[str, Any]
    apply: Callable[[RequestSpec], RequestSpec]
    cost: float


def request_remedies(hosts: HostTable, spec: RequestSpec, fitting: Fitting) -> list[Remedy]:
    """Return the smallest changes of the request with which it fits: single changes first, then pairs."""
    trials = itertools.count()
    found: list[tuple[float, Remedy]] = []

    def attempt(variant: _Variant) -> bool:
        if next(trials) >= MOST_TRIALS:
            return False
        tried = replace(fitting, num_instances=variant.change.get("num_instances", fitting.num_instances))
        count = tried.hosts_for(hosts, variant.apply(spec))
        if count:
            remedy = Remedy("request", message("fit.request", change=variant.text), dict(variant.change), count)
            found.append((variant.cost, remedy))
        return bool(count)

    singles = [*_fewer(hosts, spec, fitting), *_sizes(hosts, spec, fitting), *_dropped(spec)]
    failing = [variant for variant in singles if not attempt(variant)]
    if not found:
        relaxed = [variant for variant in failing if variant.cost >= 1][:PAIRED]
        for first, second in itertools.combinations(relaxed, 2):
            attempt(_both(first, second))
        for first in relaxed:
            for size in _sizes(hosts, first.apply(spec), fitting):
                attempt(_both(first, size))
    found.sort(key=lambda item: (item[0], -item[1].num_hosts))
    return [remedy for _, remedy in found[:REMEDIES_KEPT]]


def fleet_remedies(requested: Replay, fitting: Fitting) -> list[Remedy]:
    """Return the smallest changes of the fleet after which the request fits: a cell opened, or one host enabled, up or
    freed.
    """
    found = _opened_cells(requested, fitting)
    misses = requested.misses
    rows = [int(row) for row in requested.order() if 0 < misses[row] <= 3]
    for row in rows[:HOSTS_TRIED]:
        state, words, change = mended(requested.hosts.states[row], requested.spec)
        if not words or state.is_cell_closed:
            continue
        if fitting.num_instances == 1:  # other hosts do not matter
            count = fitting.hosts_for(HostTable.from_states([state]), requested.spec)
        else:
            count = fitting.hosts_for(requested.hosts.with_rows({row: state}), requested.spec)
        if count:
            text = message("fit.fleet", change=all_of(words), host=state.host)
            found.append(Remedy("fleet", text, {"host": state.host, **change}, count))
    return sorted(found, key=lambda remedy: (len(remedy.change), _freed(remedy)))[:REMEDIES_KEPT]


def _opened_cells(requested: Replay, fitting: Fitting) -> list[Remedy]:
    """Return the closed cells that suffice if one of them is opened."""
    hosts = requested.hosts
    closed: dict[str, list[int]] = {}
    for row in np.flatnonzero(hosts.is_cell_closed).tolist():
        closed.setdefault(hosts.states[row].cell, []).append(row)
    found: list[Remedy] = []
    for cell, rows in closed.items():
        states = {row: replace(hosts.states[row], is_cell_closed=False, cell_closed_reason="") for row in rows}
        count = fitting.hosts_for(hosts.with_rows(states), requested.spec)
        if count:
            found.append(Remedy("fleet", message("fit.cell", cell=cell), {"open_cell": cell}, count))
    return found


def mended(state: HostState, spec: RequestSpec) -> tuple[HostState, list[Message], dict[str, Any]]:
    """Return the host in service and with room for one instance, and the changes made, as text and as data."""
    words: list[Message] = []
    change: dict[str, Any] = {}
    if not state.is_up:
        state, change = replace(state, is_up=True), {**change, "is_up": True}
        words.append(message("fit.service_up"))
    if state.is_disabled:
        state, change = replace(state, is_disabled=False, disabled_reason=""), {**change, "is_disabled": False}
        words.append(message("fit.service_enabled"))
    freed: dict[str, int] = {}
    for name, amount in needs_of(spec).resources.items():
        lacking = math.ceil(amount - free_of(state, name))
        if name in USED and 0 < lacking <= getattr(state, USED[name]):
            state = replace(state, **{USED[name]: getattr(state, USED[name]) - lacking})
            freed[name] = lacking
    if freed:
        change["free"] = freed
        amounts = [_amount(name, amount) for name, amount in freed.items()]
        words.append(message("fit.freed" if len(freed) == 1 else "fit.all_freed", amounts=amounts))
    return state, words, change


USED: Mapping[str, str] = {"VCPU": "vcpus_used", "MEMORY_MB": "memory_mb_used", "DISK_GB": "disk_gb_used"}


def _freed(remedy: Remedy) -> float:
    return float(sum(remedy.change.get("free", {}).values()))


def _both(first: _Variant, second: _Variant) -> _Variant:
    return _Variant(
        message("list.and", first=first.text, last=second.text),
        {**first.change, **second.change},
        lambda spec: second.apply(first.apply(spec)),
        first.cost + second.cost,
    )


def _fewer(hosts: HostTable, spec: RequestSpec, fitting: Fitting) -> Iterator[_Variant]:
    """Yield a variant with as many instances as find room."""
    if fitting.num_instances < 2:
        return
    uuids = [f"asked-{number}" for number in range(fitting.num_instances)]
    placed = decide(hosts, spec, uuids, pipeline=fitting.pipeline, seed=0).shown.index
    if placed:
        words = message("fit.instances", count=placed, asked=fitting.num_instances)
        yield _Variant(words, {"num_instances": placed}, lambda requested: requested, 0.0)


def _sizes(hosts: HostTable, spec: RequestSpec, fitting: Fitting) -> Iterator[_Variant]:
    """Yield variants with less of one resource, then of two, then of all: the amounts that the best host has left."""
    requested = {name: amount for name, amount in needs_of(spec).resources.items() if name in CLASSES}
    for count in range(1, len(requested) + 1):
        is_found = False
        for names in itertools.combinations(requested, count):
            best = _best_left(hosts, spec, fitting, {name: requested[name] for name in names})
            if best is None:
                continue
            is_found = True
            amounts, cost = best
            less = [_less(name, amounts[name], requested[name]) for name in amounts]
            text = message("fit.amounts", amounts=all_of(less))
            yield _Variant(
                text,
                {name.lower(): amount for name, amount in amounts.items()},
                lambda spec, amounts=amounts: resized(spec, amounts),  # type: ignore[misc]
                0.01 + cost * 0.9 + 0.1 * (count - 1),
            )
        if is_found:
            return


def _best_left(
    hosts: HostTable, spec: RequestSpec, fitting: Fitting, requested: Mapping[str, int]
) -> tuple[dict[str, int], float] | None:
    """Return the smallest cut among the hosts where only `requested` is lacking: the amounts, and the share of a need
    that is cut.
    """
    try:
        least = fitting.derive(resized(spec, dict.fromkeys(requested, 1)))
    except Invalid:
        return None
    passing = run_filters(hosts, least, links_of(hosts, least, fitting.pipeline), fitting.pipeline.rules).passing
    if not np.count_nonzero(passing):
        return None
    left = {name: getattr(hosts, CLASSES[name][0])[passing] for name in requested}
    if fitting.num_instances > 1 and len(requested) == 1:
        ((name, amount),) = requested.items()
        amounts = {name: _shared(left[name], amount, fitting.num_instances)}
    else:
        cuts = np.maximum.reduce([1 - left[name] / amount for name, amount in requested.items()])
        nearest = int(cuts.argmin())
        amounts = {name: min(int(left[name][nearest]), amount) for name, amount in requested.items()}
    if any(not 0 < amounts[name] < requested[name] for name in requested):
        return None
    return amounts, max(1 - amounts[name] / requested[name] for name in requested)


def _shared(left: Column, amount: int, count: int) -> int:
    """Return the largest amount below `amount` that `count` instances find on these hosts; 0 where there is none."""
    low, high = 0, amount
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if np.floor(left / middle).sum() >= count else (low, middle)
    return low


def resized(spec: RequestSpec, amounts: Mapping[str, int]) -> RequestSpec:
    """Return the request with other amounts of the standard resources, wherever the flavor sets them."""
    flavor = spec.flavor
    extra = dict(flavor.extra_specs)
    for name in amounts:
        if f"resources:{name}" in extra:
            extra[f"resources:{name}"] = str(amounts[name])
    swap_gb = -(-flavor.swap_mb // 1024)
    root_gb = amounts.get("DISK_GB", flavor.root_gb + flavor.ephemeral_gb + swap_gb) - flavor.ephemeral_gb - swap_gb
    return replace(
        spec,
        flavor=replace(
            flavor,
            vcpus=amounts.get("VCPU", flavor.vcpus),
            memory_mb=amounts.get("MEMORY_MB", flavor.memory_mb),
            root_gb=max(root_gb, 0),
            extra_specs=extra,
        ),
    )


def _amount(name: str, amount: int) -> Message:
    if name == "VCPU":
        return message("amount.vcpus", count=amount)
    return message("amount.memory" if name == "MEMORY_MB" else "amount.disk", amount=amount)


def _less(name: str, amount: int, requested: int) -> Message:
    return message("fit.less", amount=_amount(name, amount), asked=requested)


def _dropped(spec: RequestSpec) -> Iterator[_Variant]:
    """Yield the request without one of its conditions."""
    if spec.availability_zone:
        yield _Variant(
            message("fit.any_zone", zone=spec.availability_zone),
            {"availability_zone": ""},
            lambda requested: replace(requested, availability_zone=""),
            1.0,
        )
    if spec.group is not None and spec.group.policy in SOFT:
        soft = SOFT[spec.group.policy]
        yield _Variant(message("fit.group_policy", policy=soft), {"group_policy": soft}, _softened, 1.0)
    for hint in [hint for hint in spec.scheduler_hints if hint != "group"][:KEYS_TRIED]:
        yield _Variant(message("fit.without_hint", hint=hint), {"without_hint": hint}, _without_hint(hint), 1.1)
    if spec.requested_host or spec.requested_node or spec.force_hosts or spec.force_nodes or spec.ignore_hosts:
        yield _Variant(message("fit.any_host"), {"hosts": "any"}, _on_any_host, 1.2)
    for key in sorted(spec.flavor.extra_specs)[:KEYS_TRIED]:
        is_trait = key.startswith("trait:")
        words = message("fit.without_trait", trait=key[6:]) if is_trait else message("fit.without_extra_spec", key=key)
        yield _Variant(words, {"without_extra_spec": key}, _without_extra_spec(key), 1.3)
    for key in sorted(spec.image.properties)[:KEYS_TRIED]:
        yield _Variant(
            message("fit.without_property", key=key),
            {"without_image_property": key},
            _without_image_property(key),
            1.4,
        )


def _softened(spec: RequestSpec) -> RequestSpec:
    group = spec.group
    return replace(spec, group=replace(group, policy=SOFT.get(group.policy, group.policy)) if group else None)


def _on_any_host(spec: RequestSpec) -> RequestSpec:
    return replace(spec, requested_host="", requested_node="", force_hosts=(), force_nodes=(), ignore_hosts=())


def _without_hint(hint: str) -> Callable[[RequestSpec], RequestSpec]:
    def apply(spec: RequestSpec) -> RequestSpec:
        hints: dict[str, list[str]] = {name: words for name, words in spec.scheduler_hints.items() if name != hint}
        return replace(spec, scheduler_hints=hints)

    return apply


def _without_extra_spec(key: str) -> Callable[[RequestSpec], RequestSpec]:
    def apply(spec: RequestSpec) -> RequestSpec:
        left = {name: value for name, value in spec.flavor.extra_specs.items() if name != key}
        return replace(spec, flavor=replace(spec.flavor, extra_specs=left))

    return apply


def _without_image_property(key: str) -> Callable[[RequestSpec], RequestSpec]:
    def apply(spec: RequestSpec) -> RequestSpec:
        left = {name: value for name, value in spec.image.properties.items() if name != key}
        return replace(spec, image=replace(spec.image, properties=left))

    return apply
