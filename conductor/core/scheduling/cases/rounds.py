"""Records each round of a decision while it runs: the candidates, the rejections by filter, and the weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from conductor.core.errors import NovellaError
from conductor.core.filter import Filter
from conductor.core.host_state import HostTable, Mask
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.alternates import heaviest
from conductor.core.scheduling.builtin_filters import Placement, RequestedCell
from conductor.core.scheduling.filtering import Filtering, Stage, verdict_of
from conductor.core.scheduling.weighing import Weighing


class UnreadableRound(NovellaError):
    """A filter could not compare a host with the request."""


class RoundRecorder:
    """A watcher that records rounds. Raises UnreadableRound where a filter could not compare request and host."""

    def __init__(self, filters: Sequence[Filter]) -> None:
        self.filters = filters
        self.written: list[dict[str, Any]] = []
        self._hosts = HostTable.from_states(())

    def filtered(self, hosts: HostTable, spec: RequestSpec, came: Mask, filtering: Filtering) -> None:
        self._hosts = hosts
        plugins = {one.name for one in self.filters}
        entered = left = came
        for stage in filtering.stages:
            if stage.filter.name in plugins:
                break
            left = stage.left
            if isinstance(stage.filter, Placement | RequestedCell):  # they define the set of hosts
                entered = left
        this: dict[str, Any] = {"hosts": _names(hosts, entered), "steps": [], "survivors": None}
        self.written.append({**this, "weighers": {}, "order": []})
        if not _is_forced(spec):
            self._step(hosts, spec, left, filtering)
        self.written[-1]["survivors"] = _names(hosts, filtering.passing)

    def _step(self, hosts: HostTable, spec: RequestSpec, left: Mask, filtering: Filtering) -> None:
        """Record the result of each filter, up to the one that leaves no host."""
        stages = {stage.filter.name: stage for stage in filtering.stages}
        steps = self.written[-1]["steps"]
        if spec.ignore_hosts and _are_ignored(hosts, spec, self.written[-1]["hosts"]):
            return  # no host is left for the next filter
        for one in self.filters:
            if one.runs_once_per_request and len(self.written) > 1:
                continue
            turn = stages.get(one.name)
            rejected: list[str] = []
            if turn is not None:
                _refuse_unreadable(turn, hosts, spec)
                rejected = [hosts.states[int(row)].host for row in turn.rejected_rows]
                left = turn.left
            steps.append({"filter": one.name, "rejects": rejected})
            if not left.any():
                return

    def weighed(self, weighing: Weighing) -> None:
        states = self._hosts.states
        rows = [int(row) for row in np.flatnonzero(weighing.totals > -np.inf)]
        this = self.written[-1]
        for part in weighing.parts:
            found = this["weighers"][part.weigher] = {}
            for row in rows:
                raw, share, factor = part.of(row)
                found[states[row].host] = {"raw": raw, "normalized": share, "multiplier": factor}
        best = heaviest(weighing.totals, len(rows))
        this["order"] = [[states[row].host, float(weighing.totals[row])] for row in best]


def _names(hosts: HostTable, mask: Mask) -> list[str]:
    return [hosts.states[int(row)].host for row in np.flatnonzero(mask)]


def _is_forced(spec: RequestSpec) -> bool:
    return bool(spec.force_hosts or spec.force_nodes) and not spec.is_rebuild


def _are_ignored(hosts: HostTable, spec: RequestSpec, names: Sequence[str]) -> bool:
    """Whether all hosts that the request names are excluded too."""
    ignored = {name.lower() for name in spec.ignore_hosts}
    aimed = {name for name in names if spec.requested_host in ("", name)}
    if spec.requested_node:
        aimed &= {state.host for state in hosts.states if state.node == spec.requested_node}
    return {name.lower() for name in aimed} <= ignored


def _refuse_unreadable(stage: Stage, hosts: HostTable, spec: RequestSpec) -> None:
    for row in map(int, stage.rejected_rows):
        verdict = verdict_of(stage.filter, hosts, spec, row)
        if verdict.is_unreadable:
            raise UnreadableRound(f"{stage.filter.name} about {hosts.states[row].host}: {verdict.reason}.")
