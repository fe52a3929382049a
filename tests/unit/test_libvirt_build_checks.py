"""A machine refuses a guest before its build: image format, memory, huge pages, processors and devices of now."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from compute_drivers.libvirt import build_checks
from conductor.core.compute_driver import GuestSpec
from conductor.core.errors import DriverError
from conductor.core.hardware.grants import Device, HardwareGrant
from conductor.core.hardware.request import InstanceCell, InstanceTopology
from conductor.core.hardware.wire import grant_to_json
from conductor.core.request_spec import FlavorSpec, ImageSpec

GUEST = GuestSpec(
    instance_uuid="u", name="web-1", hostname="web-1", project_id="shop",
    flavor=FlavorSpec(flavor_id="1", name="tiny", vcpus=1, memory_mb=300),
    image=ImageSpec(image_id="i", size=1, disk_format="raw"),
)  # fmt: skip
FREE_PAGES = 10
GPU = "0000:81:00.0"


@dataclass(frozen=True)
class Machine:
    """A machine with 300 MiB of free memory, free pages of 2 MiB, and one device."""

    root: Path

    def __post_init__(self) -> None:
        pages = self.root / "nodes" / "node0" / "hugepages" / "hugepages-2048kB"
        pages.mkdir(parents=True)
        (pages / "free_hugepages").write_text(f"{FREE_PAGES}\n")
        (self.root / "devices" / GPU).mkdir(parents=True)
        (self.root / "meminfo").write_text("MemAvailable:  307200 kB\n")

    def require(self, guest: GuestSpec) -> None:
        build_checks.require(
            guest,
            self.root,
            nodes=self.root / "nodes",
            devices=self.root / "devices",
            memory_info=self.root / "meminfo",
        )

    def refuses(self, guest: GuestSpec, reason: str) -> None:
        with pytest.raises(DriverError, match=reason):
            self.require(guest)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def on_huge_pages(memory_mb: int, cell: int = 0) -> GuestSpec:
    cells = (InstanceCell(cell, frozenset({0}), frozenset(), memory_mb, page_size_kb=2048),)
    return granted(HardwareGrant(InstanceTopology(cells)), memory_mb)


def granted(grant: HardwareGrant, memory_mb: int = 300) -> GuestSpec:
    return replace(GUEST, flavor=replace(GUEST.flavor, memory_mb=memory_mb), hardware=grant_to_json(grant))


def test_a_guest_that_fits_is_accepted(machine: Machine) -> None:
    machine.require(GUEST)
    machine.require(granted(HardwareGrant(devices=(Device(GPU),))))


def test_the_image_has_a_format_that_guests_start_from(machine: Machine) -> None:
    disc = replace(GUEST, image=replace(GUEST.image, disk_format="iso"))
    machine.refuses(disc, "start from raw and qcow2 images; image i is iso")
    machine.require(replace(disc, image=ImageSpec(image_id="")))  # it starts from a volume


def test_memory_on_huge_pages_is_counted_in_pages_of_its_cell(machine: Machine) -> None:
    machine.require(on_huge_pages(20))
    machine.refuses(on_huge_pages(22), "cell 0 of the host has 10 free pages of 2048 KiB now; the server needs 11")
    machine.refuses(on_huge_pages(2, cell=1), "cell 1 of the host has 0 free pages")
    machine.refuses(replace(GUEST, flavor=replace(GUEST.flavor, memory_mb=301)), "the server needs 301")


def test_granted_devices_and_processors_are_there(machine: Machine) -> None:
    machine.refuses(granted(HardwareGrant(devices=(Device("0000:82:00.0"),))), "not have the device 0000:82:00.0 now")
    absent = max(os.sched_getaffinity(0)) + 1
    pinned = InstanceCell(0, frozenset(), frozenset({0}), 10, cpu_policy="dedicated", pins=((0, absent),))
    machine.refuses(granted(HardwareGrant(InstanceTopology((pinned,)))), f"not have the processors {absent} now")
