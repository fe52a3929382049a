"""Conformance tests of filters and weighers: subclass one, name your class, run pytest.

    class TestMine(FilterConformance):
        plugin = RackFilter
        requests = (request(), request(scheduler_hints={"rack": ["r1"]}))

Give requests for which your plugin has a condition: without any, only a plain one is used. `novella-plugin-check` runs
the same tests on an installed plugin.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar

import pytest

from conductor.conformance import plugin_laws as law
from conductor.conformance.fleet import request
from conductor.conformance.plugin_laws import NotTried, PluginUnderTest
from conductor.core.filter import Filter
from conductor.core.request_spec import RequestSpec
from conductor.core.weigher import Weigher


class _Law:
    """Tests of both kinds. `options` are passed to the plugin; `milliseconds` is its limit for ten thousand hosts."""

    plugin: ClassVar[Any]
    options: ClassVar[Mapping[str, Any]] = {}
    requests: ClassVar[tuple[RequestSpec, ...]] = (request(),)
    milliseconds: ClassVar[float] = law.MILLISECONDS

    @pytest.fixture
    def subject(self) -> PluginUnderTest:
        return PluginUnderTest(self.plugin, self.options, self.requests, self.milliseconds)

    def test_it_has_a_name_and_options_that_are_declared(self, subject: PluginUnderTest) -> None:
        law.it_has_a_name_and_options_that_are_declared(subject)

    def test_the_same_question_has_the_same_answer(self, subject: PluginUnderTest) -> None:
        """Equal calls give equal results, also on a second object, and after other calls: no state is kept."""
        law.the_same_question_has_the_same_answer(subject)

    def test_it_answers_alike_in_all_threads(self, subject: PluginUnderTest) -> None:
        law.it_answers_alike_in_all_threads(subject)

    def test_it_reaches_for_nothing_outside(self, subject: PluginUnderTest) -> None:
        law.it_reaches_for_nothing_outside(subject)

    def test_it_changes_nothing_that_it_is_given(self, subject: PluginUnderTest) -> None:
        law.it_changes_nothing_that_it_is_given(subject)

    def test_the_order_of_hosts_is_nothing_to_it(self, subject: PluginUnderTest) -> None:
        law.the_order_of_hosts_is_nothing_to_it(subject)

    def test_ten_thousand_hosts_take_their_time_at_most(self, subject: PluginUnderTest) -> None:
        law.ten_thousand_hosts_take_their_time_at_most(subject)


class FilterConformance(_Law):
    """Tests of a filter. Set `plugin`, and `requests` that it distinguishes."""

    plugin: ClassVar[type[Filter]]

    def test_a_mask_has_one_bool_for_each_host(self, subject: PluginUnderTest) -> None:
        law.a_mask_has_one_bool_for_each_host(subject)

    def test_it_says_of_one_host_what_it_says_of_all(self, subject: PluginUnderTest) -> None:
        law.it_says_of_one_host_what_it_says_of_all(subject)

    def test_each_rejection_has_a_reason(self, subject: PluginUnderTest) -> None:
        with suppress(NotTried):  # a filter may accept all of these hosts
            law.each_rejection_has_a_reason(subject)


class WeigherConformance(_Law):
    """Tests of a weigher. Set `plugin`, and `requests` that it distinguishes."""

    plugin: ClassVar[type[Weigher]]

    def test_each_host_has_one_finite_number(self, subject: PluginUnderTest) -> None:
        law.each_host_has_one_finite_number(subject)

    def test_its_multiplier_is_a_number_with_an_option(self, subject: PluginUnderTest) -> None:
        law.its_multiplier_is_a_number_with_an_option(subject)
