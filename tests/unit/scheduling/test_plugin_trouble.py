"""Plugins that raise, sleep, return nonsense or modify their arguments: the decision continues by the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.core.filter import Filter
from conductor.core.host_state import HostState, HostTable
from conductor.core.request_spec import RequestSpec
from conductor.core.scheduling.decision import explain
from conductor.core.scheduling.filtering import Rules
from conductor.core.scheduling.select import Pipeline, SelectionResult, decide
from conductor.core.verdict import PASS, Verdict, reject
from conductor.core.weigher import Weigher
from tests.unit.scheduling.fleets import SHIPPED, host, spec

FLEET = tuple(host(f"host-{index}", memory_mb=16384 + 1024 * index) for index in range(6))
TRUSTED = frozenset(
    {("filter", one.name) for one in SHIPPED.filters} | {("weigher", one.name) for one in SHIPPED.weighers}
)
RULES = Rules(trusted=TRUSTED)
REQUEST = spec(extra_specs={"quota:cpu_shares": "2"}, scheduler_hints={"rack": ["r1"]}, num_instances=2)


class Time:
    """A clock that sleeping advances."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Quit(BaseException):
    """An exception that `except Exception` does not catch."""


def made(base: type[Any], name: str, **methods: Callable[..., Any]) -> Any:
    return type(name, (base,), {"name": name, **methods})()


def raising(error: BaseException) -> Callable[..., Any]:
    def raises(*args: Any) -> Any:
        raise error

    return raises


def answering(answer: Any) -> Callable[..., Any]:
    return lambda *args: answer


def run(
    *plugins: Filter | Weigher, rules: Rules = RULES, request: RequestSpec = REQUEST, count: int = 2
) -> SelectionResult:
    """Return the result of a request for `count` instances with these plugins besides the built-in ones."""
    chain = Pipeline(
        filters=(*(one for one in plugins if isinstance(one, Filter)), *SHIPPED.filters),
        weighers=(*(one for one in plugins if isinstance(one, Weigher)), *SHIPPED.weighers),
        rules=rules,
    )
    uuids = [f"new-{index}" for index in range(count)]
    return decide(HostTable.from_states(FLEET), request, uuids, pipeline=chain, seed=7)


EXPECTED = run()
LIAR = Verdict("no", "x")  # type: ignore[arg-type]

# Failures of a broken filter, by its method, with their names in the decision.
BROKEN_FILTERS = {
    "raises about each": ("host_passes", raising(RuntimeError("/secret/path")), "RuntimeError"),
    "leaves": ("host_passes", raising(SystemExit(3)), "SystemExit"),
    "raises an uncaught exception": ("host_passes", raising(Quit()), "Quit"),
    "runs in circles": ("host_passes", raising(RecursionError()), "RecursionError"),
    "says a word": ("host_passes", answering("yes"), "Verdict expected, not str"),
    "says nothing": ("host_passes", answering(None), "Verdict expected, not NoneType"),
    "says no number": ("host_passes", answering(float("nan")), "Verdict expected, not float"),
    "passes by a word": ("host_passes", answering(LIAR), "Verdict with passed true or false expected, not str"),
    "gives a thing as reason": ("host_passes", answering(Verdict(False, object())), "text expected, not object"),  # type: ignore[arg-type]
    "raises about all": ("mask", raising(KeyError("/secret/path")), "KeyError"),
    "leaves about all": ("mask", raising(SystemExit(3)), "SystemExit"),
    "too few": ("mask", answering(np.ones(2, np.bool_)), "mask of 6 bools expected"),
    "numbers": ("mask", answering(np.ones(6)), "mask of 6 bools expected"),
    "no array": ("mask", answering([True] * 6), "mask of 6 bools expected"),
    "a square": ("mask", answering(np.ones((6, 6), np.bool_)), "mask of 6 bools expected"),
    "an array of its own kind": ("mask", answering(np.ma.ones(6, np.bool_)), "mask of 6 bools expected"),
    "nothing": ("mask", answering(None), "mask of 6 bools expected"),
}

BROKEN_WEIGHERS = {
    "raises": (raising(RuntimeError("/secret/path")), "RuntimeError"),
    "leaves": (raising(SystemExit(3)), "SystemExit"),
    "raises an uncaught exception": (raising(Quit()), "Quit"),
    "nothing": (answering(None), "column of 6 numbers expected"),
    "too few": (answering(np.ones(2)), "column of 6 numbers expected"),
    "words": (answering(np.array(["a"] * 6)), "column of 6 numbers expected"),
    "things": (answering(np.array([object()] * 6)), "column of 6 numbers expected"),
    "no number": (answering(np.array([1, 2, 3, 4, 5, np.nan])), "a weight is not finite"),
    "endless": (answering(np.array([1, 2, 3, 4, 5, np.inf])), "a weight is not finite"),
    "an array of its own kind": (answering(np.ma.ones(6)), "column of 6 numbers expected"),
}


@pytest.mark.parametrize(("method", "broken", "error"), BROKEN_FILTERS.values(), ids=BROKEN_FILTERS)
def test_a_broken_filter_turns_away_by_rule_or_is_as_if_it_were_not_there(
    method: str, broken: Callable[..., Any], error: str
) -> None:
    judge = made(Filter, "Broken", host_passes=answering(PASS))
    setattr(type(judge), method, broken)
    closed = run(judge)
    assert closed.picks == ()
    assert [(one.plugin, one.error, one.consequence) for one in closed.faults] == [("Broken", error, "rejected")]
    opened = run(judge, rules=replace(RULES, fail_open=frozenset({"Broken"})))
    assert (opened.picks, opened.alternates) == (EXPECTED.picks, EXPECTED.alternates)
    assert {(one.plugin, one.error, one.consequence) for one in opened.faults} == {("Broken", error, "let pass")}
    for outcome in (closed, opened):
        assert "secret" not in repr(explain(outcome))


@pytest.mark.parametrize(("broken", "error"), BROKEN_WEIGHERS.values(), ids=BROKEN_WEIGHERS)
def test_a_broken_weigher_is_as_if_it_were_not_there(broken: Callable[..., Any], error: str) -> None:
    outcome = run(made(Weigher, "Broken", weigh=broken))
    assert (outcome.picks, outcome.alternates) == (EXPECTED.picks, EXPECTED.alternates)
    assert {(one.plugin, one.error, one.consequence) for one in outcome.faults} == {("Broken", error, "left out")}


@given(
    troubled=st.sets(st.sampled_from(range(6))),
    turned_away=st.sets(st.sampled_from(range(6))),
    is_open=st.booleans(),
)
def test_hosts_for_which_a_filter_does_not_fail_have_its_verdicts(
    troubled: set[int], turned_away: set[int], is_open: bool
) -> None:
    def judge(self: Filter, state: HostState, request: RequestSpec) -> Verdict:
        number = int(state.host[-1])
        if number in troubled:
            raise ValueError(number)
        return reject("not this one") if number in turned_away else PASS

    rules = replace(RULES, fail_open=frozenset({"Moody"} if is_open else ()))
    outcome = run(made(Filter, "Moody", host_passes=judge), rules=rules, count=1)
    gone = turned_away - troubled | (set() if is_open else troubled)
    left = run(request=replace(REQUEST, ignore_hosts=tuple(f"host-{number}" for number in gone)), count=1)
    assert outcome.picks == left.picks
    assert sum(fault.count for fault in outcome.faults) == len(troubled)


def test_interrupts_of_the_thread_are_passed_on() -> None:
    with pytest.raises(KeyboardInterrupt):
        run(made(Filter, "Broken", host_passes=raising(KeyboardInterrupt())))


def sleeper(clock: Time, seconds: float, then: Any) -> Callable[..., Any]:
    def sleeps(*args: Any) -> Any:
        clock.now += seconds
        return then

    return sleeps


def timed(**values: Any) -> tuple[Time, Rules]:
    clock = Time()
    return clock, replace(RULES, clock=clock, **values)


def test_a_filter_that_is_called_per_host_stops_at_its_time_limit() -> None:
    clock, rules = timed(plugin_seconds=2.5)
    slow = made(Filter, "Slow", host_passes=sleeper(clock, 1.0, PASS), runs_once_per_request=True)
    outcome = run(slow, rules=rules, count=1)
    assert clock.now == 103.0  # three hosts, of six
    [fault] = outcome.faults
    assert (fault.plugin, fault.count, fault.error, fault.consequence) == ("Slow", 3, "out of time", "rejected")
    assert outcome.shown.filtering.passing.tolist() == [True] * 3 + [False] * 3
    use = next(one for one in outcome.uses if one.name == "Slow")
    assert (use.overruns, use.faults, use.seconds, use.rejected) == (1, 0, 3.0, 3)
    decision = explain(outcome)
    assert clock.now == 103.0  # to explain it takes no time of it
    assert {(one.host, one.reason) for one in decision.hosts if not one.passed} == {
        (f"host-{number}", "the filter was not run (out of time)") for number in (3, 4, 5)
    }
    opened = run(slow, rules=replace(rules, fail_open=frozenset({"Slow"})), count=1)
    assert opened.shown.filtering.passing.all()


def test_verdicts_computed_host_by_host_are_used_again() -> None:
    clock, rules = timed(plugin_seconds=100.0)
    slow = made(Filter, "Slow", host_passes=sleeper(clock, 1.0, reject("too slow a rack")))
    outcome = run(slow, rules=rules, count=1)
    requested = clock.now
    decision = explain(outcome)
    assert {one.reason for one in decision.hosts} == {"too slow a rack"}
    assert clock.now == requested + 6 + 5  # only to find the nearest hosts, and the distance of five of these


def test_a_whole_mask_that_comes_late_is_used_and_named_and_not_requested_again() -> None:
    clock, rules = timed(plugin_seconds=2.0)
    mask = np.array([True] * 5 + [False])
    slow = made(Filter, "Slow", host_passes=answering(PASS), mask=sleeper(clock, 3.0, mask))
    outcome = run(slow, rules=rules, count=1)
    [fault] = outcome.faults
    assert (fault.error, fault.consequence, fault.count) == ("took too long", "its answer was used", 6)
    assert outcome.shown.filtering.passing.tolist() == mask.tolist()
    batch = run(slow, rules=rules, count=2)  # for the second instance it would have to judge the first one's host again
    assert (batch.picks, batch.alternates) == ((4, 3), {"cell1": []})
    assert {fault.error for fault in batch.faults} == {"took too long", "out of time"}


def test_a_weigher_that_comes_late_is_used_once_and_then_left_out() -> None:
    clock, rules = timed(plugin_seconds=2.0)
    column = np.arange(6.0)[::-1].copy()
    slow = made(Weigher, "Slow", weigh=sleeper(clock, 3.0, column), multiplier=100.0)
    outcome = run(slow, rules=rules)
    assert {fault.error for fault in outcome.faults} == {"took too long", "out of time"}
    assert len(outcome.picks) == 2


def test_only_the_plugin_that_uses_up_the_decisions_time_is_blamed() -> None:
    clock, rules = timed(plugin_seconds=4.0, decision_seconds=3.0)
    first = made(Filter, "First", host_passes=answering(PASS), mask=sleeper(clock, 5.0, np.ones(6, np.bool_)))
    second = made(Filter, "Second", host_passes=answering(PASS))
    outcome = run(first, second, rules=rules, count=1)
    assert outcome.picks == ()
    assert [(one.plugin, one.error) for one in outcome.faults] == [
        ("First", "took too long"),
        ("Second", "no time left for it in this decision"),
    ]
    uses = {one.name: one for one in outcome.uses}
    assert (uses["First"].overruns, uses["Second"].overruns) == (1, 0)


def test_built_in_plugins_have_no_time_limit() -> None:
    clock, rules = timed(plugin_seconds=1.0, decision_seconds=1.0)
    slow = made(Filter, "Slow", host_passes=sleeper(clock, 1.0, PASS))
    outcome = run(slow, rules=replace(rules, trusted=TRUSTED | {("filter", "Slow")}))
    assert (outcome.picks, outcome.faults) == (EXPECTED.picks, ())


@pytest.mark.parametrize("is_open", [True, False])
def test_a_quarantined_plugin_is_not_called(is_open: bool) -> None:
    rules = replace(
        RULES,
        quarantined=frozenset({("filter", "Loud"), ("weigher", "Heavy")}),
        fail_open=frozenset({"Loud"} if is_open else ()),
    )
    called: list[Any] = []
    loud = made(Filter, "Loud", host_passes=lambda *args: called.append(args))
    heavy = made(Weigher, "Heavy", weigh=lambda *args: called.append(args))
    outcome = run(loud, heavy, rules=rules)
    explain(outcome)
    assert called == []
    assert outcome.picks == (EXPECTED.picks if is_open else ())
    assert {fault.error for fault in outcome.faults} == {"in quarantine"}
    assert all(one.turns == 0 for one in outcome.uses if one.name in ("Loud", "Heavy"))


def test_a_plugin_in_dry_run_is_called_once_and_decides_nothing() -> None:
    rules = replace(RULES, shadows=frozenset({("filter", "Strict"), ("weigher", "Odd"), ("filter", "Broken")}))
    called: list[str] = []

    def judge(self: Filter, state: HostState, request: RequestSpec) -> Verdict:
        called.append(state.host)
        return reject("no") if state.host != "host-0" else PASS

    strict = made(Filter, "Strict", host_passes=judge)
    odd = made(Weigher, "Odd", weigh=answering(np.array([9.0, 0, 0, 0, 0, 0])), multiplier=1000.0)
    broken = made(Filter, "Broken", host_passes=raising(ValueError()))
    outcome = run(strict, broken, odd, rules=rules)
    assert (outcome.picks, outcome.alternates) == (EXPECTED.picks, EXPECTED.alternates)
    assert called == [f"host-{number}" for number in range(6)]
    uses = {one.name: one for one in outcome.uses}
    assert (uses["Strict"].rejected, uses["Strict"].is_shadow) == (5, True)
    assert uses["Odd"].would_choose == "host-0"
    assert [(one.plugin, one.consequence) for one in outcome.faults] == [("Broken", "none, it only watches")]
    decision = explain(outcome)
    assert not {"Strict", "Broken"} & {stage.filter for stage in decision.funnel}


def parts(value: Any) -> Iterator[Any]:
    """Everything that can be reached from a host, a request or a table by its public names."""
    yield value
    if isinstance(value, dict):
        for part in value.values():
            yield from parts(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from parts(part)
    elif hasattr(type(value), "__dataclass_fields__"):
        for name in type(value).__dataclass_fields__:
            if not name.startswith("_"):
                yield from parts(getattr(value, name))


def spoil(value: Any) -> None:
    """Try to change an object by every public means."""
    ways: Sequence[Callable[[], Any]] = (
        lambda: value.update(x=1),
        lambda: value.__setitem__("x", 1),
        lambda: value.clear(),
        lambda: value.pop(next(iter(value))),
        lambda: value.append(1),
        lambda: value.__setitem__(0, 0),
        lambda: value.__iadd__([1]),
        lambda: value.sort(),
        lambda: setattr(value, "host", "x"),
        lambda: value.setflags(write=True),
        lambda: value.fill(0),
    )
    for way in ways:
        try:
            way()
        except (TypeError, AttributeError, ValueError, IndexError, StopIteration, KeyError):
            continue


def test_no_plugin_can_change_what_it_is_given() -> None:
    cpu = {"cpu_info": {"model": "Zen", "features": ["avx"], "topology": {"cores": 4}}, "racks": ["r1"]}
    fleet = [replace(one, capabilities=cpu, metrics={"load": 1.0}) for one in FLEET]
    request = replace(REQUEST, scheduler_hints={"rack": ["r1"]}, instance_hosts={"a": "b"})
    before = (repr(fleet), repr(request))
    seen: list[HostTable] = []

    def mask(self: Filter, hosts: HostTable, request_spec: RequestSpec) -> Any:
        seen.append(hosts)
        for part in [*parts(request_spec), *parts(hosts), hosts.everyone, hosts.zeros, hosts.factor("traits").codes]:
            spoil(part)
        hosts.factor("hypervisor_type", lambda state: "none")  # another column under a name that others use
        return hosts.everyone

    vandal = made(Filter, "Vandal", host_passes=answering(PASS), mask=mask)
    chain = Pipeline((vandal, *SHIPPED.filters), SHIPPED.weighers, rules=RULES)
    table = HostTable.from_states(fleet)
    columns = {name: value.copy() for name, value in vars(table).items() if isinstance(value, np.ndarray)}
    outcome = decide(table, request, ["new-0", "new-1"], pipeline=chain, seed=7)
    assert (outcome.picks, outcome.faults) == (EXPECTED.picks, ())
    assert len(seen) > 1  # also while the request was being placed
    assert (repr(fleet), repr(request)) == before
    assert all(np.array_equal(getattr(table, name), column) for name, column in columns.items())
    assert table.factor("hypervisor_type").values == ("QEMU",)


def test_texts_of_plugins_are_kept_readable_and_short() -> None:
    text = "a" * 300 + "\x00"
    judge = made(Filter, "Wordy", host_passes=answering(reject(text, need="\ud800\x00", have="b\nc")))
    decision = explain(run(judge, count=1))
    [reported] = {(one.reason, one.need, one.have) for one in decision.hosts}
    assert reported == ("a" * 254 + "…", "  ", "b c")
