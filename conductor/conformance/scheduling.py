"""The laws for filters and weighers as tests: subclass one, name your class, run pytest.

    class TestMine(FilterConformance):
        plugin = RackFilter
        requests = (request(), request(scheduler_hints={"rack": ["r1"]}))

Give requests that your plugin has something to say about: with none of them it is asked about a plain one only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import pytest

from conductor.conformance.fleet import fleet, request
from conductor.core.filter import Filter
from conductor.core.host_state import HostTable
from conductor.core.request_spec import RequestSpec
from conductor.core.verdict import Verdict
from conductor.core.weigher import Weigher

LONGEST_REASON = 200
MANY = 1000


class _Law:
    """What is asked of both. `options` are given to the plugin; `milliseconds` may a thousand hosts take."""

    options: ClassVar[Mapping[str, Any]] = {}
    requests: ClassVar[tuple[RequestSpec, ...]] = (request(),)
    milliseconds: ClassVar[float] = 200.0

    @pytest.fixture
    def subject(self) -> Any:
        raise NotImplementedError

    def questions(self) -> Iterator[tuple[HostTable, RequestSpec]]:
        for seed in (1, 2):
            for spec in self.requests:
                yield fleet(seed=seed), spec

    def answer(self, subject: Any, hosts: HostTable, spec: RequestSpec) -> Any:
        raise NotImplementedError

    def test_it_has_a_name_and_options_that_are_declared(self, subject: Any) -> None:
        assert subject.name, "give `name`"
        for name, rule in subject.options_schema.items():
            assert "default" in rule, f"the option {name} has no default"
            assert rule.get("type") or rule.get("enum"), f"the option {name} says not what it may be"
        assert not set(self.options) - set(subject.options_schema), "an option is given that is not declared"

    def test_the_same_question_has_the_same_answer(self, subject: Any) -> None:
        """Also of a second object, and after other questions: nothing is remembered."""
        first = [self.answer(subject, hosts, spec).tolist() for hosts, spec in self.questions()]
        again = [self.answer(subject, hosts, spec).tolist() for hosts, spec in self.questions()]
        other = [self.answer(type(subject)(self.options), hosts, spec).tolist() for hosts, spec in self.questions()]
        assert first == again, "asked again, it answers otherwise"
        assert first == other, "another object of it answers otherwise"

    def test_a_thousand_hosts_take_their_time_at_most(self, subject: Any) -> None:
        hosts = fleet(MANY)
        taken = []
        for spec in self.requests:
            self.answer(subject, hosts, spec)  # what is made once and kept is not counted
            began = time.perf_counter()
            self.answer(subject, hosts, spec)
            taken.append((time.perf_counter() - began) * 1000.0)
        assert max(taken) <= self.milliseconds, f"{max(taken):.0f} ms for {MANY} hosts"


class FilterConformance(_Law):
    """Give `plugin`, and `requests` that it has something to say about."""

    plugin: ClassVar[type[Filter]]

    @pytest.fixture
    def subject(self) -> Filter:
        return self.plugin(self.options)

    def answer(self, subject: Any, hosts: HostTable, spec: RequestSpec) -> Any:
        return subject.mask(hosts, spec)

    def test_a_mask_has_one_bool_for_each_host(self, subject: Filter) -> None:
        for hosts, spec in self.questions():
            mask = subject.mask(hosts, spec)
            assert isinstance(mask, np.ndarray)
            assert mask.dtype == np.bool_
            assert mask.shape == (len(hosts),)

    def test_it_says_of_one_host_what_it_says_of_all(self, subject: Filter) -> None:
        for hosts, spec in self.questions():
            one_by_one = [bool(subject.host_passes(state, spec)) for state in hosts.states]
            assert subject.mask(hosts, spec).tolist() == one_by_one

    def test_the_order_of_hosts_is_nothing_to_it(self, subject: Filter) -> None:
        for hosts, spec in self.questions():
            turned = HostTable.from_states(hosts.states[::-1])
            assert subject.mask(turned, spec).tolist() == subject.mask(hosts, spec).tolist()[::-1]

    def test_who_is_turned_away_hears_why(self, subject: Filter) -> None:
        for hosts, spec in self.questions():
            for state in hosts.states:
                verdict = subject.host_passes(state, spec)
                assert isinstance(verdict, Verdict), "return PASS or reject(…)"
                if not verdict:
                    assert verdict.reason.strip(), "say why"
                    assert len(verdict.reason) <= LONGEST_REASON
                    assert state.host not in verdict.reason, "tenants read it: name no host"


class WeigherConformance(_Law):
    """Give `plugin`, and `requests` that it has something to say about."""

    plugin: ClassVar[type[Weigher]]

    @pytest.fixture
    def subject(self) -> Weigher:
        return self.plugin(self.options)

    def answer(self, subject: Any, hosts: HostTable, spec: RequestSpec) -> Any:
        return np.asarray(subject.weigh(hosts, spec))

    def test_each_host_has_one_finite_number(self, subject: Weigher) -> None:
        for hosts, spec in self.questions():
            weights = np.asarray(subject.weigh(hosts, spec))
            assert weights.shape == (len(hosts),)
            assert np.issubdtype(weights.dtype, np.number)
            assert np.isfinite(weights).all()

    def test_the_order_of_hosts_is_nothing_to_it(self, subject: Weigher) -> None:
        for hosts, spec in self.questions():
            turned = HostTable.from_states(hosts.states[::-1])
            there = np.asarray(subject.weigh(turned, spec))
            assert there.tolist() == np.asarray(subject.weigh(hosts, spec)).tolist()[::-1]

    def test_its_multiplier_is_a_number_with_an_option(self, subject: Weigher) -> None:
        assert isinstance(subject.multiplier, int | float)
        assert subject.multiplier_option, "give `multiplier_option`: operators set the multiplier by it"
