"""A server is built although a filter of others never comes back."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.api_db.models import InstanceMapping, PluginQuarantine
from conductor.cell_db.models import Instance
from conductor.core.context import system_context
from conductor.core.plugin_choice import FILTER
from conductor.services import plugins
from conductor.services.plugins import Change
from tests.integration.test_plugin_quarantine import moody

__all__ = ["moody"]

pytestmark = pytest.mark.usefixtures("databases")


def test_servers_are_built_while_a_filter_hangs(moody: Any, launch: Any, settings: Any) -> None:
    settings.NOVELLA_PLUGIN_SECONDS, settings.NOVELLA_QUARANTINE_AFTER = 0.05, 1
    plugins.change(
        system_context(), FILTER, plugins={"Moody": Change(on_failure="let pass", keys=frozenset({"on_failure"}))}
    )
    moody.mood = "matches"
    first = launch("first")
    row = PluginQuarantine.objects.get()
    assert (row.name, row.cause) == ("Moody", "overruns")
    assert "took too long in 1" in row.reason
    second = launch("second")  # without a call of the plugin
    for uuid in (first, second):
        alias = InstanceMapping.objects.get(instance_uuid=uuid).cell.name
        assert Instance.objects.using(alias).get(uuid=uuid).vm_state == "active"
