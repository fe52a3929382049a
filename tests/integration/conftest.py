"""Fixtures of tests whose artificial flows fail; see tests/integration/interventions.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import override_settings

from conductor.services.workflows import actions
from conductor.workflows import catalog
from conductor.workflows.flow import Flow, Step
from tests.integration.interventions import DIARY, Last
from tests.integration.receivers import Receiver

FAR_SECONDS = 600.0
LIMITS = (
    "NOVELLA_HOST_DOWN_SECONDS",
    "NOVELLA_LEASE_SECONDS",
    "NOVELLA_PLUGIN_LOAD_SECONDS",
    "NOVELLA_PLUGIN_SECONDS",
    "NOVELLA_DECISION_SECONDS",
    "NOVELLA_QUARANTINE_FIRST_SECONDS",
)


@pytest.fixture(autouse=True)
def _far_limits() -> Iterator[None]:
    """Move limits far away that could end while a test does something else; a test about one of them sets it."""
    with override_settings(**dict.fromkeys(LIMITS, FAR_SECONDS)):
        yield


@pytest.fixture
def flow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """flow(Noted("one"), OnHost(), max_attempts=2): the flow "made" from now on, with an empty diary."""
    DIARY.clear()

    def use(*parts: Step, **options: Any) -> Flow:
        made = Flow("made", 1, parts, **{"on_failure": Last(), "on_cancel": Last(), **options})
        monkeypatch.setitem(catalog._by_version, ("made", 1), made)
        return made

    yield use
    DIARY.clear()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.stop()


@pytest.fixture
def host_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every host responsive for engine and operators."""
    monkeypatch.setattr("conductor.workflows.engine.executor.is_unresponsive", lambda alias, host: False)
    monkeypatch.setattr(actions, "_heard", lambda alias, hosts: (hosts, {}))
