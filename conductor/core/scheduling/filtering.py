"""Runs filters in order on the remaining hosts, and records which filter rejected which hosts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conductor.core.filter import Filter
from conductor.core.host_state import HostTable, Mask
from conductor.core.messages import Message, message, word
from conductor.core.plugin_choice import FILTER
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.watching import (
    OUT_OF_TIME,
    Clock,
    InvalidResult,
    NotCalled,
    PluginFault,
    PluginUse,
    Rules,
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
    "InvalidResult",
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

REASONS_HELD = 1000  # verdicts kept per filter that runs host by host
LONGEST_REASON = 255
TEXT_TYPES = (str, Message)


class FilterVerdicts(NamedTuple):
    """Verdicts of a filter on rejected hosts, as far as they are kept.

    `of_rest` applies to all rows that `of_rows` lacks: hosts that the filter could not judge.
    """

    of_rows: Mapping[int, Verdict] = {}
    of_rest: Verdict | None = None

    def of(self, row: int) -> Verdict | None:
        return self.of_rows.get(row, self.of_rest)


NO_VERDICTS = FilterVerdicts()
Answer = tuple[Mask, Sequence[PluginFault], FilterVerdicts]
# The remaining hosts, None after a dry run, and their number; faults; the kept verdicts.
Turn = tuple[Mask | None, int, Sequence[PluginFault], FilterVerdicts]


class Stage(NamedTuple):  # a frozen dataclass takes four times as long to create
    """The run of one filter: the hosts before and after it, as masks and as counts."""

    filter: Filter
    before: int
    after: int
    came: Mask
    left: Mask
    seconds: float = 0.0
    verdicts: FilterVerdicts = NO_VERDICTS

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
    """Result of all filters: the stages in order, and the remaining hosts.

    `aside` accounts for calls that only explain the result. They have a time budget of their own.
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
    """Run each filter, in order, on the hosts that passed the filters before it.

    The first filter gets all hosts, or those in `among`. Shadow filters run once per decision, on the hosts that reach
    them, and reject none.
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
        left, after, found, verdicts = turn(one, hosts, spec, passing, before, watch)
        faults += found
        ended = clock()
        if turn is _plain_turn:
            watch.note(FILTER, one, ended - began, before - after)
        if left is not None:
            stages.append(Stage(one, before, after, passing, left, ended - began, verdicts))
            passing, before = left, after
        began = ended
    return Filtering(tuple(stages), passing, tuple(faults), Watch(rules))


def _is_plain(one: Filter, watch: Watch) -> bool:
    return type(one).mask is not Filter.mask and watch.is_plain(FILTER, one)


def _plain_turn(one: Filter, hosts: HostTable, spec: RequestSpec, passing: Mask, before: int, watch: Watch) -> Turn:
    """Run a filter without a time limit."""
    everyone = hosts.everyone
    faults: Sequence[PluginFault] = ()
    verdicts = NO_VERDICTS
    try:
        mask = one.mask_among(hosts, spec, passing)
        if mask is everyone or mask is passing:
            return passing, before, (), verdicts
        _require_mask(mask, len(hosts))
    except BaseException as error:
        mask, faults, verdicts = _by_rule(hosts, passing, watch.of(FILTER, one), watch, contained(error))
    left = mask if passing is everyone else np.logical_and(passing, mask)
    after = int(np.count_nonzero(left))
    return (passing if after == before else left), after, faults, verdicts


def _turn(one: Filter, hosts: HostTable, spec: RequestSpec, passing: Mask, before: int, watch: Watch) -> Turn:
    """Run a filter, and account for its time."""
    use = watch.of(FILTER, one)
    if not before or (use.is_shadow and use.turns):
        return None if use.is_shadow else passing, before, (), NO_VERDICTS
    mask, faults, verdicts = _answer(one, hosts, spec, passing=passing, watch=watch)
    left, after = _narrowed(passing, mask, before)
    if use.turns <= 1:
        use.rejected = before - after
    return None if use.is_shadow else left, after, faults, verdicts


def _narrowed(passing: Mask, mask: Mask, before: int) -> tuple[Mask, int]:
    """Return the hosts that pass this mask too, and their number. It is the same mask object where none was
    rejected.
    """
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
    """Return whether the host in `row` passes every filter, and the faults. Only this host is judged."""
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
    """Return one filter's mask over all rows; only the rows in `passing` are meaningful. Never raises."""
    mask, faults, _ = _answer(one, hosts, spec, passing=passing, watch=watch or Watch(rules))
    return mask, faults


def why(filtering: Filtering, stage: Stage, hosts: HostTable, spec: RequestSpec, row: int) -> Verdict:
    """Return the stage's verdict on a rejected host. It is the kept one where the filter ran host by host."""
    verdict = stage.verdicts.of(row)
    try:
        if verdict is None:
            verdict = timed_verdict(stage.filter, hosts, spec, row, filtering.aside)
    except Exception as error:
        return _excuse(error)
    if verdict or not verdict.reason:
        return reject(message("reject.no_reason"), need=verdict.need, have=verdict.have)
    return verdict


def verdict_of(one: Filter, hosts: HostTable, spec: RequestSpec, row: int) -> Verdict:
    """Return one filter's verdict on one host. Raises what the filter raises, or Nonsense."""
    verdict: object = guarded(one.host_passes, hosts.states[row], spec)
    if verdict is PASS:
        return PASS
    if isinstance(verdict, Verdict):
        return _checked(verdict)
    if isinstance(verdict, bool | np.bool_):
        return Verdict(bool(verdict))
    raise InvalidResult(f"Verdict expected, not {type(verdict).__name__}")


def _checked(verdict: Verdict) -> Verdict:
    """Return a verdict whose parts can be stored and shown. Raises InvalidResult where their types are wrong."""
    if not isinstance(verdict.passed, bool | np.bool_):
        raise InvalidResult(f"Verdict with passed true or false expected, not {type(verdict.passed).__name__}")
    if verdict.passed:
        return PASS
    texts = (verdict.reason, verdict.need, verdict.have)
    if type(verdict) is Verdict and _is_plain_text(texts):  # the typical case
        return verdict
    reason, need, have = (readable(text, LONGEST_REASON) for text in texts)
    return Verdict(False, reason, need, have, bool(verdict.is_unreadable))


def _is_plain_text(texts: tuple[object, ...]) -> bool:
    """Whether all texts are short and printable as they are."""
    return all(_is_short(text) for text in texts)


def _is_short(text: object) -> bool:
    if not isinstance(text, str) or type(text) not in TEXT_TYPES:
        return False
    return len(text) <= LONGEST_REASON and text.isprintable()


def timed_verdict(one: Filter, hosts: HostTable, spec: RequestSpec, row: int, watch: Watch) -> Verdict:
    """Return a filter's verdict on one host, and account for its time. Raises as `verdict_of`, and NotCalled if none is
    left.
    """
    use = watch.of(FILTER, one)
    refusal = watch.refusal(use)
    if refusal:
        raise NotCalled(refusal)
    if use.is_trusted:
        return verdict_of(one, hosts, spec, row)
    began = watch.rules.clock()
    try:
        return watch.call(use, verdict_of, one, hosts, spec, row)
    finally:
        watch.took(use, watch.rules.clock() - began)


def _answer(one: Filter, hosts: HostTable, spec: RequestSpec, *, passing: Mask, watch: Watch) -> Answer:
    """Run a filter, and account for its time. Exceptions of the plugin become faults."""
    use = watch.of(FILTER, one)
    refusal = watch.refusal(use)
    if refusal:
        return _by_rule(hosts, passing, use, watch, NotCalled(refusal))
    began = watch.rules.clock()
    requested = _ask_each if type(one).mask is Filter.mask else _ask_held
    mask, faults, verdicts = requested(one, hosts, spec, passing=passing, watch=watch)
    if watch.turned(use, watch.rules.clock() - began) and not any(fault.error == OUT_OF_TIME for fault in faults):
        faults = [*faults, watch.late(use, int(np.count_nonzero(passing)))]
    return mask, faults, verdicts


def _ask_held(one: Filter, hosts: HostTable, spec: RequestSpec, *, passing: Mask, watch: Watch) -> Answer:
    """Run a filter with a time limit on all hosts at once."""
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
        return mask, (), NO_VERDICTS
    except Exception as error:
        return _by_rule(hosts, passing, watch.of(FILTER, one), watch, error)


def _require_mask(mask: Mask, count: int) -> None:
    if not is_mask(mask, count):
        raise InvalidResult(f"mask of {count} bools expected")


class _HostVerdicts:
    """Verdicts of a filter that runs host by host, for at most `seconds` by the clock `clock`."""

    def __init__(self, count: int, clock: Clock, seconds: float, lets_pass: bool) -> None:
        self.clock, self.seconds, self.lets_pass = clock, seconds, lets_pass
        self.mask = np.zeros(count, np.bool_)
        self.verdicts: dict[int, Verdict] = {}
        self.judged = 0
        self.failed = 0
        self.last: Exception | None = None

    def note(self, row: int, verdict: Verdict, error: Exception | None = None) -> None:
        self.mask[row] = verdict.passed
        if not verdict.passed and len(self.verdicts) < REASONS_HELD:
            self.verdicts[row] = verdict
        self.judged += 1
        self.failed += error is not None
        self.last = error or self.last


def _ask_each(one: Filter, hosts: HostTable, spec: RequestSpec, *, passing: Mask, watch: Watch) -> Answer:
    """Run a filter host by host, until its time is up.

    The remaining hosts are treated by the rule for failures. So are all hosts where the filter had to be stopped.
    """
    use, rows = watch.of(FILTER, one), np.flatnonzero(passing)
    try:
        new = _HostVerdicts(len(hosts), watch.rules.clock, watch.seconds_left(use), watch.lets_pass(use))
        requested = watch.call(use, _ask_rows, one, hosts, spec, rows, new)
    except Exception as error:
        return _by_rule(hosts, passing, use, watch, error)
    mask, verdicts, failed = requested.mask, requested.verdicts, _failed(use, requested.failed, requested.last, watch)
    if requested.judged == len(rows):
        return mask, failed, FilterVerdicts(verdicts)
    mask[rows[requested.judged :]] = watch.lets_pass(use)
    reason = NotCalled(OUT_OF_TIME)
    faults = [*failed, watch.fault(use, len(rows) - requested.judged, reason)]
    return mask, faults, FilterVerdicts(verdicts, _excuse(reason))


def _ask_rows(one: Filter, hosts: HostTable, spec: RequestSpec, rows: Rows, requested: _HostVerdicts) -> _HostVerdicts:
    ends = requested.clock() + requested.seconds
    for row in map(int, rows):
        if requested.clock() > ends:
            break
        try:
            requested.note(row, verdict_of(one, hosts, spec, row))
        except Exception as error:
            requested.note(row, PASS if requested.lets_pass else _excuse(error), error)
    return requested


def _failed(use: PluginUse, count: int, last: Exception | None, watch: Watch) -> list[PluginFault]:
    return [watch.fault(use, count, last)] if last else []


def _by_rule(hosts: HostTable, passing: Mask, use: PluginUse, watch: Watch, error: Exception) -> Answer:
    """Let all hosts pass or reject them all, by the rule for hosts for which the filter fails."""
    count = int(np.count_nonzero(passing))
    faults = [watch.fault(use, count, error)] if count else []
    return np.full(len(hosts), watch.lets_pass(use), np.bool_), faults, FilterVerdicts(of_rest=_excuse(error))


def _excuse(error: Exception) -> Verdict:
    """Return the verdict on a host that was rejected without being judged."""
    if isinstance(error, NotCalled):
        return reject(message("reject.filter_not_run", error=word(str(error))))
    return reject(message("reject.filter_failed", error=describe(error)))
