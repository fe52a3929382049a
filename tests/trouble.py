"""Steps that fail, for tests of flows."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.workflows.flow import Step


class Trouble:
    """Makes a part of a step fail so many times, after it has had its effect: the worst moment."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch

    def strike(self, step: Step, part: str, times: int) -> None:
        whole = getattr(type(step), part)
        left = times

        def broken(*args: Any) -> Any:
            nonlocal left
            result = whole(*args)
            if left:
                left -= 1
                raise RuntimeError("struck")
            return result

        self.monkeypatch.setattr(type(step), part, broken)


@pytest.fixture
def trouble(monkeypatch: pytest.MonkeyPatch) -> Trouble:
    return Trouble(monkeypatch)
