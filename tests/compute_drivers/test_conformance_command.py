"""`novella-driver-conformance`: levels, what is broken by name, and a report; of drivers that are right and wrong."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from conductor.conformance import command
from conductor.conformance.report import BROKEN, CORE, FULL, KEPT, MIGRATION, NOT_OFFERED, SNAPSHOT, Law, levels
from conductor.core.compute_driver import CAPABILITIES

ROOT = Path(__file__).parents[2]
HANGS_SECONDS = 30  # the limit of one check, where one hangs
NEVER_SECONDS = 900  # the limit where none does
WRONG = """
import os
from my_driver.driver import MyDriver
from tests.waiting import take_time

class Wrong(MyDriver):
    capabilities = frozenset({"pause", "snapshot"})

    slept = False

    def snapshot(self, instance_uuid, image_id, store, progress):
        if not self.slept:
            self.slept = True
            take_time(3600)  # it hangs

    def pause(self, instance_uuid):
        pass  # it says that it did

    def unpause(self, instance_uuid):
        raise ValueError("no idea")

class Ending(MyDriver):
    def console_log(self, instance_uuid, offset):
        os._exit(0)

class Leaking(MyDriver):
    def destroy(self, instance_uuid):
        pass
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with third-party drivers."""
    work = tmp_path_factory.mktemp("drivers")
    call_command("startplugin", "driver", "my_driver", str(work / "made"), verbosity=0)
    (work / "wrong.py").write_text(WRONG)
    (work / "my_driver").symlink_to(work / "made" / "src" / "my_driver")
    return work


def ask(folder: Path, driver: str, *words: str, check_seconds: int = NEVER_SECONDS) -> tuple[int, str, dict[str, Any]]:
    """Return the command's exit code, its output, and its report."""
    path = folder / "report.json"
    options = ("--option", f"folder={folder / 'guests'}", "--json", str(path), "--check-seconds", str(check_seconds))
    done = subprocess.run(
        [sys.executable, "-m", "conductor.conformance.command", driver, *options, *words],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr, json.loads(path.read_text())


def outcomes(report: dict[str, Any], outcome: str) -> dict[str, str]:
    return {law["name"]: law["why"] for law in report["laws"] if law["outcome"] == outcome}


def test_a_conforming_driver_has_its_level(folder: Path) -> None:
    ended, output, report = ask(folder, "my_driver.driver:MyDriver", "--level", "core")
    assert ended == 0, output
    assert "level: core (core)" in output
    assert (report["report"], report["driver"], report["level"], report["levels"]) == (1, "my_driver", "core", ["core"])
    assert report["class"] == "my_driver.driver:MyDriver"
    assert (report["counts"][BROKEN], report["capabilities"]) == (0, [])
    assert report["counts"][KEPT] >= 25
    assert {"test_moved_while_it_runs", "test_paused_and_going_on"} <= outcomes(report, NOT_OFFERED).keys()
    assert "test_a_process_killed_with_9_leaves_what_can_be_built_again_and_removed" in outcomes(report, KEPT)


def test_a_driver_that_hangs_or_raises_is_reported_and_keeps_its_other_levels(folder: Path) -> None:
    ended, output, report = ask(folder, "wrong:Wrong", "--level", "snapshot", check_seconds=HANGS_SECONDS)
    assert ended == 1
    assert report["level"] == "core", output
    broken = outcomes(report, BROKEN)
    assert [law for law, why in broken.items() if f"took longer than {HANGS_SECONDS} seconds" in why] != []
    assert "test_a_snapshot_of_a_guest_that_runs_and_of_one_that_is_off" in broken
    assert "test_paused_and_going_on" in broken
    assert "broken: test_paused_and_going_on: " in output


def test_a_driver_that_leaks_guests_has_no_level(folder: Path) -> None:
    ended, output, report = ask(folder, "wrong:Leaking")
    assert (ended, report["level"], report["levels"]) == (1, "none", [])
    assert "guests are left: " in output


def test_a_driver_that_ends_its_process_is_reported_and_the_checks_continue(folder: Path) -> None:
    ended, output, report = ask(folder, "wrong:Ending")
    assert (ended, report["levels"]) == (1, []), output
    broken = outcomes(report, BROKEN)
    assert broken["test_the_console_only_grows"] == "it ended its process with code 0"
    assert len(outcomes(report, KEPT)) >= 20
    assert not [why for why in broken.values() if "guests are left" in why]


def test_levels_depend_on_declared_and_passed_capabilities() -> None:
    kept, moved = Law("a", KEPT), Law("b", KEPT, ("live_migrate",))
    both = {"migrate", "live_migrate"}
    assert levels([kept, moved], both) == [CORE, MIGRATION]
    assert levels([kept, moved], {"migrate", "snapshot"}) == [CORE, SNAPSHOT]
    assert levels([kept, Law("b", BROKEN, ("live_migrate",))], both | {"snapshot"}) == [CORE, SNAPSHOT]
    assert levels([kept, moved], CAPABILITIES) == [CORE, MIGRATION, SNAPSHOT, FULL]
    assert levels([kept, Law("b", BROKEN, ("pause",))], CAPABILITIES) == [CORE, MIGRATION, SNAPSHOT]
    assert levels([kept, Law("b", BROKEN)], CAPABILITIES) == []
    assert levels([Law("a", NOT_OFFERED, ("pause",))], set()) == levels([], set()) == []


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["fkae"], "driver: no plugin brings fkae. Known: "),
        (["json:dumps"], "driver: json:dumps is no subclass of ComputeDriver."),
        (["nowhere:Mine"], "driver: nowhere:Mine cannot be imported"),
        (["fake", "--option", "vcpus"], "--option: vcpus is not KEY=VALUE."),
        (["fake", "--option", "vcpu=4"], "Driver fake has no option 'vcpu'."),
        (["fake", "--image", "no/such.img"], "--image: no/such.img cannot be read: No such file"),
    ],
)
def test_invalid_requests_are_reported_in_one_line(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["novella-driver-conformance"]
    main = EntryPoint("novella-driver-conformance", script, "console_scripts").load()
    assert main is command.main
    assert main(words) == command.USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"novella-driver-conformance: {complaint}")
