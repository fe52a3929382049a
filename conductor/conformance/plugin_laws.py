"""Conformance tests of filters and weighers: functions that raise Broken, used by test classes and the command."""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from conductor.conformance.fleet import fleet, request
from conductor.conformance.impurity import watched
from conductor.core.errors import Invalid
from conductor.core.filter import Filter
from conductor.core.frozen import sealed
from conductor.core.host_state import HostTable
from conductor.core.request_spec import GroupSpec, ImageSpec, RequestSpec
from conductor.core.verdict import Verdict
from conductor.core.weigher import Weigher
from conductor.plugins.options import require_options

LONGEST_REASON = 200
MANY = 10_000
MILLISECONDS = 2000.0  # time limit of a plugin in one decision, by default
THREADS = 4
# Typical requests, in addition to the author's.
STANDARD_REQUESTS = (
    request(),
    request(num_instances=3, availability_zone="north"),
    request({"hw:cpu_policy": "dedicated", "trait:CUSTOM_SSD": "required", "rack": "r1"}),
    request(image=ImageSpec("image", "cirros", properties={"hw_architecture": "x86_64", "os_type": "linux"})),
    request(group=GroupSpec("group", "anti-affinity", {"max_server_per_host": 1}, {"member": "host-1"})),
)
Question = tuple[HostTable, RequestSpec]


class Broken(AssertionError):
    """A test failed; the text says how."""


class NotTried(Exception):
    """No request of the test lets it judge; the text says which would."""


@dataclass(frozen=True)
class PluginUnderTest:
    """A class of filters or weighers, and its test requests. `milliseconds` is its limit for ten thousand hosts."""

    plugin: type[Filter] | type[Weigher]
    options: Mapping[str, Any] = field(default_factory=dict)
    requests: tuple[RequestSpec, ...] = STANDARD_REQUESTS
    milliseconds: float = MILLISECONDS

    @property
    def is_filter(self) -> bool:
        return issubclass(self.plugin, Filter)

    def made(self) -> Any:
        return self.plugin(dict(self.options))

    def questions(self) -> Iterator[Question]:
        """Yield hosts and requests as the scheduler passes them: read-only."""
        for seed in (1, 2):
            for spec in self.requests:
                yield _hosts(50, seed), sealed(spec)

    def answer(self, plugin: Any, hosts: HostTable, spec: RequestSpec) -> Any:
        return np.asarray(plugin.mask(hosts, spec) if self.is_filter else plugin.weigh(hosts, spec))

    def answers(self, plugin: Any) -> list[list[Any]]:
        return [self.answer(plugin, hosts, spec).tolist() for hosts, spec in self.questions()]

    def fingerprint(self) -> str:
        """Return a short text that is equal where all results are."""
        return hashlib.sha256(repr(self.answers(self.made())).encode()).hexdigest()


@functools.lru_cache(maxsize=8)
def _hosts(count: int, seed: int) -> HostTable:
    return fleet(count, seed)


def it_has_a_name_and_options_that_are_declared(subject: PluginUnderTest) -> None:
    plugin = subject.made()
    _require(bool(plugin.name), "give `name`")
    for name, rule in plugin.options_schema.items():
        _require("default" in rule, f"the option {name} has no default")
        _require(bool(rule.get("type") or rule.get("enum")), f"the option {name} says not what it may be")
        try:
            require_options(plugin, {name: rule["default"]}, "default")
        except Invalid as error:
            raise Broken(f"the default of the option {name} does not fit: {error.message}") from None
    unknown = sorted(set(subject.options) - set(plugin.options_schema))
    _require(not unknown, f"an option is given that is not declared: {', '.join(unknown)}")


def the_same_question_has_the_same_answer(subject: PluginUnderTest) -> None:
    """Equal calls give equal results, also on a second object, and after other calls: no state is kept."""
    plugin = subject.made()
    first = subject.answers(plugin)
    _require(subject.answers(plugin) == first, "asked again, it answers otherwise")
    _require(subject.answers(subject.made()) == first, "another object of it answers otherwise")
    fresh = subject.made()
    turned = [subject.answer(fresh, hosts, spec).tolist() for hosts, spec in reversed(list(subject.questions()))]
    _require(turned[::-1] == first, "what it was asked before changes its answers")


def it_answers_alike_in_all_threads(subject: PluginUnderTest) -> None:
    plugin = subject.made()
    first = subject.answers(plugin)
    with ThreadPoolExecutor(THREADS) as pool:
        for answers in pool.map(lambda _: subject.answers(plugin), range(THREADS)):
            _require(answers == first, "asked by several threads at once, it answers otherwise")


def it_reaches_for_nothing_outside(subject: PluginUnderTest) -> None:
    """Require that the plugin uses no file, network, process, thread, clock or randomness."""
    plugin, questions = subject.made(), list(subject.questions())  # the first draw of hosts uses randomness
    with watched() as seen:
        for hosts, spec in questions:
            subject.answer(plugin, hosts, spec)
            if subject.is_filter:
                plugin.host_passes(hosts.states[0], spec)
    _require(not seen, f"it is not pure: {'; '.join(sorted(seen))}")


def it_changes_nothing_that_it_is_given(subject: PluginUnderTest) -> None:
    plugin = subject.made()
    for hosts, spec in subject.questions():
        before = _content(hosts), repr(spec)
        subject.answer(plugin, hosts, spec)
        if subject.is_filter:
            for state in hosts.states:
                plugin.host_passes(state, spec)
        _require(_content(hosts) == before[0], "it changed the hosts that it was asked about")
        _require(repr(spec) == before[1], "it changed the request")


def the_order_of_hosts_is_nothing_to_it(subject: PluginUnderTest) -> None:
    plugin = subject.made()
    for hosts, spec in subject.questions():
        there = subject.answer(plugin, HostTable.from_states(hosts.states[::-1]), spec).tolist()
        same = there == subject.answer(plugin, hosts, spec).tolist()[::-1]
        _require(same, "with the hosts in another order, it answers otherwise")


def ten_thousand_hosts_take_their_time_at_most(subject: PluginUnderTest) -> None:
    slowest = milliseconds(subject)
    _require(slowest <= subject.milliseconds, f"{slowest:.0f} ms for {MANY} hosts; {subject.milliseconds:g} may be")


def milliseconds(subject: PluginUnderTest, count: int = MANY) -> float:
    """Return the milliseconds of the slowest request for `count` hosts; one-time work is not counted."""
    plugin, hosts, slowest = subject.made(), _hosts(count, 1), 0.0
    for spec in map(sealed, subject.requests):
        subject.answer(plugin, hosts, spec)
        began = time.perf_counter()
        subject.answer(plugin, hosts, spec)
        slowest = max(slowest, (time.perf_counter() - began) * 1000.0)
    return slowest


def a_mask_has_one_bool_for_each_host(subject: PluginUnderTest) -> None:
    plugin = subject.made()
    for hosts, spec in subject.questions():
        mask = plugin.mask(hosts, spec)
        is_mask = isinstance(mask, np.ndarray) and mask.dtype == np.bool_ and mask.shape == (len(hosts),)
        _require(is_mask, f"`mask` is to return one bool for each host, not {_form(mask)}")


def it_says_of_one_host_what_it_says_of_all(subject: PluginUnderTest) -> None:
    plugin = subject.made()
    for hosts, spec in subject.questions():
        some = np.arange(len(hosts)) % 2 == 0
        together = plugin.mask(hosts, spec).tolist()
        among = np.where(some, plugin.mask_among(hosts, spec, some), together).tolist()
        for state, reported, of_some in zip(hosts.states, together, among, strict=True):
            alone = bool(plugin.host_passes(state, spec))
            _require(alone == reported, f"of {state.host} `host_passes` says {alone} and `mask` says {reported}")
            _require(alone == of_some, f"of {state.host} `mask` says {reported} and `mask_among` says {of_some}")


def each_rejection_has_a_reason(subject: PluginUnderTest) -> None:
    plugin, rejected = subject.made(), 0
    for hosts, spec in subject.questions():
        for state in hosts.states:
            verdict = plugin.host_passes(state, spec)
            _require(
                isinstance(verdict, Verdict), f"`host_passes` is to return PASS or reject(…), not {_form(verdict)}"
            )
            if not verdict:
                rejected += 1
                _require(bool(verdict.reason.strip()), "say why a host is rejected: `reject` with a reason")
                _require(len(verdict.reason) <= LONGEST_REASON, f"a reason has at most {LONGEST_REASON} letters")
                _require(state.host not in verdict.reason, "tenants read the reason: name no host in it")
    if not rejected:
        raise NotTried("it rejected no host: give a request with --hint, --extra-spec, --property or --request")


def each_host_has_one_finite_number(subject: PluginUnderTest) -> None:
    plugin = subject.made()
    for hosts, spec in subject.questions():
        weights = np.asarray(plugin.weigh(hosts, spec))
        is_column = weights.shape == (len(hosts),) and np.issubdtype(weights.dtype, np.number)
        _require(is_column, f"`weigh` is to return one number for each host, not {_form(weights)}")
        _require(bool(np.isfinite(weights).all()), "a number is not finite")


def its_multiplier_is_a_number_with_an_option(subject: PluginUnderTest) -> None:
    plugin = subject.made()
    _require(isinstance(plugin.multiplier, int | float), "`multiplier` is to be a number")
    _require(bool(plugin.multiplier_option), "give `multiplier_option`: operators set the multiplier by it")


def _content(hosts: HostTable) -> str:
    columns = [getattr(hosts, name).tolist() for name in ("names", "zones", "is_up", "free_vcpus", "free_memory_mb")]
    return repr((hosts.states, columns))


def _form(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} with the shape {value.shape}"
    return type(value).__name__


def _require(is_kept: bool, otherwise: str) -> None:
    if not is_kept:
        raise Broken(otherwise)


Law = Callable[[PluginUnderTest], None]
OF_BOTH: tuple[Law, ...] = (
    it_has_a_name_and_options_that_are_declared,
    the_same_question_has_the_same_answer,
    it_answers_alike_in_all_threads,
    it_reaches_for_nothing_outside,
    it_changes_nothing_that_it_is_given,
    the_order_of_hosts_is_nothing_to_it,
    ten_thousand_hosts_take_their_time_at_most,
)
OF_FILTERS: tuple[Law, ...] = (
    a_mask_has_one_bool_for_each_host,
    it_says_of_one_host_what_it_says_of_all,
    each_rejection_has_a_reason,
)
OF_WEIGHERS: tuple[Law, ...] = (each_host_has_one_finite_number, its_multiplier_is_a_number_with_an_option)


def laws_for(subject: PluginUnderTest) -> tuple[Law, ...]:
    return (*(OF_FILTERS if subject.is_filter else OF_WEIGHERS), *OF_BOTH)
