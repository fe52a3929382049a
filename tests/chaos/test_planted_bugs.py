"""The simulation finds each bug that is planted in the engine, in the schedules that the engine has to pass."""

from __future__ import annotations

import pytest

from tests.chaos.planted import PLANTED
from tests.chaos.simulated import CROWDED, simulate


@pytest.mark.timeout(900)  # the children have the processors to themselves only where nothing else runs
def test_each_planted_bug_is_found() -> None:
    assert f"{len(PLANTED)} of {len(PLANTED)} planted bugs found" in simulate(planted=CROWDED)
