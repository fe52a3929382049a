"""Values of scheduling decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class DecisionView:
    """A stored scheduling decision. A tenant's view has no host names: `hosts` and `weights` are then empty.

    `funnel`: [{"filter", "before", "after", "rejected"}] in order, starting with placement; before it `closed_cells` if
    cells are disabled.
    `hosts`: [{"host", "cell", "zone", "is_simulated", "passed", "rejected_by", "reason", "need", "have"}].
    `weights`: [{"host", "total", "parts": [{"weigher", "raw", "normalized", "multiplier", "weight"}]}], best first.
    `selections`: per instance: {"instance_uuid", "host", "cell", "fate", "reason", "alternates": [{"host", "fate",
    "reason"}]}.
    `nearest`: hosts that only one filter rejected: {"host", "cell", "rejected_by", "reason", "need", "have",
    "shortfall"}.
    `faults`: plugins that failed: {"kind", "plugin", "count", "error", "consequence"}.
    `lost_races`: earlier claims of this request that came too late: {"host", "reason", "resource_class", "taken_by":
    the consumer that was faster, "taken_by_run": its launch}. `missing_cells`: cell → reason.
    `advice`: sentences for the requester, e.g. "12 of 17 hosts: image needs qemu, host runs fake".
    `request`: the request, as far as it was stored. `is_detailed`: all details were stored, not only the choice.
    `can_be_replayed`: the hosts were stored for a replay. `drawn_among`: the number of best hosts among which one was
    drawn, 1 where the best was chosen. `scheduler`: the process that decided, for operators.
    """

    uuid: str
    run_uuid: str
    is_successful: bool
    created_at: datetime
    seed: int
    snapshot_age_seconds: float
    num_instances: int
    funnel: list[dict[str, Any]]
    advice: list[str]
    hosts: list[dict[str, Any]] = field(default_factory=list)
    weights: list[dict[str, Any]] = field(default_factory=list)
    selections: list[dict[str, Any]] = field(default_factory=list)
    nearest: list[dict[str, Any]] = field(default_factory=list)
    faults: list[dict[str, Any]] = field(default_factory=list)
    lost_races: list[dict[str, Any]] = field(default_factory=list)
    missing_cells: Mapping[str, str] = field(default_factory=dict)
    instance_uuids: list[str] = field(default_factory=list)
    project_id: str = ""
    num_hosts: int = 0
    num_lost_races: int = 0
    plugins: str = ""
    milliseconds: float = 0.0
    is_detailed: bool = True
    can_be_replayed: bool = False
    drawn_among: int = 1
    scheduler: str = ""
    request: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class DecisionSummary:
    """A decision in a list."""

    uuid: str
    run_uuid: str
    project_id: str
    is_successful: bool
    created_at: datetime
    num_instances: int
    num_hosts: int
    instance_uuids: list[str]
    advice: list[str]


@dataclass(frozen=True, kw_only=True)
class DecisionQuery:
    """Filters for decisions; empty fields do not narrow. `outcome` is successful or failed.

    With `is_placement`, checks of the host of a server that stays are left out.
    """

    run_uuid: str = ""
    instance_uuid: str = ""
    project_id: str = ""
    outcome: str = ""
    is_placement: bool = False
    since: datetime | None = None
    until: datetime | None = None
    limit: int = 100
    marker: str = ""


@dataclass(frozen=True)
class Matrix:
    """Every filter's result for every host, on the hosts as the decision saw them; one page of the hosts.

    `filters`: [{"filter", "rejected", "alone"}], counted over all hosts. `hosts`: [{"host", "node", "cell", "zone",
    "misses", "shortfall", "cells": [{"filter", "outcome", "reason", "need", "have"}]}], fewest misses first.
    `is_partial`: of a large fleet only the hosts that the decision names are stored. `is_same_plugins`: today's plugins
    are those that decided.
    """

    filters: list[dict[str, Any]]
    hosts: list[dict[str, Any]]
    num_hosts: int
    is_partial: bool
    is_same_plugins: bool
    has_more: bool = False


@dataclass(frozen=True)
class HostExplained:
    """An explanation why a host was or was not chosen: every filter's result, its rank and weights where it fits, and
    remedies.
    """

    host: str
    was_chosen: bool
    is_partial: bool
    is_same_plugins: bool
    nodes: list[dict[str, Any]]


@dataclass(frozen=True)
class Remedies:
    """The distance of a request from a fit: hosts that one or two filters rejected (for operators), and remedies.

    `fits_if`: [{"kind", "text", "change", "num_hosts"}], the smallest change first; `fleet` changes are for operators.
    """

    nearest: list[dict[str, Any]]
    fits_if: list[dict[str, Any]]
    is_partial: bool
    is_same_plugins: bool


@dataclass(frozen=True)
class Evaluation:
    """A replayed decision: on the hosts as they were (`then`) or as they are (`now`), with today's plugins.

    `chosen` names hosts, for operators. `differs`: the result is another one than it was. Nothing was claimed.
    """

    fleet: str
    is_partial: bool
    is_same_plugins: bool
    is_successful: bool
    num_instances: int
    placed: int
    num_hosts: int
    funnel: list[dict[str, Any]]
    advice: list[str]
    differs: bool
    chosen: list[str] = field(default_factory=list)
