"""The operators of extra specs, one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.core.extra_spec_operators import match

CASES = [
    ("4", "4", True),
    ("4", "4.0", False),  # without an operator, texts are compared
    ("5", "= 4", True),  # at least
    ("4", "= 4", True),
    ("3", "= 4", False),
    ("4.0", "== 4", True),
    ("4", "!= 4", False),
    ("10", ">= 9", True),
    ("9", "<= 10", True),
    ("ten", ">= 9", False),
    ("10", ">= nine", False),
    ("10", ">=", False),
    ("abc", "s== abc", True),
    ("abc", "s!= abc", False),
    ("10", "s< 9", True),
    ("10", "s<= 10", True),
    ("b", "s> a", True),
    ("a", "s>= b", False),
    ("abc", "s==", False),
    ("a b c", "<in> b", True),
    ("a b c", "<in> d", False),
    ("a b c", "<in>", False),
    ("['aes', 'avx']", "<all-in> aes avx", True),
    ("['aes', 'avx']", "<all-in> aes sse", False),
    ("aes", "<all-in>", False),
    ("b", "<or> a <or> b", True),
    ("c", "<or> a <or> b", False),
    ("<or>", "<or> a <or> b", False),
    ("", "", True),
    ("x", "", False),
    ("> 4", "> 4", True),  # no such operator: plain equality
]


@pytest.mark.parametrize(("value", "requirement", "meets"), CASES)
def test_operators(value: str, requirement: str, meets: bool) -> None:
    assert match(value, requirement) is meets


@given(st.text(max_size=12), st.text(max_size=12))
def test_any_texts_get_an_answer(value: str, requirement: str) -> None:
    assert match(value, requirement) in (True, False)


@given(st.integers(-1000, 1000), st.integers(-1000, 1000))
def test_numbers_compare_as_numbers(value: int, operand: int) -> None:
    answers = [match(str(value), f"{symbol} {operand}") for symbol in ("=", ">=", "<=", "==", "!=")]
    assert answers == [value >= operand, value >= operand, value <= operand, value == operand, value != operand]
