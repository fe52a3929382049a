"""The pipeline: a snapshot of hosts and a request go in, the picked hosts and their alternates come out."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from conductor.core.filter import Filter
from conductor.core.frozen import sealed
from conductor.core.host_state import HostTable, Mask
from conductor.core.plugin_choice import FILTER, WEIGHER
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.alternates import alternates_by_cell, best_rows, pick
from conductor.core.scheduling.filtering import Filtering, PluginFault, Rules, passes_all, run_filters
from conductor.core.scheduling.group_rules import LEAVING
from conductor.core.scheduling.links import MoveRange, Placement, RequestedHosts, RequestedZone
from conductor.core.scheduling.needs import Needs, needs_of
from conductor.core.scheduling.watching import Use, Watch
from conductor.core.scheduling.weighing import Multipliers, Weighing, weigh
from conductor.core.scheduling.working_table import WorkingTable
from conductor.core.selection import Selection
from conductor.core.weigher import Weigher


@dataclass(frozen=True)
class Pipeline:
    """Which plugins decide, and the operator's options."""

    filters: tuple[Filter, ...]
    weighers: tuple[Weigher, ...]
    multipliers: Multipliers = field(default_factory=Multipliers)
    rules: Rules = field(default_factory=Rules)
    host_subset_size: int = 1
    max_attempts: int = 3

    @property
    def has_strangers(self) -> bool:
        """Whether plugins decide that are not known to leave alone what they are given."""
        trusted = self.rules.trusted
        return any((FILTER, one.name) not in trusted for one in self.filters) or any(
            (WEIGHER, one.name) not in trusted for one in self.weighers
        )


@dataclass(frozen=True)
class Round:
    """One turn of the pipeline for one instance, on the hosts as they were then."""

    index: int
    hosts: HostTable
    spec: RequestSpec
    filtering: Filtering
    weighing: Weighing


@dataclass(frozen=True)
class Outcome:
    """What was decided. `shown` is the round to explain: the first one, or the one that found no host.

    `picks[i]` is the row of instance i; empty when any instance found no host. `alternates` are rows by cell.
    """

    shown: Round
    num_instances: int
    picks: tuple[int, ...]
    alternates: Mapping[str, Sequence[int]]
    needs: Needs
    seed: int
    faults: tuple[PluginFault, ...] = ()
    uses: tuple[Use, ...] = ()  # what each plugin did

    @property
    def is_successful(self) -> bool:
        return len(self.picks) == self.num_instances

    def selections(self) -> tuple[tuple[Selection, ...], ...]:
        """Per instance the picked host and then its alternates; empty when not all found a host."""
        hosts = self.shown.hosts
        by_cell = {
            cell: tuple(selection_of(hosts, row, self.needs) for row in rows) for cell, rows in self.alternates.items()
        }
        picked = (selection_of(hosts, row, self.needs) for row in self.picks)
        return tuple((chosen, *by_cell.get(chosen.cell, ())) for chosen in picked)


def decide(
    hosts: HostTable, spec: RequestSpec, instance_uuids: Sequence[str], *, pipeline: Pipeline, seed: int
) -> Outcome:
    """Find a host for every instance, or for none.

    Pure: the same hosts, request, plugins and seed give the same outcome. Raises Invalid for needs that
    cannot be read, and nothing else: a plugin that fails is named in `faults`.
    """
    return _Placing(hosts, spec, instance_uuids, pipeline=pipeline, seed=seed).outcome()


def links_of(spec: RequestSpec, pipeline: Pipeline, needs: Needs | None = None) -> tuple[Filter, ...]:
    """The chain of filters that the request goes through."""
    chain: list[Filter] = [
        Placement(needs),  # first, as it turns away most and costs least, and as a claim would fail on what it rejects
    ]
    if spec.move is not None:
        chain.append(MoveRange())  # what exists already is bound, whoever asks
    if spec.force_hosts or spec.ignore_hosts or spec.requested_host:
        chain.append(RequestedHosts())  # before the plugins: they need not judge what nobody asked for
    if spec.force_hosts:
        return tuple(chain)  # an operator who forces a host has judged for himself
    if not any(one.name == RequestedZone.name for one in pipeline.filters):
        chain.append(RequestedZone())  # a zone is a promise, whichever filters the operator chose
    chain.extend(pipeline.filters)  # then the plugins, in the operator's order
    return tuple(chain)


class _Placing:
    """One request on its way: the hosts as its earlier picks leave them, and which of them still pass."""

    def __init__(
        self, hosts: HostTable, spec: RequestSpec, instance_uuids: Sequence[str], *, pipeline: Pipeline, seed: int
    ) -> None:
        self.watch = Watch(pipeline.rules)
        self.table = WorkingTable(hosts)
        self.spec = _without_own(spec, instance_uuids)
        if pipeline.has_strangers:
            self.spec = sealed(self.spec)
        self.instance_uuids = instance_uuids
        self.pipeline = pipeline
        self.seed = seed
        self.random = random.Random(seed) if pipeline.host_subset_size > 1 else None
        self.needs = needs_of(spec)
        self.links = links_of(spec, pipeline, self.needs)
        self.repeated = tuple(one for one in self.links if not one.runs_once_per_request)
        self.faults: list[PluginFault] = []
        self.picks: list[int] = []
        self.first = self._round(0)
        self.passing: Mask = self.first.filtering.passing
        self._once: Mask | None = None

    def outcome(self) -> Outcome:
        weighing = self.first.weighing
        for index, uuid in enumerate(self.instance_uuids):
            if index:
                weighing = self._weigh(self.passing)
            if not weighing.count:
                return self._ended(self._round(index) if index else self.first, picks=(), alternates={})
            ordered = best_rows(weighing.totals, max(self.pipeline.host_subset_size, 1), self.seed + index)
            self._take(pick(ordered, self.random), uuid)
        if len(self.picks) > 1:  # the alternates must fit beside all that was picked
            weighing = self._round(0).weighing
        alternates = alternates_by_cell(
            self.table.hosts, weighing.totals, set(self.picks), count=self.pipeline.max_attempts - 1, seed=self.seed
        )
        return self._ended(self.first, picks=tuple(self.picks), alternates=alternates)

    def _round(self, index: int) -> Round:
        """Every filter on every host, as the pipeline stands."""
        filtering = run_filters(self.table.hosts, self.spec, self.links, self.pipeline.rules, self.watch)
        self.faults += filtering.faults
        return Round(index, self.table.hosts, self.spec, filtering, self._weigh(filtering.passing))

    def _weigh(self, passing: Mask) -> Weighing:
        weighing = weigh(
            self.table.hosts,
            self.spec,
            self.pipeline.weighers,
            multipliers=self.pipeline.multipliers,
            passing=passing,
            watch=self.watch,
        )
        self.faults += weighing.faults
        return weighing

    def _take(self, row: int, instance_uuid: str) -> None:
        """Give the host in `row` one instance more, and ask again what its answer may change."""
        self.picks.append(row)
        if len(self.instance_uuids) == 1:
            return
        if len(self.picks) == 1:
            self.passing = self.passing.copy()  # the first round keeps its own
        self.table.take(row, self.spec, self.needs)
        if self.spec.group is None:  # nothing but this one host has changed
            self.passing[row], faults = passes_all(
                self.table.hosts, self.spec, self.repeated, row=row, rules=self.pipeline.rules, watch=self.watch
            )
            self.faults += faults
            return
        members = {**self.spec.group.member_hosts, instance_uuid: self.table.hosts.states[row].host}
        self.spec = replace(self.spec, group=replace(self.spec.group, member_hosts=members))
        if self._once is None:
            once = tuple(one for one in self.links if one.runs_once_per_request)
            self._once = run_filters(self.first.hosts, self.spec, once, self.pipeline.rules, self.watch).passing
        again = run_filters(self.table.hosts, self.spec, self.repeated, self.pipeline.rules, self.watch)
        self.faults += again.faults
        self.passing = self._once & again.passing

    def _ended(self, shown: Round, *, picks: tuple[int, ...], alternates: Mapping[str, Sequence[int]]) -> Outcome:
        return Outcome(
            shown,
            num_instances=len(self.instance_uuids),
            picks=picks,
            alternates=alternates,
            needs=self.needs,
            seed=self.seed,
            faults=_summed(self.faults),
            uses=tuple(self.watch.uses.values()),
        )


def selection_of(hosts: HostTable, row: int, needs: Needs) -> Selection:
    """The host in `row` as a place to claim the needs on."""
    state = hosts.states[row]
    return Selection(
        host=state.host,
        node=state.node,
        cell=state.cell,
        provider_uuid=state.provider_uuid,
        resources=dict(needs.resources),
        availability_zone=state.availability_zone,
    )


def _without_own(spec: RequestSpec, instance_uuids: Sequence[str]) -> RequestSpec:
    """The request without where its own instances are: they are placed now."""
    if spec.group is None:
        return spec
    own = {f"{uuid}{suffix}" for uuid in instance_uuids for suffix in ("", LEAVING)}
    others = {uuid: host for uuid, host in spec.group.member_hosts.items() if uuid not in own}
    return replace(spec, group=replace(spec.group, member_hosts=others))


def _summed(faults: Sequence[PluginFault]) -> tuple[PluginFault, ...]:
    """One fault per plugin: in a request for many, the same plugin fails many times."""
    found: dict[tuple[str, str, str], PluginFault] = {}
    for fault in faults:
        key = (fault.kind, fault.plugin, fault.error)
        found[key] = replace(fault, count=fault.count + found[key].count) if key in found else fault
    return tuple(found.values())
