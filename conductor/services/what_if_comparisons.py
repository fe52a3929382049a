"""One request asked twice: of the fleet and the plugins as they are, and of others; and what that changes.

Nothing is claimed or written. Hosts may be named by patterns, so that a rack can be taken away at once.
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
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling import what_if
from conductor.core.scheduling.balance import balance
from conductor.core.scheduling.needs import needs_of
from conductor.core.scheduling.select import Pipeline
from conductor.core.scheduling.what_if import FleetChange, LaunchTrial, NewHosts
from conductor.scheduler import hypotheses
from conductor.services import decision_replays, plugins
from conductor.services.plugins import Change
from conductor.services.values import BuildWish
from conductor.services.what_if import checked

WILDCARDS: Mapping[str, str] = {"*": ".*", "?": "."}
MOST_SERVERS = 1000
LARGEST_SUBSET = 1000


@dataclass(frozen=True)
class Question:
    """What is asked: that of a stored decision, or a wish, with other `image_properties` where some are given.

    `count` other than 0 asks a stored decision about so many servers instead of as many as there were.
    """

    wish: BuildWish | None = None
    decision_uuid: str = ""
    image_properties: Mapping[str, str] = field(default_factory=dict)
    count: int = 0


@dataclass(frozen=True)
class Supposition:
    """What would be different. Hosts are names or patterns; `plugins` are changes by kind and name.

    `subset` is among how many of the best hosts would be drawn; 0 leaves it.
    """

    without: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    opened: tuple[str, ...] = ()
    add: tuple[NewHosts, ...] = ()
    plugins: Mapping[str, Mapping[str, Change]] = field(default_factory=dict)
    subset: int = 0

    @property
    def is_none(self) -> bool:
        changes = any(self.plugins.values())
        return not (self.without or self.closed or self.opened or self.add or changes or self.subset)


@dataclass(frozen=True)
class Answer:
    """How it ends once: of `num_instances` so many were `placed`, and on which hosts (with how many on each)."""

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
    """How many hosts one filter turned away, before and after; None where it was not asked."""

    filter: str
    now: int | None
    then: int | None

    @property
    def by(self) -> int:
        return (self.then or 0) - (self.now or 0)


@dataclass(frozen=True)
class HostDifference:
    """A host among the heaviest: its weight and how many servers it gets; None where it does not remain."""

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
    """Both answers side by side; without a supposition `then` is None."""

    now: Answer
    then: Answer | None
    stages: list[StageDifference]
    hosts: list[HostDifference]
    taken_away: list[str]
    missing_cells: Mapping[str, str]
    snapshot_age_seconds: float


def compare(context: RequestContext, question: Question, supposition: Supposition) -> Comparison:
    """Ask twice. Raises Forbidden for others than operators, NotFound for a decision that was not kept, and Invalid
    naming what cannot be asked: a flavor, a zone, a host, a plugin that there is not."""
    if not context.is_admin:
        raise Forbidden("Only administrators ask what would be.")
    spec, uuids = _asked(context, question)
    as_is = hypotheses.now(spec)
    known = [state.host for state in as_is.table.states]
    change = _fleet(known, supposition)
    changed = None if supposition.is_none else what_if.changed(as_is.table, change)
    pipeline = supposed_pipeline(context, supposition)
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


def _asked(context: RequestContext, question: Question) -> tuple[RequestSpec, list[str]]:
    if question.decision_uuid:
        spec, uuids = decision_replays.question_of(context, question.decision_uuid)
        count = question.count or len(uuids)
    elif question.wish is not None:
        spec, uuids, count = checked(context, question.wish)[0], [], question.wish.max_count
    else:
        raise Invalid("Name a flavor and an image, or a decision.", field="flavor")
    if not 1 <= count <= MOST_SERVERS:
        raise Invalid(f"Ask about 1 to {MOST_SERVERS} servers.", field="count")
    if count != len(uuids):
        uuids = [f"asked-{number}" for number in range(count)]
    if question.image_properties:
        properties = {**spec.image.properties, **question.image_properties}
        spec = replace(spec, image=replace(spec.image, properties=properties))
    return replace(spec, num_instances=count), uuids


def _fleet(known: Sequence[str], supposition: Supposition) -> FleetChange:
    return FleetChange(
        add=supposition.add,
        remove=_matching(known, supposition.without, "without"),
        disable=_matching(known, supposition.closed, "closed"),
        enable=_matching(known, supposition.opened, "opened"),
    )


def _matching(known: Sequence[str], patterns: Sequence[str], field_name: str) -> tuple[str, ...]:
    """The hosts that fit any of the patterns. Raises Invalid for one that none fits."""
    found: dict[str, None] = {}
    for pattern in patterns:
        wanted = glob(pattern, WILDCARDS)
        fitting = [name for name in known if wanted.fits(name)]
        if not fitting:
            raise Invalid(f"No host fits {pattern[:60]}.", field=field_name)
        found |= dict.fromkeys(fitting)
    return tuple(found)


def supposed_table(table: HostTable, supposition: Supposition) -> HostTable:
    """The fleet as it is supposed. Raises Invalid naming the field of what there is not."""
    return what_if.changed(table, _fleet([state.host for state in table.states], supposition))


def supposed_pipeline(context: RequestContext, supposition: Supposition) -> Pipeline:
    """The plugins as they are supposed. Raises Invalid naming the field of what cannot be."""
    if not 0 <= supposition.subset <= LARGEST_SUBSET:
        raise Invalid(f"The best hosts to draw from are 1 to {LARGEST_SUBSET}.", field="subset")
    changes = {kind: named for kind, named in supposition.plugins.items() if named}
    found = hypotheses.pipeline_with(plugins.supposed(context, changes)) if changes else hypotheses.pipeline()
    return replace(found, host_subset_size=supposition.subset, recall=None) if supposition.subset else found


def _answer(
    table: HostTable, spec: RequestSpec, uuids: list[str], pipeline: Pipeline, missing_cells: Mapping[str, str]
) -> Answer:
    trial: LaunchTrial = what_if.launch(table, spec, uuids, pipeline=pipeline, missing_cells=missing_cells)
    decision = trial.decision
    return Answer(
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


def _stages(now: Answer, then: Answer | None) -> list[StageDifference]:
    """Every filter that was asked, in its order; what only one side asks stands where that side has it."""
    before = {stage["filter"]: stage["rejected"] for stage in now.funnel}
    after = {stage["filter"]: stage["rejected"] for stage in (then or now).funnel}
    names = list(dict.fromkeys((*after, *before)))
    return [StageDifference(name, before.get(name), after.get(name)) for name in names]


def _hosts(now: Answer, then: Answer | None) -> list[HostDifference]:
    """The heaviest of both sides, those of the supposed one first."""
    later = then or now
    before = {one["host"]: float(one["total"]) for one in now.weights}
    after = {one["host"]: float(one["total"]) for one in later.weights}
    names = list(dict.fromkeys((*after, *before, *later.hosts, *now.hosts)))
    return [
        HostDifference(name, before.get(name), after.get(name), now.hosts.get(name, 0), later.hosts.get(name, 0))
        for name in names
    ]
