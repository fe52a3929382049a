"""Hints and extra specs that no host could ever answer are refused, naming the key."""

from __future__ import annotations

import pytest

from conductor.core.errors import Invalid
from conductor.core.scheduling.hints import QUERY_COMMANDS
from conductor.services import extra_spec_rules, hint_rules
from scheduler_plugins.filters.json_query import COMMANDS


@pytest.mark.parametrize(
    "hints",
    [
        {},
        {"query": [""]},
        {"query": ['[">=", "$free_ram_mb", 1024]']},
        {"query": ['["not", ["=", "$host", "a"], "x"]']},
        {"build_near_host_ip": ["192.0.2.1"]},
        {"build_near_host_ip": ["2001:db8::1"], "cidr": ["/64"]},
        {"cidr": ["/99"]},  # alone it asks for nothing
        {"rack": ["r1", "r2"]},
    ],
)
def test_hints_that_can_be_read(hints: dict[str, list[str]]) -> None:
    hint_rules.check(hints)


@pytest.mark.parametrize(
    ("hints", "name", "fault"),
    [
        ({"query": ["{"]}, "query", "no JSON"),
        ({"query": ["[" * 100_000]}, "query", "no JSON"),
        ({"query": ['{"=": 1}']}, "query", "no list"),
        ({"query": ['["and", ["~", 1]]']}, "query", 'no command "~"'),
        ({"query": ["[]", "[]"]}, "query", "one text"),
        ({"build_near_host_ip": ["here"]}, "build_near_host_ip", "here is no address"),
        ({"build_near_host_ip": ["192.0.2.1"], "cidr": ["/33"]}, "cidr", "/33 is no network"),
        ({"build_near_host_ip": ["192.0.2.1"], "cidr": ["/8", "/9"]}, "cidr", "one text"),
    ],
)
def test_hints_that_cannot_be_read(hints: dict[str, list[str]], name: str, fault: str) -> None:
    with pytest.raises(Invalid, match=fault) as refused:
        hint_rules.check(hints)
    assert refused.value.details["field"] == f"os:scheduler_hints.{name}"


def test_the_commands_that_are_accepted_are_those_that_are_understood() -> None:
    assert set(QUERY_COMMANDS) == set(COMMANDS)


@pytest.mark.parametrize("scope", ["capabilities", "aggregate_instance_extra_specs"])
@pytest.mark.parametrize("value", [">= four", ">=", "<or>", "<all-in>", "s=="])
def test_requirements_that_nothing_meets(scope: str, value: str) -> None:
    with pytest.raises(Invalid, match=f"extra spec '{scope}:x'") as refused:
        extra_spec_rules.check({f"{scope}:x": value})
    assert refused.value.details["field"] == f"{scope}:x"


@pytest.mark.parametrize("value", [">= 4", "four", "<in> x", "<or> a <or> b", "~ 4", "> 4", ""])
def test_requirements_that_something_may_meet(value: str) -> None:
    extra_spec_rules.check({"capabilities:x": value, "x": ">= four"})
