"""The laws for filters and weighers as tests: subclass one, name your class, run pytest.

    class TestMine(FilterConformance):
        plugin = RackFilter
        requests = (request(), request(scheduler_hints={"rack": ["r1"]}))

Give requests that your plugin has something to say about: with none of them it is asked about a plain one only.
`novella-plugin-check` asks the same of a plugin that is installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar

import pytest

from conductor.conformance import plugin_laws as law
from conductor.conformance.fleet import request
from conductor.conformance.plugin_laws import NotTried, Subject
from conductor.core.filter import Filter
from conductor.core.request_spec import RequestSpec
from conductor.core.weigher import Weigher


class _Law:
    """What is asked of both. `options` are given to the plugin; `milliseconds` may ten thousand hosts take."""

    plugin: ClassVar[Any]
    options: ClassVar[Mapping[str, Any]] = {}
    requests: ClassVar[tuple[RequestSpec, ...]] = (request(),)
    milliseconds: ClassVar[float] = law.MILLISECONDS

    @pytest.fixture
    def subject(self) -> Subject:
        return Subject(self.plugin, self.options, self.requests, self.milliseconds)

    def test_it_has_a_name_and_options_that_are_declared(self, subject: Subject) -> None:
        law.it_has_a_name_and_options_that_are_declared(subject)

    def test_the_same_question_has_the_same_answer(self, subject: Subject) -> None:
        """Also of a second object, and after other questions: nothing is remembered."""
        law.the_same_question_has_the_same_answer(subject)

    def test_it_answers_alike_in_all_threads(self, subject: Subject) -> None:
        law.it_answers_alike_in_all_threads(subject)

    def test_it_reaches_for_nothing_outside(self, subject: Subject) -> None:
        law.it_reaches_for_nothing_outside(subject)

    def test_it_changes_nothing_that_it_is_given(self, subject: Subject) -> None:
        law.it_changes_nothing_that_it_is_given(subject)

    def test_the_order_of_hosts_is_nothing_to_it(self, subject: Subject) -> None:
        law.the_order_of_hosts_is_nothing_to_it(subject)

    def test_ten_thousand_hosts_take_their_time_at_most(self, subject: Subject) -> None:
        law.ten_thousand_hosts_take_their_time_at_most(subject)


class FilterConformance(_Law):
    """Give `plugin`, and `requests` that it has something to say about."""

    plugin: ClassVar[type[Filter]]

    def test_a_mask_has_one_bool_for_each_host(self, subject: Subject) -> None:
        law.a_mask_has_one_bool_for_each_host(subject)

    def test_it_says_of_one_host_what_it_says_of_all(self, subject: Subject) -> None:
        law.it_says_of_one_host_what_it_says_of_all(subject)

    def test_who_is_turned_away_hears_why(self, subject: Subject) -> None:
        with suppress(NotTried):  # a filter may have nothing to say about these hosts
            law.who_is_turned_away_hears_why(subject)


class WeigherConformance(_Law):
    """Give `plugin`, and `requests` that it has something to say about."""

    plugin: ClassVar[type[Weigher]]

    def test_each_host_has_one_finite_number(self, subject: Subject) -> None:
        law.each_host_has_one_finite_number(subject)

    def test_its_multiplier_is_a_number_with_an_option(self, subject: Subject) -> None:
        law.its_multiplier_is_a_number_with_an_option(subject)
