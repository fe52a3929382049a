"""Microversion negotiation: headers in, version or refusal out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.http.request import HttpHeaders
from hypothesis import given
from hypothesis import strategies as st

from conductor.core.errors import Invalid, NotFound
from portal.api.errors import UnsupportedVersion
from portal.api.microversions import Microversion, VersionTable, parse, since

LEGACY = "X-OpenStack-Nova-API-Version"
TABLE = VersionTable("compute", (("2.1", "The first."), ("2.2", "Second."), ("2.37", "Third.")), legacy_header=LEGACY)


def headers(**values: str) -> HttpHeaders:
    return HttpHeaders({f"HTTP_{name.upper()}": value for name, value in values.items()})


@pytest.mark.parametrize(
    ("sent", "used"),
    [
        ({}, "2.1"),
        ({"openstack_api_version": "compute 2.2"}, "2.2"),
        ({"openstack_api_version": "volume 3.9, compute 2.37"}, "2.37"),
        ({"openstack_api_version": "volume 3.9"}, "2.1"),
        ({"openstack_api_version": "compute latest"}, "2.37"),
        ({"x_openstack_nova_api_version": "2.2"}, "2.2"),
        ({"x_openstack_nova_api_version": "latest"}, "2.37"),
        ({"openstack_api_version": "compute 2.37", "x_openstack_nova_api_version": "2.2"}, "2.37"),
    ],
)
def test_the_version_used(sent: dict[str, str], used: str) -> None:
    assert str(TABLE.negotiate(headers(**sent))) == used


@pytest.mark.parametrize(
    "text", ["", "2", "2.", "2.01", "two.one", "2.1.1", "2.1 2.2", "02.1", "-2.1", "2.99999999999"]
)
def test_malformed_versions_are_invalid(text: str) -> None:
    with pytest.raises(Invalid, match="invalid format"):
        TABLE.negotiate(headers(openstack_api_version=f"compute {text}"))


@pytest.mark.parametrize("text", ["2.38", "2.999", "2.0", "1.1", "3.1"])
def test_versions_out_of_range_are_refused_with_the_range(text: str) -> None:
    with pytest.raises(UnsupportedVersion) as refused:
        TABLE.negotiate(headers(x_openstack_nova_api_version=text))
    assert refused.value.message == (f"Version {text} is not supported by the API. Minimum is 2.1 and maximum is 2.37.")


def test_answers_name_the_version_in_both_headers() -> None:
    assert TABLE.answer_headers(parse("2.2")) == {
        "OpenStack-API-Version": "compute 2.2",
        LEGACY: "2.2",
        "Vary": f"OpenStack-API-Version, {LEGACY}",
    }
    assert TABLE.answer_headers(None) == {"Vary": f"OpenStack-API-Version, {LEGACY}"}


@given(st.tuples(st.integers(1, 9), st.integers(0, 999)), st.tuples(st.integers(1, 9), st.integers(0, 999)))
def test_versions_compare_as_numbers_not_as_text(one: tuple[int, int], other: tuple[int, int]) -> None:
    left, right = Microversion(*one), Microversion(*other)
    assert (left < right) == (one < other)
    assert parse(str(left)) == left
    assert left.covers(str(right)) == (one >= other)
    assert left.covers("1.0", str(right)) == (one <= other)


def test_a_method_is_hidden_outside_of_its_range() -> None:
    @since("2.10", until="2.20")
    def get(view: Any, request: Any) -> str:
        return "shown"

    def ask(text: str) -> str:
        answer: str = get(None, SimpleNamespace(microversion=parse(text)))
        return answer

    assert [ask("2.10"), ask("2.20")] == ["shown", "shown"]
    for text in ("2.9", "2.21"):
        with pytest.raises(NotFound):
            ask(text)
