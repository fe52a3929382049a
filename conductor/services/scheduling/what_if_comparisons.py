"""Comparisons of a request's result today and with hypothetical changes of the fleet and the plugins.

Nothing is claimed or written. Hosts may be named by patterns, so that a whole rack can be removed at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden, Invalid
from conductor.core.host_state import HostTable
from conductor.core.patterns import glob
from conductor.core.phrases import phrase
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling import what_if
from conductor.core.scheduling.balance import balance
from conductor.core.scheduling.needs import needs_of
from conductor.core.scheduling.select import Pipeline
from conductor.core.scheduling.what_if import FleetChange, LaunchTrial, NewHosts
from conductor.scheduler import hypotheses
from conductor.services.plugins import plugins
from conductor.services.plugins.plugins import PluginSettingsChange
from conductor.services.scheduling import replays
from conductor.services.scheduling.what_if import checked
from conductor.services.servers.types import InstanceCreate

WILDCARDS: Mapping[str, str] = {"*": ".*", "?": "."}
MOST_SERVERS = 1000
LARGEST_SUBSET = 1000


@dataclass(frozen=True)
class WhatIfRequest:
    """The request to evaluate: of a stored decision, or a new one; `image_properties` override some of the image's.

    `count` other than 0 replaces the number of servers of a stored decision.
    """

    requested: InstanceCreate | None = None
    decision_uuid: str = ""
    image_properties: Mapping[str, str] = field(default_factory=dict)
    count: int = 0


@dataclass(frozen=True)
class WhatIfChanges:
    """Hypothetical changes. Hosts are names or patterns; `plugins` are changes by kind and name.

    `subset` is the number of best hosts among which one is drawn; 0 leaves it.
    """

    without: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    opened: tuple[str, ...] = ()
    add: tuple[NewHosts, ...] = ()
    plugins: Mapping[str, Mapping[str, PluginSettingsChange]] = field(default_factory=dict)
    subset: int = 0

    @property
    def is_none(self) -> bool:
        changes = any(self.plugins.values())
        return not (self.without or self.closed or self.opened or self.add or changes or self.subset)


@dataclass(frozen=True)
class WhatIfResult:
    """One result: `placed` of `num_instances`, and their hosts with the number of servers on each."""

    fits: bool
    num_instances: int
    placed: int
    num_hosts: int
    num_fitting: int
    funnel: list[dict[str, Any]]
    hosts: Mapping[str, int]
    weights: list[dict[str, Any]]
    advice: list[str]
    faults: list[Mapping[str, Any]]
    balance: float | None = None  # how evenly the fleet would be filled: 100 evenly, 0 half full and half empty


@dataclass(frozen=True)
class StageDifference:
    """The numbers of hosts that one filter rejected, before and after. None where it was not run."""

    filter: str
    now: int | None
    then: int | None

    @property
    def by(self) -> int:
        return (self.then or 0) - (self.now or 0)


@dataclass(frozen=True)
class HostDifference:
    """A host among the best: its weight and its number of servers; None where it was rejected."""

    host: str
    weight_now: float | None
    weight_then: float | None
    servers_now: int
    servers_then: int

    @property
    def fate(self) -> str:
        if self.weight_now is None or self.weight_then is None:
            return "new" if self.weight_now is None else "gone"
        return "" if self.servers_now == self.servers_then else "other"


@dataclass(frozen=True)
class Comparison:
    """Both results side by side; without hypothetical changes `then` is None."""

    now: WhatIfResult
    then: WhatIfResult | None
    stages: list[StageDifference]
    hosts: list[HostDifference]
    taken_away: list[str]
    missing_cells: Mapping[str, str]
    snapshot_age_seconds: float


def compare(context: RequestContext, question: WhatIfRequest, what_if_changes: WhatIfChanges) -> Comparison:
    """Evaluate a request with and without changes.

    Raises Forbidden for callers other than operators, NotFound for a decision that was not stored, and Invalid naming
    what does not exist: a flavor, a zone, a host, a plugin.
    """
    if not context.is_admin:
        raise Forbidden(phrase("Only administrators can simulate changes."))
    spec, uuids = _asked(context, question)
    as_is = hypotheses.now(spec)
    known = [state.host for state in as_is.table.states]
    change = _fleet(known, what_if_changes)
    changed = None if what_if_changes.is_none else what_if.changed(as_is.table, change)
    pipeline = hypothetical_pipeline(context, what_if_changes)
    now = _answer(as_is.table, as_is.spec, uuids, hypotheses.pipeline(), as_is.missing_cells)
    then = None if changed is None else _answer(changed, as_is.spec, uuids, pipeline, as_is.missing_cells)
    return Comparison(
        now=now,
        then=then,
        stages=_stages(now, then),
        hosts=_hosts(now, then),
        taken_away=sorted({*change.remove, *change.disable}),
        missing_cells=as_is.missing_cells,
        snapshot_age_seconds=as_is.table.age_seconds,
    )


def _asked(context: RequestContext, question: WhatIfRequest) -> tuple[RequestSpec, list[str]]:
    if question.decision_uuid:
        spec, uuids = replays.get_request(context, question.decision_uuid)
        count = question.count or len(uuids)
    elif question.requested is not None:
        spec, uuids, count = checked(context, question.requested)[0], [], question.requested.max_count
    else:
        raise Invalid(phrase("Select a flavor and an image, or a decision."), field="flavor")
    if not 1 <= count <= MOST_SERVERS:
        raise Invalid(phrase("Enter a count from 1 to %(count)s.", count=MOST_SERVERS), field="count")
    if count != len(uuids):
        uuids = [f"asked-{number}" for number in range(count)]
    if question.image_properties:
        properties = {**spec.image.properties, **question.image_properties}
        spec = replace(spec, image=replace(spec.image, properties=properties))
    return replace(spec, num_instances=count), uuids


def _fleet(known: Sequence[str], what_if_changes: WhatIfChanges) -> FleetChange:
    return FleetChange(
        add=what_if_changes.add,
        remove=_matching(known, what_if_changes.without, "without"),
        disable=_matching(known, what_if_changes.closed, "closed"),
        enable=_matching(known, what_if_changes.opened, "opened"),
    )


def _matching(known: Sequence[str], patterns: Sequence[str], field_name: str) -> tuple[str, ...]:
    """Return the hosts that match any of the patterns. Raises Invalid for a pattern without a match."""
    found: dict[str, None] = {}
    for pattern in patterns:
        wanted = glob(pattern, WILDCARDS)
        fitting = [name for name in known if wanted.fits(name)]
        if not fitting:
            raise Invalid(phrase("No host matches %(pattern)s.", pattern=pattern[:60]), field=field_name)
        found |= dict.fromkeys(fitting)
    return tuple(found)


def hypothetical_table(table: HostTable, what_if_changes: WhatIfChanges) -> HostTable:
    """Return the fleet with hypothetical changes. Raises Invalid naming the field of an impossible one."""
    return what_if.changed(table, _fleet([state.host for state in table.states], what_if_changes))


def hypothetical_pipeline(context: RequestContext, what_if_changes: WhatIfChanges) -> Pipeline:
    """Return the plugins with hypothetical changes. Raises Invalid naming the field of an impossible one."""
    if not 0 <= what_if_changes.subset <= LARGEST_SUBSET:
        raise Invalid(
            phrase("Enter 1 to %(largest)s best hosts to select from.", largest=LARGEST_SUBSET), field="subset"
        )
    changes = {kind: named for kind, named in what_if_changes.plugins.items() if named}
    found = hypotheses.pipeline_with(plugins.hypothetical(context, changes)) if changes else hypotheses.pipeline()
    return (
        replace(found, host_subset_size=what_if_changes.subset, decision_cache=None)
        if what_if_changes.subset
        else found
    )


def _answer(
    table: HostTable, spec: RequestSpec, uuids: list[str], pipeline: Pipeline, missing_cells: Mapping[str, str]
) -> WhatIfResult:
    trial: LaunchTrial = what_if.launch(table, spec, uuids, pipeline=pipeline, missing_cells=missing_cells)
    decision = trial.decision
    return WhatIfResult(
        fits=decision.is_successful,
        num_instances=trial.num_instances,
        placed=trial.placed,
        num_hosts=decision.num_hosts,
        num_fitting=decision.funnel[-1].after if decision.funnel else decision.num_hosts,
        funnel=[stage._asdict() for stage in decision.funnel],
        hosts=dict(Counter(trial.hosts)),
        weights=[dict(one) for one in decision.weights],
        advice=list(decision.advice),
        faults=[dict(one) for one in decision.faults],
        balance=balance(table.states, Counter(trial.hosts), needs_of(spec).resources),
    )


def _stages(now: WhatIfResult, then: WhatIfResult | None) -> list[StageDifference]:
    """Return every filter that was run, in order; one that ran on one side only keeps its place there."""
    before = {stage["filter"]: stage["rejected"] for stage in now.funnel}
    after = {stage["filter"]: stage["rejected"] for stage in (then or now).funnel}
    names = list(dict.fromkeys((*after, *before)))
    return [StageDifference(name, before.get(name), after.get(name)) for name in names]


def _hosts(now: WhatIfResult, then: WhatIfResult | None) -> list[HostDifference]:
    """Return the best hosts of both sides, those of the hypothetical side first."""
    later = then or now
    before = {one["host"]: float(one["total"]) for one in now.weights}
    after = {one["host"]: float(one["total"]) for one in later.weights}
    names = list(dict.fromkeys((*after, *before, *later.hosts, *now.hosts)))
    return [
        HostDifference(name, before.get(name), after.get(name), now.hosts.get(name, 0), later.hosts.get(name, 0))
        for name in names
    ]
