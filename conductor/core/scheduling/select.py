"""Selection of hosts: from a snapshot of hosts and a request to the picked hosts and their alternates."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from conductor.core.filter import Filter
from conductor.core.frozen import sealed
from conductor.core.host_state import Column, HostTable, Mask
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.alternates import Ranking, alternates_by_cell, best_rows, pick
from conductor.core.scheduling.batch import FilterUndecided, Plugins, batch_of
from conductor.core.scheduling.builtin_filters import (
    MoveRange,
    OpenCells,
    Placement,
    RequestedCell,
    RequestedHosts,
    RequestedZone,
)
from conductor.core.scheduling.decision_cache import ROWS_AT_MOST, CachedRound, Key, filtered_again, unchanged
from conductor.core.scheduling.filtering import Filtering, PluginFault, passes_all, run_filters
from conductor.core.scheduling.group_rules import LEAVING
from conductor.core.scheduling.hardware_fit import NO_HARDWARE, HardwareFit, wanted_of
from conductor.core.scheduling.needs import Needs, needs_of
from conductor.core.scheduling.pipeline import Pipeline as Pipeline
from conductor.core.scheduling.pipeline import answers_for_all, class_of
from conductor.core.scheduling.provider_answers import can_answer, parts_at, resources_at
from conductor.core.scheduling.watching import PluginUse, Watch
from conductor.core.scheduling.weighing import OUT, PreviousWeighing, Weighing, weigh
from conductor.core.scheduling.working_table import WorkingTable
from conductor.core.selection import Selection


@dataclass(frozen=True)
class Round:
    """One pass of the pipeline for one instance, on the hosts before that instance was placed."""

    index: int
    hosts: HostTable
    spec: RequestSpec
    filtering: Filtering
    weighing: Weighing


@dataclass(frozen=True)
class SelectionResult:
    """The result of a selection.

    Attributes:
        shown: The round to explain: the first one, or the one that found no host.
        picks: The row of each instance. Empty if an instance found no host.
        alternates: Rows by cell.
    """

    shown: Round
    num_instances: int
    picks: tuple[int, ...]
    alternates: Mapping[str, Sequence[int]]
    needs: Needs
    seed: int
    faults: tuple[PluginFault, ...] = ()
    watch: Watch | None = field(default=None, compare=False, repr=False)
    # Of a batch: the selection of each instance with the hosts before it, and the hosts after the whole batch.
    placed: tuple[Selection, ...] = ()
    left: HostTable | None = None

    @property
    def uses(self) -> tuple[PluginUse, ...]:
        """Record of each plugin: its times, rejections and faults."""
        return tuple(self.watch.uses.values()) if self.watch else ()

    @property
    def is_successful(self) -> bool:
        return len(self.picks) == self.num_instances

    def selections(self) -> tuple[tuple[Selection, ...], ...]:
        """Per instance the picked host and then its alternates. Empty unless all instances found a host."""
        hosts = self.shown.hosts
        hardware = wanted_of(self.shown.spec)
        by_cell = {
            cell: tuple(selection_of(self.left or hosts, row, self.needs, hardware) for row in rows)
            for cell, rows in self.alternates.items()
        }
        picked = self.placed or (selection_of(hosts, row, self.needs, hardware) for row in self.picks)
        return tuple((chosen, *by_cell.get(chosen.cell, ())) for chosen in picked)


def decide(
    hosts: HostTable,
    spec: RequestSpec,
    instance_uuids: Sequence[str],
    *,
    pipeline: Pipeline,
    seed: int,
    needs: Needs | None = None,
) -> SelectionResult:
    """Find a host for every instance, or for none.

    Pure: the same hosts, request, plugins and seed give the same result. A plugin that fails is listed in `faults`.

    Args:
        needs: The needs of the request with the bounds of pre-filters.

    Raises:
        Invalid: the needs cannot be read. Nothing else is raised.
    """
    return _Placing(hosts, spec, instance_uuids, pipeline=pipeline, seed=seed, needs=needs).outcome()


def after(hosts: HostTable, outcome: SelectionResult) -> HostTable:
    """Return the hosts of a decision after its instances were placed, for the next request of the same snapshot."""
    working, spec = WorkingTable(hosts), outcome.shown.spec
    for row in outcome.picks:
        spec = working.take(row, spec, outcome.needs)
    return hosts.with_rows({row: working.hosts.states[row] for row in working.hosts.claimed_rows})


def links_of(hosts: HostTable, spec: RequestSpec, pipeline: Pipeline, needs: Needs | None = None) -> tuple[Filter, ...]:
    """Return the chain of filters for the request."""
    chain: list[Filter] = []
    if hosts.has_closed_cells and not spec.is_rebuild:
        chain.append(OpenCells())  # before placement: closed cells take no new servers; servers there may stay
    chain.append(Placement(needs))  # rejects most and costs least, and a claim would fail on what it rejects
    if spec.move is not None:
        chain.append(MoveRange())  # an existing server is bound, also when an operator moves it
    if spec.requested_cell:
        chain.append(RequestedCell())  # before the hosts: they are looked up in the cell
    if spec.names_hosts:
        chain.append(RequestedHosts())  # before the plugins: they need not judge other hosts
    if spec.is_rebuild:
        # the other filters judge room and location
        return (*chain, *(one for one in pipeline.filters if one.runs_on_rebuild))
    if pipeline.rechecks_room and (spec.numa is not None or spec.pci_requests):
        chain.append(HardwareFit())  # whichever filters the operator chose: a claim would fail on what it rejects
    if spec.force_hosts or spec.force_nodes:
        return tuple(chain)  # an operator who forces a host bypasses the filters
    if not pipeline.asks_zones:
        chain.append(RequestedZone())  # a zone is guaranteed, whichever filters the operator chose
    chain.extend(pipeline.filters)  # then the plugins, in the operator's order
    return tuple(chain)


class _Placing:
    """Placement of one request: the hosts after its earlier picks, and which of them still pass."""

    def __init__(
        self,
        hosts: HostTable,
        spec: RequestSpec,
        instance_uuids: Sequence[str],
        *,
        pipeline: Pipeline,
        seed: int,
        needs: Needs | None,
    ) -> None:
        self.watch = Watch(pipeline.rules)
        self.table = WorkingTable(hosts)
        self.spec = _for_instance(_without_own(spec, instance_uuids), next(iter(instance_uuids), ""))
        if pipeline.has_unmanaged:
            self.spec = sealed(self.spec)
        self.instance_uuids = instance_uuids
        self.pipeline = pipeline
        self.seed = seed
        self.random = random.Random(seed) if pipeline.host_subset_size > 1 else None
        self.answers_for_all = answers_for_all(pipeline)
        decision_cache = pipeline.decision_cache if self.answers_for_all and needs is None and hosts.identity else None
        key = class_of(self.spec, pipeline) if decision_cache else None
        self.key: Key | None = (key, hosts.has_closed_cells) if key else None
        kept = decision_cache.find(self.key) if decision_cache and self.key else None
        self.needs = needs or (kept.needs if kept else needs_of(spec))
        self.links = links_of(hosts, spec, pipeline, self.needs)
        self.faults: list[PluginFault] = []
        self.picks: list[int] = []
        self.placed: list[Selection] = []
        self._ranking: Ranking | None = None
        self.first = self._first_round(kept)
        self.since: PreviousWeighing | None = None  # the weighing before the last pick, and the rows changed since
        self.passing: Mask = self.first.filtering.passing
        self._once: Mask | None = None

    def outcome(self) -> SelectionResult:
        return self._as_batch() or self._one_by_one()

    def _as_batch(self) -> SelectionResult | None:
        """Place the request as `_one_by_one` does, computed as a batch. None where the effect of an instance is not
        predictable.
        """
        plain = self.answers_for_all and self.pipeline.rechecks_room and self.random is None and not self.faults
        if len(self.instance_uuids) < 2 or not plain or not (self.key or class_of(self.spec, self.pipeline)):
            return None
        hosts, first = self.table.hosts, (self.passing, self.first.weighing)
        batch = batch_of(hosts, self.spec, self.needs, first, Plugins(self.repeated, self.pipeline.weighers))
        if batch is None:
            return None
        draw = None if self.pipeline.keeps_order else self.seed
        try:
            is_placed = batch.place(self.first.weighing.totals, len(self.instance_uuids), draw)
        except FilterUndecided:
            return None
        if not is_placed:
            for row in batch.picks:
                self.spec = self.table.take(row, self.spec, self.needs)
            return self._ended(self._round(len(batch.picks)), picks=(), alternates={})
        count = self.pipeline.max_attempts - 1
        if count <= 0:
            return self._ended(self.first, picks=tuple(batch.picks), alternates={})
        left = batch.totals()
        left[batch.picks] = OUT
        found = alternates_by_cell(hosts, Ranking(left), set(batch.picks), count=count, seed=draw)
        return self._ended(self.first, picks=tuple(batch.picks), alternates=found)

    def _one_by_one(self) -> SelectionResult:
        weighing = self.first.weighing
        for index, uuid in enumerate(self.instance_uuids):
            if index:
                weighing = self._next()
            row = self._picked(weighing, index)
            if row is None:
                shown = self._round(index) if index and not self.pipeline.watcher else self.first
                return self._ended(shown, picks=(), alternates={})
            self._take(row, uuid, weighing)
        count = self.pipeline.max_attempts - 1
        if len(self.picks) > 1 and count > 0:
            # the alternates must fit beside all picks
            weighing = self._next() if self.pipeline.watcher else self._round(0).weighing
        alternates = alternates_by_cell(
            self.table.hosts,
            self._ranked(weighing.totals),
            set(self.picks),
            count=count,
            seed=None if self.pipeline.keeps_order else self.seed,
            among=max(self.pipeline.host_subset_size, 1),
        )
        return self._ended(self.first, picks=tuple(self.picks), alternates=alternates)

    def _first_round(self, kept: CachedRound | None) -> Round:
        """Return the first round: that of the request's class in the cache, updated where that is cheaper."""
        hosts, decision_cache = self.table.hosts, self.pipeline.decision_cache
        rows = hosts.rows_since(kept.identity) if kept else None
        found = None
        if kept and rows is not None and not rows:
            self._ranking = kept.ranking
            return self._counted(Round(0, hosts, self.spec, unchanged(kept, self.watch), kept.weighing), is_hit=True)
        if kept and rows is not None and len(rows) <= ROWS_AT_MOST:
            changed = sorted(rows)
            filtering = filtered_again(kept, hosts, self.spec, changed, self.watch)
            if filtering:
                since = PreviousWeighing.of(kept.weighing, kept.filtering.passing, changed).now(filtering.passing)
                found = Round(0, hosts, self.spec, filtering, self._weigh(since))
        first = found or self._round(0)
        if decision_cache and self.key and hosts.identity and not self.faults:
            kept = CachedRound(hosts.identity, self.needs, first.filtering, first.weighing, self.pipeline.weighers)
            self._ranking = kept.ranking
            decision_cache.keep(self.key, kept)
        return self._counted(first, is_hit=found is not None)

    def _counted(self, first: Round, *, is_hit: bool) -> Round:
        if self.pipeline.decision_cache and self.key:
            self.pipeline.decision_cache.count(is_hit=is_hit)
        return first

    @cached_property
    def repeated(self) -> tuple[Filter, ...]:
        """The filters that run again once an instance has a host."""
        return tuple(one for one in self.links if self._is_repeated(one))

    def _is_repeated(self, one: Filter) -> bool:
        if isinstance(one, Placement) and not self.pipeline.rechecks_room:
            return False
        return not one.runs_once_per_request

    def _round(self, index: int) -> Round:
        """Run every filter on every host, with the earlier picks in place."""
        filtering = run_filters(self.table.hosts, self.spec, self.links, self.pipeline.rules, self.watch)
        self.faults += filtering.faults
        if self.pipeline.watcher:
            self.pipeline.watcher.filtered(self.table.hosts, self.spec, self.table.hosts.everyone, filtering)
        return Round(index, self.table.hosts, self.spec, filtering, self._weigh(filtering.passing))

    def _next(self) -> Weighing:
        """Return the weights for the next instance, of the remaining hosts."""
        watcher = self.pipeline.watcher
        if watcher:  # it records rejections, so all filters run again
            came = self.passing
            filtering = run_filters(
                self.table.hosts, self.spec, self.repeated, self.pipeline.rules, self.watch, among=came
            )
            self.passing = filtering.passing
            watcher.filtered(self.table.hosts, self.spec, came, filtering)
        return self._weigh(self.since.now(self.passing) if self.since else self.passing)

    def _weigh(self, passing: Mask | PreviousWeighing) -> Weighing:
        weighing = weigh(
            self.table.hosts,
            self.spec,
            self.pipeline.weighers,
            multipliers=self.pipeline.multipliers,
            passing=passing,
            watch=self.watch,
        )
        self.faults += weighing.faults
        if self.pipeline.watcher:
            self.pipeline.watcher.weighed(weighing)
        return weighing

    def _picked(self, weighing: Weighing, index: int) -> int | None:
        """Return the host for the instance. None if no remaining host has room."""
        if not weighing.count:
            return None
        count = max(self.pipeline.host_subset_size, 1)
        seed = None if self.pipeline.keeps_order else self.seed + index
        if self.pipeline.rechecks_room:
            return pick(self._ranked(weighing.totals).best(count, seed), self.random)
        ordered = best_rows(weighing.totals, weighing.count, seed)
        chosen = pick(ordered[:count], self.random)
        return next((row for row in (chosen, *ordered) if self._has_room(row)), None)

    def _has_room(self, row: int) -> bool:
        """Whether the host still satisfies the query that it satisfied first, as its claim is made with that query."""
        before, now = self.first.hosts.states[row], self.table.hosts.states[row]
        way = next((query for query in self.needs.queries if can_answer(before, query)), None)
        return self.spec.is_rebuild or (way is not None and can_answer(now, way))

    def _ranked(self, totals: Column) -> Ranking:
        """Return the ranking of the candidates, shared by picks and alternates."""
        if self._ranking is None or self._ranking.totals is not totals:
            self._ranking = Ranking(totals)
        return self._ranking

    def _take(self, row: int, instance_uuid: str, weighing: Weighing) -> None:
        """Place an instance on the host in `row`, and run the filters again whose verdicts may change."""
        self.picks.append(row)
        if len(self.instance_uuids) == 1:
            return
        if len(self.picks) == 1:
            self.passing = self.passing.copy()  # the first round keeps its own
        self.placed.append(selection_of(self.table.hosts, row, self.needs, wanted_of(self.first.spec)))
        known = PreviousWeighing.of(weighing, self.passing, (row,)) if self.answers_for_all else None
        self.spec = self.table.take(row, self.spec, self.needs)
        group = self.spec.group
        self.since = None if group is not None or self.table.sharers else known
        if group is not None:
            members = {**group.member_hosts, instance_uuid: self.table.hosts.states[row].host}
            following = next(iter(self.instance_uuids[len(self.picks) :]), instance_uuid)
            self.spec = _for_instance(replace(self.spec, group=replace(group, member_hosts=members)), following)
        if self.pipeline.watcher:
            return  # the next round judges all hosts
        if group is None:  # only this host has changed, and those that share with it
            for changed in (row, *(other for other in self.table.sharers if self.passing[other])):
                self.passing[changed], faults = passes_all(
                    self.table.hosts, self.spec, self.repeated, row=changed, rules=self.pipeline.rules, watch=self.watch
                )
                self.faults += faults
            return
        if self._once is None:
            once = tuple(one for one in self.links if one.runs_once_per_request)
            self._once = run_filters(self.first.hosts, self.spec, once, self.pipeline.rules, self.watch).passing
        again = run_filters(self.table.hosts, self.spec, self.repeated, self.pipeline.rules, self.watch)
        self.faults += again.faults
        self.passing = self._once & again.passing

    def _ended(
        self, shown: Round, *, picks: tuple[int, ...], alternates: Mapping[str, Sequence[int]]
    ) -> SelectionResult:
        return SelectionResult(
            shown,
            num_instances=len(self.instance_uuids),
            picks=picks,
            alternates=alternates,
            needs=self.needs,
            seed=self.seed,
            faults=_summed(self.faults),
            watch=self.watch,
            placed=tuple(self.placed) if picks else (),
            left=self.table.hosts if picks else None,
        )


def selection_of(hosts: HostTable, row: int, needs: Needs, hardware: Mapping[str, Any] = NO_HARDWARE) -> Selection:
    """Return the host in `row` as a selection: the needs to claim, and the hardware to take."""
    state = hosts.states[row]
    return Selection(
        host=state.host,
        node=state.node,
        cell=state.cell,
        provider_uuid=state.provider_uuid,
        resources=resources_at(state, needs),
        availability_zone=state.availability_zone,
        hardware=dict(hardware),
        by_provider=parts_at(state, needs),
    )


def _for_instance(spec: RequestSpec, instance_uuid: str) -> RequestSpec:
    """Return the request for one of its instances. Only requests of group members differ."""
    return spec if spec.group is None else replace(spec, instance_uuid=instance_uuid)


def _without_own(spec: RequestSpec, instance_uuids: Sequence[str]) -> RequestSpec:
    """Return the request without its own instances in the group, as these are being placed."""
    if spec.group is None:
        return spec
    own = {f"{uuid}{suffix}" for uuid in instance_uuids for suffix in ("", LEAVING)}
    others = {uuid: host for uuid, host in spec.group.member_hosts.items() if uuid not in own}
    return replace(spec, group=replace(spec.group, member_hosts=others))


def _summed(faults: Sequence[PluginFault]) -> tuple[PluginFault, ...]:
    """Return one fault per plugin, as the same plugin fails many times in a request for many instances."""
    found: dict[tuple[str, str, str], PluginFault] = {}
    for fault in faults:
        key = (fault.kind, fault.plugin, fault.error)
        found[key] = replace(fault, count=fault.count + found[key].count) if key in found else fault
    return tuple(found.values())
