"""The adapter for Nova's classes without an installed Nova: requested classes are listed and fail, by name."""

from __future__ import annotations

import logging
from importlib.util import find_spec
from typing import Any

import pytest
from pytest_django import Settings

from conductor.core.errors import Invalid
from conductor.core.host_state import HostTable
from conductor.core.scheduling.decision import explain
from conductor.core.scheduling.select import Pipeline, decide
from conductor.plugins import PluginOptions, Registry, check_plugins, chosen, load, registry
from scheduler_plugins.nova_adapter.guests import names_of
from scheduler_plugins.nova_adapter.hearing import heard, last_of, listen_to
from tests.unit.scheduling.fleets import host, spec

FILTER, WEIGHER = "racks.filters.RackFilter", "racks.weighers.RackWeigher"
TROUBLE = "there is no module nova: install novella[nova-adapter]"


def adapted(filters: Any = (), weighers: Any = ()) -> Registry:
    return load([], PluginOptions(nova_filters=filters, nova_weighers=weighers), finds_installed=False)


def test_nova_is_not_here() -> None:
    assert find_spec("nova") is None  # what the other tests of this file are about


def test_without_class_names_there_is_no_adapter() -> None:
    assert adapted().plugins == ()
    assert adapted({}, []).plugins == ()


def test_a_guard_that_cannot_be_had_turns_every_host_away_and_is_named() -> None:
    found = adapted((FILTER,))
    (plugin,) = found.plugins
    assert (plugin.name, plugin.distribution, plugin.is_shipped) == ("nova_adapter", "novella", False)
    assert plugin.warnings == (f"nova.RackFilter fails whenever it is asked: {TROUBLE}",)
    assert found.quarantined == ()
    pipeline = Pipeline(found.filters, found.weighers)
    hosts = HostTable.from_states([host("host-0"), host("host-1")])
    decision = explain(decide(hosts, spec(), ["one"], pipeline=pipeline, seed=1))
    assert not decision.is_successful
    assert [(fault["plugin"], fault["count"]) for fault in decision.faults] == [("nova.RackFilter", 2)]
    with pytest.raises(Invalid, match=r"racks\.filters\.RackFilter: there is no module nova"):
        found.filters[0].host_passes(host(), spec())


def test_a_class_that_cannot_be_loaded_rejects_hosts_for_rebuilds_too() -> None:
    assert adapted((FILTER,)).filters[0].runs_on_rebuild


def test_a_weigher_that_cannot_be_had_has_no_say_and_is_named() -> None:
    found = adapted((), {WEIGHER: 2.5})
    (one,) = found.weighers
    assert (one.name, one.multiplier, one.multiplier_option) == ("nova.RackWeigher", 2.5, "rack_weight_multiplier")
    pipeline = Pipeline((), found.weighers)
    hosts = HostTable.from_states([host("host-0"), host("host-1")])
    decision = explain(decide(hosts, spec(), ["one"], pipeline=pipeline, seed=1))
    assert decision.is_successful
    assert [(fault["plugin"], fault["consequence"]) for fault in decision.faults] == [("nova.RackWeigher", "left out")]


def test_foreign_classes_are_held_to_their_time() -> None:
    assert chosen(adapted((FILTER,)), {}).trusted == frozenset()
    assert type(adapted((FILTER,)).filters[0]).__module__ == "racks.filters"  # by which the watch knows whose it is


@pytest.mark.parametrize(
    ("declared", "names"),
    [
        ((FILTER,), ["nova.RackFilter"]),
        (f" {FILTER} ,other.RackFilter,", ["nova.racks.filters.RackFilter", "nova.other.RackFilter"]),
        ((FILTER, FILTER), ["nova.RackFilter"]),
        (("RackFilter",), ["nova.RackFilter"]),
        ((None, 7), ["nova.None", "nova.7"]),
    ],
)
def test_each_has_a_name_of_its_own(declared: Any, names: list[str]) -> None:
    found = adapted(declared)
    assert [one.name for one in found.filters] == names
    assert len(found.plugins[0].warnings) == len(names)  # an invalid path is reported too


def test_equal_names_are_distinguished_by_their_paths() -> None:
    assert names_of(["a.Same", "b.Same", "c.Other"]) == {
        "a.Same": "nova.a.Same",
        "b.Same": "nova.b.Same",
        "c.Other": "nova.Other",
    }


@pytest.mark.parametrize("factor", ["much", True, float("nan"), [1]])
def test_a_multiplier_that_is_no_number_is_reported_and_excludes_no_other(factor: Any) -> None:
    found = adapted((FILTER,), {WEIGHER: factor})
    assert found.quarantined == ()
    assert [one.name for one in (*found.filters, *found.weighers)] == ["nova.RackFilter", "nova.RackWeigher"]
    assert "nova.RackWeigher fails whenever it is asked: its multiplier is no number: " in found.plugins[0].warnings[1]


def test_the_system_check_names_what_will_fail(settings: Settings) -> None:
    settings.NOVELLA_NOVA_FILTERS = (FILTER,)
    registry.cache_clear()
    try:
        declared = [message.msg for message in check_plugins() if message.id == "conductor.W006"]
    finally:
        registry.cache_clear()
    assert declared == [f"Plugin nova_adapter of novella: nova.RackFilter fails whenever it is asked: {TROUBLE}."]


def test_log_lines_of_a_class_are_captured_without_being_logged(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("racks_that_speak")
    listen_to(type("Speaks", (), {"__module__": logger.name}))
    listen_to(type("Again", (), {"__module__": logger.name}))
    assert len(logger.handlers) == 1
    with heard() as lines:
        logger.debug("%s is in\n%s", "host-0", "r0")
        logger.warning("only %s", "once")
    logger.debug("no listener")
    assert [record.getMessage() for record in lines] == ["host-0 is in\nr0", "only once"]
    assert last_of(lines[:1]) == "host-0 is in r0"
    assert last_of([]) == ""
    assert [record.getMessage() for record in caplog.records] == ["only once"]
