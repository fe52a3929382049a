"""The placement API, scenario by scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.api.runner import Scenario, load, run


@pytest.mark.parametrize("scenario", load(Path(__file__).parent), ids=str)
def test_scenario(scenario: Scenario, people: Any, api_client: Any) -> None:
    run(scenario, people, api_client)
