"""Columns of few values are made once, whichever function of the same code asks for them."""

from __future__ import annotations

from functools import partial

from conductor.core.host_state import HostState
from tests.unit.scheduling.fleets import host, table


def _of(state: HostState, name: str) -> str:
    return f"{name} {state.host}"


def test_functions_that_are_made_anew_share_a_column_where_their_arguments_are_the_same() -> None:
    hosts = table(host("one"), host("two"))
    first = hosts.factor("words", partial(_of, name="a"))
    assert first.values == ("a one", "a two")
    assert hosts.factor("words", partial(_of, name="a")) is first
    assert hosts.factor("words", partial(_of, name="b")).values == ("b one", "b two")
    assert hosts.factor("words", partial(_of, name="a")) is first


def test_a_column_in_which_nothing_changed_is_the_same_with_all_that_was_made_of_it() -> None:
    hosts = table(host("one"), host("two"))
    zones, numbers = hosts.factor("availability_zone"), hosts.factor("failed_builds").numbers
    busier = hosts.with_rows({0: host("one", num_instances=3)})
    assert busier.factor("availability_zone") is zones
    assert busier.factor("failed_builds").numbers is numbers
    assert busier.zones is hosts.zones
    assert busier.is_up is hosts.is_up
    moved = busier.with_rows({1: host("two", availability_zone="a-much-longer-name", failed_builds=2, is_up=False)})
    assert moved.zones.tolist() == ["nova", "a-much-longer-name"]
    assert moved.factor("availability_zone").values == ("nova", "a-much-longer-name")
    assert moved.factor("failed_builds").numbers.tolist() == [0.0, 2.0]
    assert moved.is_up.tolist() == [True, False]
    assert busier.is_up.tolist() == [True, True]
