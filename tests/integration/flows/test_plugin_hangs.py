"""Servers are built although a plugin never comes back, or the launch ends with an answer that names it."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.api_db.models import InstanceMapping, PluginQuarantine
from conductor.cell_db.models import Instance
from conductor.core.context import system_context
from conductor.core.plugin_choice import FILTER
from conductor.services.plugins import plugins
from conductor.services.plugins.plugins import PluginSettingsChange
from conductor.services.servers import instances
from tests.fixtures.plugin_imports import install
from tests.fixtures.plugin_quarantine import moody
from tests.fixtures.plugin_use import use

__all__ = ["install", "moody", "use"]

pytestmark = pytest.mark.usefixtures("databases")


def test_servers_are_built_while_a_filter_hangs(moody: Any, launch: Any, settings: Any) -> None:
    settings.NOVELLA_PLUGIN_SECONDS = 0.05
    plugins.change(
        system_context(),
        FILTER,
        plugins={"Moody": PluginSettingsChange(on_failure="let pass", keys=frozenset({"on_failure"}))},
    )
    moody.mood = "matches"
    first = launch("first")
    row = PluginQuarantine.objects.get()
    assert (row.name, row.cause) == ("Moody", "losses")
    second = launch("second")  # without a call of the plugin
    for uuid in (first, second):
        alias = InstanceMapping.objects.get(instance_uuid=uuid).cell.name
        assert Instance.objects.using(alias).get(uuid=uuid).vm_state == "active"


HEAVY = """
from conductor.core.weigher import Weigher
from conductor.hookspecs import hookimpl

class Heavy(Weigher):
    name = "Heavy"

    def weigh(self, hosts, spec):
        return sum(range(10**15))

@hookimpl
def register_weighers():
    return [Heavy]
"""


def test_servers_are_built_while_a_weigher_hangs(install: Any, launch: Any, admin: Any, settings: Any) -> None:
    settings.NOVELLA_PLUGIN_SECONDS, settings.NOVELLA_PLUGIN_LOAD_SECONDS = 0.05, 600.0
    install(good_plugins=HEAVY)
    for name in ("first", "second"):
        assert instances.get(admin, launch(name)).vm_state == "active"
    row = PluginQuarantine.objects.get()
    assert (row.kind, row.name, row.cause) == ("weigher", "Heavy", "losses")


def test_a_launch_ends_with_the_name_of_the_prefilter_that_hangs(use: Any, launch: Any, admin: Any) -> None:
    use("prefilter", "TroubleTrait", mode="counts")
    for why in ("did not answer within 0.5 seconds", "in quarantine"):
        view = instances.get(admin, launch(why.split(" ")[0]))
        assert (view.vm_state, view.host) == ("error", "")
        assert view.fault is not None
        assert f"The pre-filter TroubleTrait gave no answer: {why}" in view.fault.message
