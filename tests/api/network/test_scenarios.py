"""The Network API, scenario by scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.api.runner import Scenario, load, run
from tests.compute_rows import seed_cloud


@pytest.mark.parametrize("scenario", load(Path(__file__).parent), ids=str)
def test_scenario(scenario: Scenario, people: Any, api_client: Any) -> None:
    seed_cloud(people)
    run(scenario, people, api_client, {"v2": "/network/v2.0", "nobody": "00000000-0000-4000-8000-000000000000"})
