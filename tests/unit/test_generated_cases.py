"""Generated cases are the same in each run of a commit."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

COUNT = 100


def cases() -> list[int]:
    """Return what one test is given."""
    given_numbers: list[int] = []

    @settings(max_examples=50, database=None)
    @given(st.lists(st.integers(), min_size=20, max_size=20))
    def remember(numbers: list[int]) -> None:
        given_numbers.extend(numbers)

    remember()
    return given_numbers


def test_cases_do_not_depend_on_which_modules_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = cases()
    path = tmp_path / "numbers_of_a_product.py"
    path.write_text(f"NUMBERS = {[7_000_000_000 + number for number in range(COUNT)]}\n")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, path.stem, module)
    assert (cases() == before) is not bool(os.environ.get("TEST_RANDOM"))  # which asks for other cases
