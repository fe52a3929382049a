"""Hypothetical (what-if) comparisons: runs the same engine on hypothetical fleets and requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from conductor.core.errors import Invalid
from conductor.core.host_state import HostState, HostTable
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.decision import Decision, explain
from conductor.core.scheduling.select import Pipeline, decide
from conductor.core.scheduling.working_table import WorkingTable

MOST_NEW_HOSTS = 10_000
SEED = 0  # the same request gets the same result


@dataclass(frozen=True, slots=True)
class NewHosts:
    """Additional hosts. Each is like an existing host but empty, with other `values` of core.host_state.HostState."""

    count: int
    like: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FleetChange:
    """Changes of the fleet. Hosts are given by name; unknown names are refused."""

    add: tuple[NewHosts, ...] = ()
    remove: tuple[str, ...] = ()
    enable: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()

    @property
    def is_none(self) -> bool:
        return not (self.add or self.remove or self.enable or self.disable)


@dataclass(frozen=True)
class LaunchTrial:
    """Result of a hypothetical launch: the decision, and the number and hosts of the instances that fit."""

    decision: Decision
    num_instances: int
    hosts: tuple[str, ...] = ()  # one for each instance that finds room

    @property
    def placed(self) -> int:
        return len(self.hosts)


@dataclass(frozen=True, slots=True)
class InstanceToMove:
    """An instance to move, and the requirements on its next host."""

    instance_uuid: str
    name: str
    spec: RequestSpec


@dataclass(frozen=True, slots=True)
class PlacementPlan:
    """The planned host of a guest, or "" and the reasons why there is none."""

    instance_uuid: str
    name: str
    host: str = ""
    advice: tuple[str, ...] = ()


def changed(hosts: HostTable, change: FleetChange) -> HostTable:
    """Return the fleet with the change. Raises Invalid naming the field for an unknown host, or for too many hosts."""
    if change.is_none:
        return hosts
    known = {state.host for state in hosts.states}
    for field_name in ("remove", "enable", "disable"):
        for name in getattr(change, field_name):
            if name not in known:
                raise Invalid(f"fleet.{field_name}: there is no host {name[:60]}.", field=f"fleet.{field_name}")
    removed, opened, closed = set(change.remove), set(change.enable), set(change.disable)
    states = [_served(state, opened, closed) for state in hosts.states if state.host not in removed]
    if sum(new.count for new in change.add) > MOST_NEW_HOSTS:
        raise Invalid(f"fleet.add: at most {MOST_NEW_HOSTS} hosts can be added.", field="fleet.add")
    names = _free_names(known)
    for new in change.add:
        states += [replace(model, **_named(next(names))) for model in [_model(hosts, new)] * new.count]
    return HostTable.from_states(states, age_seconds=hosts.age_seconds)


def launch(
    hosts: HostTable,
    spec: RequestSpec,
    instance_uuids: Sequence[str],
    *,
    pipeline: Pipeline,
    missing_cells: Mapping[str, str] | None = None,
    seed: int = SEED,
) -> LaunchTrial:
    """Try to place these instances. If not all of them fit, find out how many do."""
    outcome = decide(hosts, spec, instance_uuids, pipeline=pipeline, seed=seed)
    decision = explain(outcome, missing_cells)
    found = outcome
    if not outcome.is_successful and outcome.shown.index:
        found = decide(hosts, spec, instance_uuids[: outcome.shown.index], pipeline=pipeline, seed=seed)
    return LaunchTrial(decision, len(instance_uuids), tuple(hosts.states[row].host for row in found.picks))


def drain(
    hosts: HostTable,
    guests: Sequence[InstanceToMove],
    *,
    pipeline: Pipeline,
) -> tuple[list[PlacementPlan], HostTable]:
    """Plan a host for each guest, beside the guests before it. Return the plans and the fleet afterwards."""
    moved: dict[str, str] = {}
    plans: list[PlacementPlan] = []
    for guest in guests:
        spec = with_members(guest.spec, moved)
        try:
            outcome = decide(hosts, spec, [guest.instance_uuid], pipeline=pipeline, seed=SEED)
        except Invalid as error:
            plans.append(PlacementPlan(guest.instance_uuid, guest.name, advice=(error.message,)))
            continue
        if not outcome.is_successful:
            plans.append(PlacementPlan(guest.instance_uuid, guest.name, advice=explain(outcome).advice))
            continue
        (row,) = outcome.picks
        moved[guest.instance_uuid] = host = hosts.states[row].host
        table = WorkingTable(hosts)
        table.take(row, spec, outcome.needs)
        hosts = hosts.with_rows({row: table.hosts.states[row]}, age_seconds=hosts.age_seconds)
        plans.append(PlacementPlan(guest.instance_uuid, guest.name, host))
    return plans, hosts


def with_members(spec: RequestSpec, moved: Mapping[str, str]) -> RequestSpec:
    """Return the request with group members and hinted instances at their planned hosts."""
    hosts = {uuid: moved.get(uuid, host) for uuid, host in spec.instance_hosts.items()}
    group = spec.group
    if group is not None:
        members = {uuid: moved.get(uuid, host) for uuid, host in group.member_hosts.items()}
        group = replace(group, member_hosts=members)
    return replace(spec, group=group, instance_hosts=hosts)


def emptied(state: HostState) -> HostState:
    """Return the host without any guest, and in service."""
    topology = state.topology
    if topology is not None:
        topology = replace(topology, cells=tuple(_unused(cell) for cell in topology.cells))
    return replace(
        state,
        vcpus_used=0,
        memory_mb_used=0,
        disk_gb_used=0,
        disk_available_least_gb=None,
        num_instances=0,
        num_io_ops=0,
        failed_builds=0,
        is_up=True,
        is_disabled=False,
        disabled_reason="",
        is_cell_closed=False,
        cell_closed_reason="",
        amounts={name: replace(amount, used=0) for name, amount in state.amounts.items()},
        image_properties={},
        topology=topology,
    )


def _unused(cell: Any) -> Any:
    pages = tuple(replace(page, used=0) for page in cell.pages)
    return replace(cell, memory_mb_used=0, cpus_used=0, pinned=frozenset(), pages=pages)


def _model(hosts: HostTable, new: NewHosts) -> HostState:
    if not new.like:
        model = next(iter(hosts.states), None)
        if model is None:
            raise Invalid("fleet.add: there is no host in the fleet that new ones could be like.", field="fleet.add")
    else:
        rows = hosts.rows_of([new.like])
        if not rows:
            raise Invalid(f"fleet.add.like: there is no host {new.like[:60]}.", field="fleet.add.like")
        model = hosts.states[rows[0]]
    return replace(emptied(model), **new.values)


def _served(state: HostState, opened: Iterable[str], closed: Iterable[str]) -> HostState:
    if state.host in opened:
        return replace(state, is_up=True, is_disabled=False, disabled_reason="")
    if state.host in closed:
        return replace(state, is_disabled=True, disabled_reason="closed in this question")
    return state


def _free_names(known: set[str]) -> Any:
    number = 0
    while True:
        number += 1
        if (name := f"new-{number}") not in known:
            yield name


def _named(name: str) -> dict[str, Any]:
    return {"host": name, "node": name, "provider_uuid": f"what-if:{name}"}
