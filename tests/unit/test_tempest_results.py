"""Results of the suite are counted by class, and compared with the known failures."""

from __future__ import annotations

from tests.tempest_suite import results

LINES = """
tempest.api.compute.test_flavors.FlavorsTest.test_list[id-1,smoke]\tsuccess
tempest.api.compute.test_flavors.FlavorsTest.test_show[id-2]\tfail
tempest.api.volume.test_volumes.VolumesTest.test_list[id-3]\tskip
setUpClass (tempest.api.network.test_ports.PortsTest)\tfail
"""
FLAVORS = "tempest.api.compute.test_flavors.FlavorsTest"


def test_outcomes_are_counted_by_class() -> None:
    found = results.table(results.read(LINES))
    assert [line.split() for line in found] == [
        ["passed", "failed", "skipped", "class"],
        ["1", "1", "0", "compute.test_flavors.FlavorsTest"],
        ["0", "1", "0", "network.test_ports.PortsTest"],
        ["0", "0", "1", "volume.test_volumes.VolumesTest"],
        ["1", "2", "1", "all"],
    ]


def test_new_failures_and_those_that_pass_by_now_are_named() -> None:
    outcomes = results.read(LINES)
    assert results.differences(outcomes, {f"{FLAVORS}.test_show", "tempest.api.network.test_ports.PortsTest"}) == []
    assert results.differences(outcomes, {f"{FLAVORS}.test_list", f"{FLAVORS}.test_show"}) == [
        "failed: tempest.api.network.test_ports.PortsTest",
        f"passed, take it out of known_failures.txt: {FLAVORS}.test_list",
    ]


def test_comments_are_no_failures() -> None:
    assert results.known(["# why", "", f"{FLAVORS}.test_list"]) == {f"{FLAVORS}.test_list"}
