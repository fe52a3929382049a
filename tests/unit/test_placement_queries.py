"""Placement's query parameters, version by version."""

from __future__ import annotations

from uuid import UUID

import pytest
from django.http import QueryDict

from conductor.core.errors import Invalid
from conductor.core.placement.query import CandidateQuery, RequestGroup
from portal.api.microversions import parse as version
from portal.api.placement.representations import queries
from portal.api.placement.representations.candidates import parse
from portal.api.placement.representations.queries import AggregateQuery, TraitQuery

NEWEST = version("1.39")
AGG_A, AGG_B = str(UUID(int=10)), str(UUID(int=11))


def sets(*groups: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(group.split()) for group in groups)


def test_resources_are_amounts_by_class() -> None:
    assert queries.resources("VCPU:2,MEMORY_MB:512") == {"VCPU": 2, "MEMORY_MB": 512}
    assert queries.resources("VCPU:2,VCPU:3") == {"VCPU": 3}


@pytest.mark.parametrize(
    "text", ["", "VCPU", "VCPU:", "VCPU:a", "VCPU:0", "VCPU:-1", "VCPU:1:2", "VCPU:1,", "VCPU:1.5"]
)
def test_resources_that_are_none_name_their_parameter(text: str) -> None:
    with pytest.raises(Invalid, match="resources7: expected") as caught:
        queries.resources(text, "resources7")
    assert caught.value.details["field"] == "resources7"


@pytest.mark.parametrize(
    ("values", "asked", "requested"),
    [
        (["A,B"], "1.18", TraitQuery(sets("A", "B"))),
        (["A", "B"], "1.38", TraitQuery(sets("B"))),  # before 1.39 the last one counts
        (["A, !B"], "1.22", TraitQuery(sets("A"), frozenset("B"))),
        (["in:A,B", "C,!D"], "1.39", TraitQuery(sets("A B", "C"), frozenset("D"))),
    ],
)
def test_traits(values: list[str], asked: str, requested: TraitQuery) -> None:
    assert queries.traits(values, version(asked)) == requested


@pytest.mark.parametrize(
    ("value", "requested"),
    [
        ("", "1.39"),
        ("A,", "1.39"),
        ("!", "1.39"),
        ("in:", "1.39"),
        ("in:A,", "1.39"),
        ("in:!A", "1.39"),
        ("!A", "1.21"),
        ("in:A", "1.38"),
    ],
)
def test_traits_that_are_none(value: str, requested: str) -> None:
    with pytest.raises(Invalid, match="required_x: expected"):
        queries.traits([value], version(requested), "required_x")


@pytest.mark.parametrize(
    ("values", "asked", "requested"),
    [
        ([AGG_A], "1.3", AggregateQuery(sets(AGG_A))),
        ([f"in:{AGG_A},{AGG_B}"], "1.3", AggregateQuery(sets(f"{AGG_A} {AGG_B}"))),
        ([AGG_A, AGG_B], "1.24", AggregateQuery(sets(AGG_A, AGG_B))),
        ([f"!{AGG_A}", f"!in:{AGG_B}"], "1.32", AggregateQuery((), frozenset({AGG_A, AGG_B}))),
        ([AGG_A.replace("-", "")], "1.3", AggregateQuery(sets(AGG_A))),
    ],
)
def test_aggregates(values: list[str], asked: str, requested: AggregateQuery) -> None:
    assert queries.aggregates(values, version(asked)) == requested


@pytest.mark.parametrize(
    ("values", "requested"),
    [
        ([AGG_A, AGG_B], "1.23"),
        ([f"!{AGG_A}"], "1.31"),
        ([f"{AGG_A},{AGG_B}"], "1.39"),
        (["rack-1"], "1.39"),
        ([f"in:{AGG_A},"], "1.39"),
        (["in:"], "1.39"),
        ([f"!{AGG_A},{AGG_B}"], "1.39"),
    ],
)
def test_aggregates_that_are_none(values: list[str], requested: str) -> None:
    with pytest.raises(Invalid, match="member_of_x"):
        queries.aggregates(values, version(requested), "member_of_x")


def asked(text: str, at: str = "1.39") -> CandidateQuery:
    return parse(QueryDict(text), version(at))


def test_a_whole_question() -> None:
    found = asked(
        "resources=VCPU:1&required=in:A,B&required=!C&resources_NIC=SRIOV_NET_VF:2&required_NIC=D"
        f"&member_of_NIC=!{AGG_A}&in_tree={AGG_B}&required_ROOT=E&group_policy=isolate&root_required=F,!G"
        "&same_subtree=_NIC,_ROOT&limit=3"
    )
    assert found == CandidateQuery(
        groups={
            "": RequestGroup({"VCPU": 1}, sets("A B"), frozenset("C"), in_tree=AGG_B),
            "_NIC": RequestGroup({"SRIOV_NET_VF": 2}, sets("D"), forbidden_aggregates=frozenset({AGG_A})),
            "_ROOT": RequestGroup(required=sets("E")),
        },
        group_policy="isolate",
        root_required=frozenset("F"),
        root_forbidden=frozenset("G"),
        same_subtrees=sets("_NIC _ROOT"),
        limit=3,
    )


def test_groups_have_numbers_before_they_have_names() -> None:
    assert list(asked("resources1=VCPU:1&resources_A=VCPU:1", "1.25").groups) == ["1"]
    assert list(asked("resources1=VCPU:1&resources_A=VCPU:1&group_policy=none", "1.33").groups) == ["1", "_A"]


@pytest.mark.parametrize(
    ("text", "at", "field", "code"),
    [
        ("", "1.36", "resources", "placement.query.missing_value"),
        ("", "1.25", "resources", None),
        ("required=A", "1.36", "resources", "placement.query.missing_value"),
        ("resources=VCPU:1&required1=A", "1.35", "required1", None),
        ("resources=VCPU:1&member_of1=" + AGG_A, "1.35", "member_of1", None),
        ("resources=VCPU:1&in_tree1=" + AGG_A, "1.35", "in_tree1", None),
        ("resources=VCPU:1&required1=A", "1.36", "same_subtree", "placement.query.bad_value"),
        ("resources=VCPU:1&same_subtree=_X", "1.36", "same_subtree", "placement.query.bad_value"),
        ("resources=VCPU:1&same_subtree=,_X", "1.36", "same_subtree", "placement.query.bad_value"),
        ("resources1=VCPU:1&resources2=VCPU:1", "1.39", "group_policy", None),
        ("resources=VCPU:1&required=A,!A", "1.39", "required", None),
        ("resources=VCPU:1&required=in:A,B&required=!A,!B", "1.39", "required", None),
        ("resources=VCPU:1&root_required=A&root_required=B", "1.39", "root_required", "placement.query.duplicate_key"),
        ("resources=VCPU:1&root_required=A,!A", "1.39", "root_required", "placement.query.bad_value"),
        ("resources=VCPU:1&root_required=in:A,B", "1.39", "root_required", None),
        ("resources=VCPU:1&in_tree=here", "1.39", "in_tree", None),
    ],
)
def test_questions_that_make_no_sense(text: str, at: str, field: str, code: str | None) -> None:
    with pytest.raises(Invalid) as caught:
        asked(text, at)
    assert (caught.value.details["field"], caught.value.details.get("code")) == (field, code)
    assert field in caught.value.message


def test_one_of_several_may_be_forbidden_too() -> None:
    assert asked("resources=VCPU:1&required=in:A,B&required=!A").groups[""].forbidden == frozenset("A")
