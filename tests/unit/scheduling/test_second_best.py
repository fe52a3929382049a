"""Replacements for a host that became full meanwhile."""

from __future__ import annotations

from conductor.core.selection import Selection
from conductor.scheduler.claims import without


def on(host: str, **parts: int) -> Selection:
    """Return a selection of a host; with `parts` its room comes from these providers."""
    by_provider = {provider: {"VCPU": amount} for provider, amount in parts.items()}
    return Selection(host, host, "cell1", host, {"VCPU": 1}, by_provider=by_provider)


def hosts(found: tuple[tuple[Selection, ...], ...] | None) -> list[list[str]] | None:
    return None if found is None else [[one.host for one in picked] for picked in found]


def test_the_first_alternate_stands_in_and_is_no_alternate_any_more() -> None:
    assert hosts(without(((on("a"), on("b"), on("c")),), "a")) == [["b", "c"]]


def test_others_keep_their_hosts_and_lose_the_alternate_that_was_taken() -> None:
    b, c = on("b"), on("c")
    assert hosts(without(((on("a"), b, c), (on("x"), b, c)), "a")) == [["b", "c"], ["x", "c"]]


def test_each_alternate_stands_in_once() -> None:
    b, c = on("b"), on("c")
    assert hosts(without(((on("a"), b, c), (on("a"), b, c)), "a")) == [["b"], ["c"]]
    assert without(((on("a"), b), (on("a"), b)), "a") is None


def test_without_alternates_only_a_fresh_look_helps() -> None:
    assert without(((on("a"),),), "a") is None


def test_an_alternate_that_uses_the_same_full_shared_provider_is_no_replacement() -> None:
    sharing = (on("a", a=1, disks=1), on("b", b=1, disks=1), on("c", c=1))
    assert hosts(without((sharing,), "disks")) == [["c"]]
    assert hosts(without((sharing,), "a")) == [["b", "c"]]
