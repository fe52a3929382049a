"""The simulation finds each bug that is planted in the engine."""

from __future__ import annotations

import pytest

from tests.chaos.planted import PLANTED
from tests.chaos.simulated import simulate

PLANTED_IN = 1000  # schedules at the most


@pytest.mark.timeout(900)  # the children have the processors to themselves only where nothing else runs
def test_each_planted_bug_is_found() -> None:
    assert f"{len(PLANTED)} of {len(PLANTED)} planted bugs found" in simulate(planted=PLANTED_IN)
