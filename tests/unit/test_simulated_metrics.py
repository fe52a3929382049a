"""A simulated host reports its configured metrics, and refuses unknown ones."""

from __future__ import annotations

import pytest

from compute_drivers.fake.driver import FakeDriver
from conductor.core.errors import Invalid


def test_configured_metrics_are_reported() -> None:
    driver = FakeDriver("sim-1", {"metrics": {"cpu.percent": 0.4}}, lambda image: None)  # type: ignore[arg-type,return-value]
    assert driver.report().to_json()["metrics"] == {"cpu.percent": 0.4}


@pytest.mark.parametrize("metrics", [{"colour": 1}, {"cpu.percent": "much"}, {"cpu.percent": float("nan")}])
def test_unknown_metrics_are_refused(metrics: dict[str, object]) -> None:
    with pytest.raises(Invalid, match=r"fake\.metrics"):
        FakeDriver("sim-1", {"metrics": metrics}, lambda image: None)  # type: ignore[arg-type,return-value]
