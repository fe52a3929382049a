"""Modules of plugins are imported in workers: one that hangs or ends its process meanwhile is left out, and shown."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conductor.core.errors import Invalid
from conductor.core.filter import Filter
from conductor.core.plugin_choice import FILTER, WEIGHER, PluginKindSettings, PluginSettings
from conductor.core.weigher import Weigher
from conductor.plugins import Registry, check_plugins, chosen, registry, workers
from conductor.plugins.registry import LoadParameters, SourceDescription, SourceKey
from conductor.services.plugins import catalog, plugins
from conductor.services.plugins.plugins import PluginSettingsChange
from tests.fixtures.page_text import text
from tests.fixtures.plugin_imports import HANGS, LEAVES, Install, install
from tests.fixtures.plugin_quarantine import OPERATOR, ask
from tests.fleet import add_host
from tests.integration.page_clients import signed_in
from tests.waiting import WAIT_SECONDS

__all__ = ["install"]

ROOT = Path(__file__).parents[3]
pytestmark = [pytest.mark.usefixtures("databases"), pytest.mark.timeout(600)]

GOOD = '''
"""A package that behaves."""
from conductor.core.compute_driver import ComputeDriver
from conductor.core.errors import Invalid
from conductor.core.filter import Filter
from conductor.core.verdict import PASS, reject
from conductor.core.weigher import Weigher
from conductor.hookspecs import hookimpl

class Moon(Filter):
    """Keeps `hosts` of the moon."""

    name = "Moon"
    runs_on_rebuild = True
    options_schema = {"host": {"type": "string", "default": "one"}}

    def host_passes(self, host, spec):
        return PASS if host.host == self.options["host"] else reject("not on the moon")

class Tide(Weigher):
    """Gives each host the weight of an option."""

    name = "Tide"
    multiplier_option = "tide_multiplier"
    options_schema = {"pull": {"type": "number", "default": 1.0}}

    def __init__(self, options=None):
        super().__init__(options)
        if self.options["pull"] > 9:
            raise ValueError("/secret/path")
        self.multiplier = self.options["pull"]

    def weigh(self, hosts, spec):
        return hosts.free_vcpus

class Boat(ComputeDriver):
    """Has servers on a boat."""

    name = "boat"

@hookimpl
def register_filters():
    return [Moon]

@hookimpl
def register_weighers():
    return [Tide]

@hookimpl
def register_compute_drivers():
    return {"boat": Boat}
'''
LATE = "it was not loaded within 1.5 seconds: its process was stopped"
NEVER = 3600.0
GONE = "it ended its process while it was loaded"


def foreign(found: Registry) -> list[str]:
    return [info.name for info in found.plugins if not info.is_shipped]


def test_a_package_that_hangs_while_it_is_imported_is_left_out_and_servers_are_placed(
    install: Install, people: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(good_plugins=GOOD, **HANGS, **LEAVES)
    describe = workers.describe

    def described(loads: LoadParameters, source: SourceKey, seconds: float) -> SourceDescription:
        is_stopped = source[1] in HANGS
        return describe(loads, source, seconds if is_stopped else NEVER)

    monkeypatch.setattr(workers, "describe", described)
    found = registry()
    assert foreign(found) == ["good_plugins"]
    reasons = {one.name: one.reason for one in found.quarantined}
    assert reasons == {**dict.fromkeys(HANGS, LATE), **dict.fromkeys(LEAVES, GONE)}
    for name, reason in reasons.items():
        assert f"plugin quarantined: name={name}" in caplog.text
        assert [one.msg for one in check_plugins() if f"Plugin {name} " in one.msg] == [
            f"Plugin {name} of {name} is not used: {reason}."
        ]
    page = text(signed_in("admin").get("/plugins"))
    assert LATE in page
    assert GONE in page
    assert not {"good_plugins", *HANGS, *LEAVES} & sys.modules.keys()
    for host in ("one", "two"):
        add_host(host)
    decision = ask()
    assert (decision.summary["faults"], decision.selections[0][0]["host"]) == ([], "one")
    assert "good_plugins" not in sys.modules


def test_declarations_of_a_plugin_are_known_without_importing_it(install: Install, settings: Any) -> None:
    settings.NOVELLA_PLUGIN_LOAD_SECONDS = NEVER
    install(good_plugins=GOOD)
    found = registry()
    moon = next(one for one in found.filters if one.name == "Moon")
    tide = next(one for one in found.weighers if one.name == "Tide")
    assert isinstance(moon, Filter)
    assert (moon.runs_on_rebuild, moon.runs_once_per_request, moon.options) == (True, False, {"host": "one"})
    assert isinstance(tide, Weigher)
    assert (tide.multiplier, tide.multiplier_option) == (1.0, "tide_multiplier")
    views = {one.name: one for one in catalog.catalogue(OPERATOR).plugins}
    assert views["Moon"].description == "Keeps hosts of the moon."
    assert views["boat"].description == "Has servers on a boat."
    assert "good_plugins" not in sys.modules


def test_options_make_the_real_one_in_a_worker(install: Install, settings: Any) -> None:
    settings.NOVELLA_PLUGIN_LOAD_SECONDS = NEVER
    install(good_plugins=GOOD)
    for host in ("one", "two"):
        add_host(host)
    plugins.change(
        OPERATOR, FILTER, plugins={"Moon": PluginSettingsChange(options={"host": "two"}, keys=frozenset({"options"}))}
    )
    assert ask().selections[0][0]["host"] == "two"
    with pytest.raises(Invalid, match=r"Tide does not take these options \(ValueError\)"):
        plugins.change(
            OPERATOR, WEIGHER, plugins={"Tide": PluginSettingsChange(options={"pull": 10}, keys=frozenset({"options"}))}
        )
    force = chosen(registry(), {WEIGHER: PluginKindSettings(per_plugin={"Tide": PluginSettings(options={"pull": 4})})})
    assert next(one for one in force.weighers if one.name == "Tide").multiplier == 4
    assert "good_plugins" not in sys.modules


def test_a_driver_is_imported_by_the_process_that_uses_it(install: Install, settings: Any) -> None:
    settings.NOVELLA_PLUGIN_LOAD_SECONDS = NEVER
    install(good_plugins=GOOD)
    found = registry()
    assert ("boat" in found.drivers, "good_plugins" in sys.modules) == (True, False)
    kind = found.drivers["boat"]
    assert kind is sys.modules["good_plugins"].Boat


def test_a_command_starts_although_a_package_hangs(install: Install, tmp_path: Path) -> None:
    install(good_plugins=GOOD, **HANGS)
    (tmp_path / "quick_settings.py").write_text("from tests.settings import *\nNOVELLA_PLUGIN_LOAD_SECONDS = 1.5\n")
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}", "DJANGO_SETTINGS_MODULE": "quick_settings"}
    command = [sys.executable, "manage.py", "check"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=2 * WAIT_SECONDS)
    assert done.returncode == 0, done.stderr
    for name in HANGS:
        assert f"Plugin {name} of {name} is not used: {LATE}." in done.stderr
