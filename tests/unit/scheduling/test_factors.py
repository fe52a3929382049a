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
