"""Run filters one after another over the hosts that are left, and keep who turned away whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conductor.core.filter import Filter
from conductor.core.host_state import HostTable, Mask
from conductor.core.plugin_choice import FILTER
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.watching import (
    OUT_OF_TIME,
    Clock,
    Nonsense,
    NotAsked,
    PluginFault,
    Rules,
    Use,
    Watch,
    contained,
    describe,
    guarded,
    is_mask,
    readable,
)
from conductor.core.verdict import PASS, Verdict, reject

__all__ = [
    "Clock",
    "Filtering",
    "Nonsense",
    "PluginFault",
    "Rows",
    "Rules",
    "Stage",
    "ask",
    "describe",
    "passes_all",
    "run_filters",
    "timed_verdict",
    "verdict_of",
    "why",
]

Rows = NDArray[np.intp]
NO_ROWS: Rows = np.empty(0, np.intp)

REASONS_HELD = 1000  # of a filter that is asked host by host: it need not be asked again for them
LONGEST_REASON = 255


class Said(NamedTuple):
    """What a filter said of hosts that it turned away, as far as it need not be asked for it again.

    `of_rest` is for all that `of_rows` does not hold: what became of those about whom it could not be asked.
    """

    of_rows: Mapping[int, Verdict] = {}
    of_rest: Verdict | None = None

    def of(self, row: int) -> Verdict | None:
        return self.of_rows.get(row, self.of_rest)


NOTHING_SAID = Said()
Answer = tuple[Mask, Sequence[PluginFault], Said]
# The hosts that are left, None after a turn in the shadow, and their number; faults; what was said.
Turn = tuple[Mask | None, int, Sequence[PluginFault], Said]


class Stage(NamedTuple):  # a dataclass that is frozen takes four times as long to make
    """One filter's turn: the hosts that came in and those that were left, as masks and as counts."""

    filter: Filter
    before: int
    after: int
    came: Mask
    left: Mask
    seconds: float = 0.0
    said: Said = NOTHING_SAID

    @property
    def rejected(self) -> int:
        return self.before - self.after

    @property
    def rejected_rows(self) -> Rows:
        if self.left is self.came:
            return NO_ROWS
        return np.flatnonzero(self.came & ~self.left)


@dataclass(frozen=True)
class Filtering:
    """A whole turn of the pipeline: its stages in order, and which hosts are left.

    `aside` is the account of questions that are asked only to explain it: they have a time of their own.
    """

    stages: tuple[Stage, ...]
    passing: Mask
    faults: tuple[PluginFault, ...] = ()
    aside: Watch = field(default_factory=lambda: Watch(Rules()), compare=False, repr=False)


def run_filters(
    hosts: HostTable,
    spec: RequestSpec,
    filters: Sequence[Filter],
    rules: Rules,
    watch: Watch | None = None,
    *,
    among: Mask | None = None,
) -> Filtering:
    """Ask each filter, in order, about the hosts that all before it let pass: of all hosts, or of those in `among`.

    Filters in the shadow are asked once in a decision, about the hosts that come to them, and none of these goes.
    """
    watch = watch or Watch(rules)
    clock = rules.clock
    passing = hosts.everyone if among is None else among
    stages: list[Stage] = []
    faults: list[PluginFault] = []
    before = len(hosts) if among is None else int(np.count_nonzero(among))
    began = clock()
    for one in filters:
        turn = _plain_turn if before and _is_plain(one, watch) else _turn
        left, after, found, said = turn(one, hosts, spec, passing, before, watch)
        faults += found
        ended = clock()
        if turn is _plain_turn:
            watch.note(FILTER, one, ended - began, before - after)
        if left is not None:
            stages.append(Stage(one, before, after, passing, left, ended - began, said))
            passing, before = left, after
        began = ended
    return Filtering(tuple(stages), passing, tuple(faults), Watch(rules))


def _is_plain(one: Filter, watch: Watch) -> bool:
    return type(one).mask is not Filter.mask and watch.is_plain(FILTER, one)


def _plain_turn(one: Filter, hosts: HostTable, spec: RequestSpec, passing: Mask, before: int, watch: Watch) -> Turn:
    """One turn of a filter that may take its time."""
    everyone = hosts.everyone
    faults: Sequence[PluginFault] = ()
    said = NOTHING_SAID
    try:
        mask = one.mask_among(hosts, spec, passing)
        if mask is everyone or mask is passing:
            return passing, before, (), said
        _require_mask(mask, len(hosts))
    except BaseException as error:
        mask, faults, said = _by_rule(hosts, passing, watch.of(FILTER, one), watch, contained(error))
    left = mask if passing is everyone else np.logical_and(passing, mask)
    after = int(np.count_nonzero(left))
    return (passing if after == before else left), after, faults, said


def _turn(one: Filter, hosts: HostTable, spec: RequestSpec, passing: Mask, before: int, watch: Watch) -> Turn:
    """One turn of any filter, on its account."""
    use = watch.of(FILTER, one)
    if not before or (use.is_shadow and use.turns):
        return None if use.is_shadow else passing, before, (), NOTHING_SAID
    mask, faults, said = _answer(one, hosts, spec, passing=passing, watch=watch)
    left, after = _narrowed(passing, mask, before)
    if use.turns <= 1:
        use.rejected = before - after
    return None if use.is_shadow else left, after, faults, said


def _narrowed(passing: Mask, mask: Mask, before: int) -> tuple[Mask, int]:
    """The hosts that pass this mask too; the very mask that came where none went."""
    left = np.logical_and(passing, mask)
    after = int(np.count_nonzero(left))
    return (passing, before) if after == before else (left, after)


def passes_all(
    hosts: HostTable,
    spec: RequestSpec,
    filters: Sequence[Filter],
    *,
    row: int,
    rules: Rules,
    watch: Watch | None = None,
) -> tuple[bool, Sequence[PluginFault]]:
    """Whether the host in `row` passes every filter, asked one host at a time."""
    watch = watch or Watch(rules)
    faults: list[PluginFault] = []
    for one in filters:
        use = watch.of(FILTER, one)
        if use.is_shadow:
            continue
        try:
            passes = bool(timed_verdict(one, hosts, spec, row, watch))
        except Exception as error:
            faults.append(watch.fault(use, 1, error))
            passes = watch.lets_pass(use)
        if not passes:
            return False, faults
    return True, faults


def ask(
    one: Filter, hosts: HostTable, spec: RequestSpec, *, passing: Mask, rules: Rules, watch: Watch | None = None
) -> tuple[Mask, Sequence[PluginFault]]:
    """One filter's mask over all rows; only the rows in `passing` mean anything. Never raises."""
    mask, faults, _ = _answer(one, hosts, spec, passing=passing, watch=watch or Watch(rules))
    return mask, faults


def why(filtering: Filtering, stage: Stage, hosts: HostTable, spec: RequestSpec, row: int) -> Verdict:
    """The stage's verdict about a host that it turned away; what it said then, where it was asked about each."""
    verdict = stage.said.of(row)
    try:
        if verdict is None:
            verdict = timed_verdict(stage.filter, hosts, spec, row, filtering.aside)
    except Exception as error:
        return _excuse(error)
    if verdict or not verdict.reason:
        return reject("no reason given", need=verdict.need, have=verdict.have)
    return verdict


def verdict_of(one: Filter, hosts: HostTable, spec: RequestSpec, row: int) -> Verdict:
    """One filter about one host. Raises what the filter raises, or Nonsense."""
    verdict: object = guarded(one.host_passes, hosts.states[row], spec)
    if verdict is PASS:
        return PASS
    if isinstance(verdict, Verdict):
        return _checked(verdict)
    if isinstance(verdict, bool | np.bool_):
        return Verdict(bool(verdict))
    raise Nonsense(f"Verdict expected, not {type(verdict).__name__}")


def _checked(verdict: Verdict) -> Verdict:
    """A verdict whose parts can be kept and shown. Raises Nonsense for one whose parts are something else."""
    if not isinstance(verdict.passed, bool | np.bool_):
        raise Nonsense(f"Verdict with passed true or false expected, not {type(verdict.passed).__name__}")
    if verdict.passed:
        return PASS
    texts = (verdict.reason, verdict.need, verdict.have)
    if type(verdict) is Verdict and _is_plain_text(texts):  # as nearly all are
        return verdict
    reason, need, have = (readable(text, LONGEST_REASON) for text in texts)
    return Verdict(False, reason, need, have, bool(verdict.is_unreadable))


def _is_plain_text(texts: tuple[object, ...]) -> bool:
    """Whether all of it is short enough, and printable, as it is."""
    return all(type(text) is str and len(text) <= LONGEST_REASON and text.isprintable() for text in texts)


def timed_verdict(one: Filter, hosts: HostTable, spec: RequestSpec, row: int, watch: Watch) -> Verdict:
    """`verdict_of`, on the plugin's account. Raises NotAsked where it has none left."""
    use = watch.of(FILTER, one)
    refusal = watch.refusal(use)
    if refusal:
        raise NotAsked(refusal)
    if use.is_trusted:
        return verdict_of(one, hosts, spec, row)
    began = watch.rules.clock()
    try:
        return watch.call(use, verdict_of, one, hosts, spec, row)
    finally:
        watch.took(use, watch.rules.clock() - began)


def _answer(one: Filter, hosts: HostTable, spec: RequestSpec, *, passing: Mask, watch: Watch) -> Answer:
    """One turn of a filter, on its account. Never raises what the plugin raises."""
    use = watch.of(FILTER, one)
    refusal = watch.refusal(use)
    if refusal:
        return _by_rule(hosts, passing, use, watch, NotAsked(refusal))
    began = watch.rules.clock()
    asked = _ask_each if type(one).mask is Filter.mask else _ask_held
    mask, faults, said = asked(one, hosts, spec, passing=passing, watch=watch)
    if watch.turned(use, watch.rules.clock() - began) and not any(fault.error == OUT_OF_TIME for fault in faults):
        faults = [*faults, watch.late(use, int(np.count_nonzero(passing)))]
    return mask, faults, said


def _ask_held(one: Filter, hosts: HostTable, spec: RequestSpec, *, passing: Mask, watch: Watch) -> Answer:
    """Ask about all hosts at once one that is held to a time."""
    call = partial(watch.call, watch.of(FILTER, one), guarded)
    return _ask_all(one, hosts, spec, passing=passing, watch=watch, call=call)


def _ask_all(
    one: Filter,
    hosts: HostTable,
    spec: RequestSpec,
    *,
    passing: Mask,
    watch: Watch,
    call: Callable[..., Mask] = guarded,
) -> Answer:
    try:
        mask = call(one.mask_among, hosts, spec, passing)
        _require_mask(mask, len(hosts))
        return mask, (), NOTHING_SAID
    except Exception as error:
        return _by_rule(hosts, passing, watch.of(FILTER, one), watch, error)


def _require_mask(mask: Mask, count: int) -> None:
    if not is_mask(mask, count):
        raise Nonsense(f"mask of {count} bools expected")


class _Asked:
    """What a filter that is asked host by host says, in at most so many seconds by that clock."""

    def __init__(self, count: int, clock: Clock, seconds: float, lets_pass: bool) -> None:
        self.clock, self.seconds, self.lets_pass = clock, seconds, lets_pass
        self.mask = np.zeros(count, np.bool_)
        self.said: dict[int, Verdict] = {}
        self.judged = 0
        self.failed = 0
        self.last: Exception | None = None

    def note(self, row: int, verdict: Verdict, error: Exception | None = None) -> None:
        self.mask[row] = verdict.passed
        if not verdict.passed and len(self.said) < REASONS_HELD:
            self.said[row] = verdict
        self.judged += 1
        self.failed += error is not None
        self.last = error or self.last


def _ask_each(one: Filter, hosts: HostTable, spec: RequestSpec, *, passing: Mask, watch: Watch) -> Answer:
    """Ask host by host, until the plugin's time is up: the hosts that are left then go by the rule.

    So do all of them where it had to be stopped.
    """
    use, rows = watch.of(FILTER, one), np.flatnonzero(passing)
    try:
        new = _Asked(len(hosts), watch.rules.clock, watch.seconds_left(use), watch.lets_pass(use))
        asked = watch.call(use, _ask_rows, one, hosts, spec, rows, new)
    except Exception as error:
        return _by_rule(hosts, passing, use, watch, error)
    mask, said, failed = asked.mask, asked.said, _failed(use, asked.failed, asked.last, watch)
    if asked.judged == len(rows):
        return mask, failed, Said(said)
    mask[rows[asked.judged :]] = watch.lets_pass(use)
    reason = NotAsked(OUT_OF_TIME)
    return mask, [*failed, watch.fault(use, len(rows) - asked.judged, reason)], Said(said, _excuse(reason))


def _ask_rows(one: Filter, hosts: HostTable, spec: RequestSpec, rows: Rows, asked: _Asked) -> _Asked:
    ends = asked.clock() + asked.seconds
    for row in map(int, rows):
        if asked.clock() > ends:
            break
        try:
            asked.note(row, verdict_of(one, hosts, spec, row))
        except Exception as error:
            asked.note(row, PASS if asked.lets_pass else _excuse(error), error)
    return asked


def _failed(use: Use, count: int, last: Exception | None, watch: Watch) -> list[PluginFault]:
    return [watch.fault(use, count, last)] if last else []


def _by_rule(hosts: HostTable, passing: Mask, use: Use, watch: Watch, error: Exception) -> Answer:
    """All hosts get what the rule says for those that a filter fails about."""
    count = int(np.count_nonzero(passing))
    faults = [watch.fault(use, count, error)] if count else []
    return np.full(len(hosts), watch.lets_pass(use), np.bool_), faults, Said(of_rest=_excuse(error))


def _excuse(error: Exception) -> Verdict:
    """Why a host was turned away that nobody judged."""
    if isinstance(error, NotAsked):
        return reject(f"the filter could not be asked ({error})")
    return reject(f"the filter failed ({describe(error)})")
