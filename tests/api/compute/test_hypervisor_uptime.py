"""Uptime of a hypervisor's machine: reported by its agent, in the format of each version."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo
from typing import Any

import pytest

from conductor.cell_db.models import ComputeNode, Service
from conductor.core.metrics import BOOTED_AT
from portal.api.compute.representations import hypervisors
from tests.compute_rows import Cloud

PATH = "/compute/v2.1/os-hypervisors"
HOUR, DAY = 3600, 86400
NOW = datetime.now(UTC)


class Clock(datetime):
    """A clock that stands still."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return NOW


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hypervisors, "datetime", Clock)


def booted(seconds_ago: int) -> str:
    """Return the hypervisor whose machine has been up so long."""
    report = {"capabilities": {"actions": [], BOOTED_AT: int(NOW.timestamp()) - seconds_ago}}
    ComputeNode.objects.using("cell1").update(report=report)
    return str(ComputeNode.objects.using("cell1").get().uuid)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(90, "0:01"), (5 * HOUR + 60, "5:01"), (DAY + 60, "1 day, 0:01"), (15 * DAY + HOUR + 30, "15 days, 1:00")],
)
def test_uptime_has_the_format_of_each_version(seconds: int, words: str, api_client: Any, cloud: Cloud) -> None:
    node, form = booted(seconds), re.compile(rf"[0-2]\d:[0-5]\d:[0-5]\d up {words}")
    shown = api_client("admin", version="2.87").get(f"{PATH}/{node}/uptime").json()["hypervisor"]
    assert shown.keys() == {"id", "hypervisor_hostname", "state", "status", "uptime"}
    assert form.fullmatch(shown["uptime"])
    newer = api_client("admin", version="2.88")
    assert form.fullmatch(newer.get(f"{PATH}/{node}").json()["hypervisor"]["uptime"])
    assert newer.get(f"{PATH}/{node}/uptime").status_code == 404


def test_a_host_that_is_down_shows_nothing(api_client: Any, cloud: Cloud) -> None:
    node = booted(DAY)
    Service.objects.using("cell1").update(is_forced_down=True)
    answer = api_client("admin", version="2.53").get(f"{PATH}/{node}/uptime")
    assert (answer.status_code, "unavailable" in answer.json()["badRequest"]["message"]) == (400, True)
    assert api_client("admin", version="2.88").get(f"{PATH}/{node}").json()["hypervisor"]["uptime"] is None
