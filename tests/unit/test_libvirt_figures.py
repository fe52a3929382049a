"""libvirt's statistics of a guest, in the API's format."""

from __future__ import annotations

from typing import Any

import pytest

from compute_drivers.libvirt.statistics import to_diagnostics

STATS = {
    "vcpu.current": 2,
    "vcpu.maximum": 3,
    "vcpu.0.state": 1,
    "vcpu.0.time": 7,
    "vcpu.2.state": 1,
    "vcpu.2.time": 9,
    "balloon.current": 65536,
    "balloon.maximum": 131072,
    "block.count": 2,
    "block.0.name": "vda",
    "block.0.rd.bytes": 512,
    "block.0.rd.reqs": 1,
    "block.0.wr.bytes": 0,
    "block.1.name": "hdd",
    "block.1.rd.bytes": 2048,
}


def test_statistics_have_the_names_of_the_api_and_cdroms_are_no_disks() -> None:
    reported = to_diagnostics(STATS, {"hdd"})
    assert reported["cpus"] == [{"id": 0, "time": 7}, {"id": 2, "time": 9}]
    assert reported["disks"] == [{"read_bytes": 512, "read_requests": 1, "write_bytes": 0}]
    assert reported["hypervisor_os"] == "linux"


@pytest.mark.parametrize(
    ("more", "memory"),
    [
        ({}, {"maximum": 128, "used": 64}),
        ({"balloon.available": 61440, "balloon.unused": 40960}, {"maximum": 128, "used": 20}),
        ({"balloon.available": 61440}, {"maximum": 128, "used": 64}),
    ],
)
def test_memory_that_a_guest_reports_as_used_is_shown(more: dict[str, Any], memory: dict[str, int]) -> None:
    assert to_diagnostics({**STATS, **more}, ())["memory"] == memory


def test_missing_statistics_are_left_out() -> None:
    assert to_diagnostics({}, ()) == {"cpus": [], "disks": [], "memory": {}, "hypervisor_os": "linux"}
