"""A third-party package, built and installed like any other, is found by its entry points."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "tests" / "third_party_plugin"
BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"

LOOK = """
import json
from conductor.plugins import registry
found = registry()
info = [one for one in found.plugins if not one.is_shipped]
print(json.dumps({
    "plugins": [[one.name, one.distribution, one.version, one.filters, one.drivers] for one in info],
    "filters": [one.name for one in found.filters],
    "drivers": sorted(found.drivers),
    "quarantined": [one.distribution for one in found.quarantined if one.distribution != "novella"],
}))
"""

USE = """
import json
from conductor.core.compute_driver import GuestSpec
from conductor.core.host_state import HostState, HostTable
from conductor.core.request_spec import FlavorSpec, ImageSpec, RequestSpec
from conductor.core.scheduling.decision import explain
from conductor.core.scheduling.select import Pipeline, decide
from conductor.plugins import registry

found = registry()
room = {"vcpus": 4, "vcpus_used": 0, "memory_mb": 4096, "memory_mb_used": 0, "disk_gb": 50, "disk_gb_used": 0}
hosts = [
    HostState(f"host-{i}", f"host-{i}", "cell1", f"provider-{i}", "nova", capabilities={"rack": f"r{i}"}, **room)
    for i in range(3)
]
flavor = FlavorSpec("1", "small", 1, 512)
spec = RequestSpec("shop", "ana", flavor, scheduler_hints={"rack": ["r1"]})
pipeline = Pipeline(found.filters, found.weighers)
decision = explain(decide(HostTable.from_states(hosts), spec, ["new"], pipeline=pipeline, seed=1))

driver = found.drivers["memory"]("host-1", {"rack": "r1"}, open)
driver.start()
reported = []
guest = GuestSpec("new", "web", "web", "shop", flavor, ImageSpec())
driver.spawn(guest, lambda text, share: reported.append(text))
print(json.dumps({
    "host": decision.selections[0][0].host,
    "advice": decision.advice,
    "rack": driver.report().capabilities["rack"],
    "guests": [one.instance_uuid for one in driver.guests()],
    "console": driver.console_log("new", 4).decode(),
    "reported": reported,
}))
"""

CONTRACTS = """
import io, json, logging
logged = io.StringIO()
logging.basicConfig(stream=logged, format="%(message)s")
from conductor import hookspecs
from conductor.core.filter import Filter
from conductor.plugins import registry
import rack_plugins.plugin

hookspecs.DEPRECATED["Filter"] = {"host_passes": "define judge", "mask": "define judges"}
used = [registry(), registry()][-1]  # a second call warns no second time
warned = [line for line in logged.getvalue().splitlines() if "RackFilter" in line]
registry.cache_clear()
rack_plugins.plugin.novella_contract = (max(hookspecs.CONTRACTS) + 1, max(hookspecs.CONTRACTS) + 2)
refused = registry()
print(json.dumps({
    "warned": warned,
    "warnings": [line for one in used.plugins if not one.is_shipped for line in one.warnings],
    "works": ["RackFilter" in [one.name for one in found.filters] for found in (used, refused)],
    "drivers": ["memory" in found.drivers for found in (used, refused)],
    "refused": [one.reason for one in refused.quarantined if one.distribution == "rack-plugins"],
    "newest": max(hookspecs.CONTRACTS),
}))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the package's modules and metadata, apart from the project's own environment."""
    work = tmp_path_factory.mktemp("third-party")
    shutil.copytree(SOURCE, work / "source")
    built = subprocess.run(
        [sys.executable, "-c", BUILD, str(work)], cwd=work / "source", check=True, capture_output=True, text=True
    )
    wheel = work / built.stdout.splitlines()[-1]
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(work / "site")
    return work / "site"


def run(code: str, *paths: Path, settings: str = "") -> Any:
    """Return the output of a new interpreter; without `settings` there is no Django in it."""
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    environment["PYTHONPATH"] = os.pathsep.join(map(str, (ROOT, *paths)))
    if settings:
        environment["DJANGO_SETTINGS_MODULE"] = settings
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("settings", ["", "tests.settings"], ids=["plain", "with Django"])
def test_an_installed_package_is_found(site: Path, settings: str) -> None:
    before = run(LOOK, settings=settings)
    after = run(LOOK, site, settings=settings)
    assert before["plugins"] == []
    assert after["plugins"] == [["racks", "rack-plugins", "1.4.2", ["RackFilter"], ["memory"]]]
    assert after["filters"] == [*before["filters"], "RackFilter"]
    assert after["drivers"] == sorted([*before["drivers"], "memory"])
    assert after["quarantined"] == []


def test_its_filter_decides_and_its_driver_builds(site: Path) -> None:
    assert run(USE, site) == {
        "host": "host-1",
        "advice": ["1 of 3 hosts is eligible.", "2 of 3 hosts: host is in another rack."],
        "rack": "r1",
        "guests": ["new"],
        "console": "login:\n",
        "reported": ["remembering the guest"],
    }


def test_deprecations_are_logged_once_and_a_newer_contract_is_refused(site: Path) -> None:
    reported = run(CONTRACTS, site)
    line = "RackFilter defines host_passes, which is deprecated: define judge"
    assert reported["warned"] == [f"plugin uses what is deprecated: name=rack-plugins:racks {line}"]
    assert reported["warnings"] == [line]
    assert (reported["works"], reported["drivers"]) == ([True, False], [True, False])
    newer = reported["newest"] + 1
    assert reported["refused"] == [
        f"it was made for contract {newer}, and here is {newer - 1}: it needs a newer Novella"
    ]


def test_its_driver_passes_the_conformance_suite(site: Path, tmp_path: Path) -> None:
    suite = shutil.copy(SOURCE / "conformance" / "check_memory_driver.py", tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:django", "-c", os.devnull]
    paths = os.pathsep.join(map(str, (ROOT, site)))
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    done = subprocess.run(
        [*command, "--rootdir", str(tmp_path), suite], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert not {"skipped", "failed", "error"} & set(done.stdout.split())
