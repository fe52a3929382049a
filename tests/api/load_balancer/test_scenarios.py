"""The load balancer API, scenario by scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.api.runner import Scenario, load, run

UNKNOWN = "00000000-0000-4000-8000-000000000000"


@pytest.mark.parametrize("scenario", load(Path(__file__).parent), ids=str)
def test_scenario(scenario: Scenario, people: Any, api_client: Any, settings: Any) -> None:
    settings.NOVELLA_OVN_NORTHBOUND = "" if "without OVN" in scenario.name else "unix:/none.sock"
    names = {"lb": "/load-balancer/v2.0/lbaas", "v2": "/network/v2.0", "unknown": UNKNOWN}
    run(scenario, people, api_client, names)
