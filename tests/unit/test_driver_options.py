"""Options of drivers: typed, with defaults, and refused by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from compute_drivers.container.options import ContainerOptions
from compute_drivers.fake.options import FakeOptions
from compute_drivers.libvirt.options import LibvirtOptions
from compute_drivers.options import parse
from compute_drivers.plugin import register_compute_drivers
from compute_drivers.redfish.machines import Machine
from compute_drivers.redfish.options import RedfishOptions
from conductor.core.compute_driver import CAPABILITIES
from conductor.core.errors import Invalid

DOCS = Path(__file__).resolve().parents[2] / "docs" / "reference" / "compute-drivers.md"


def test_missing_options_have_their_defaults() -> None:
    options = parse(LibvirtOptions, {"state_dir": "var/x"}, "libvirt")
    assert options == LibvirtOptions(state_dir=Path("var/x"))
    assert (options.virt_type, options.uri, options.vcpus, options.cpu_allocation_ratio) == ("auto", "", None, 4.0)


def test_given_options_are_converted() -> None:
    given = {"state_dir": Path("/x"), "vcpus": 3, "memory_mb": None, "cpu_allocation_ratio": 2, "virt_type": "qemu"}
    options = parse(LibvirtOptions, given, "libvirt")
    assert options == LibvirtOptions(state_dir=Path("/x"), vcpus=3, cpu_allocation_ratio=2.0, virt_type="qemu")
    assert isinstance(options.cpu_allocation_ratio, float)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({}, "Driver libvirt needs the option 'state_dir'."),
        ({"state_dir": ""}, "Option libvirt.state_dir: '' is not a path."),
        (
            {"state_dir": "/x", "statedir": "/y"},
            "Driver libvirt has no option 'statedir'. It has: cpu_",
        ),
        ({"state_dir": "/x", "virt_type": "xen"}, "Option libvirt.virt_type: 'xen' is not one of auto, kvm, qemu."),
        *(
            (
                {"state_dir": "/x", "guest_network": removed},
                f"Option libvirt.guest_network: '{removed}' is not one of ovn, qemu, none.",
            )
            for removed in ("bridge", "agent", "")
        ),
        ({"state_dir": "/x", "vcpus": True}, "Option libvirt.vcpus: True is not a whole number."),
        ({"state_dir": "/x", "vcpus": 0}, "Option libvirt.vcpus: 0 is less than 1."),
        ({"state_dir": "/x", "ram_allocation_ratio": "1"}, "Option libvirt.ram_allocation_ratio: '1' is not a number."),
        ({"state_dir": "/x", "cpu_allocation_ratio": float("nan")}, "nan is not a number."),
        ({"state_dir": "/x", "uri": None}, "Option libvirt.uri: None is not a text."),
    ],
)
def test_invalid_values_are_named(given: Mapping[str, Any], complaint: str) -> None:
    with pytest.raises(Invalid, match=re.escape(complaint)):
        parse(LibvirtOptions, given, "libvirt")


@pytest.mark.parametrize(
    ("driver", "options"),
    [
        ("container", ContainerOptions),
        ("fake", FakeOptions),
        ("libvirt", LibvirtOptions),
        ("redfish", Machine),
        ("redfish", RedfishOptions),
    ],
)
def test_every_option_is_described_on_the_driver_s_page(driver: str, options: type[Any]) -> None:
    text = (DOCS.with_name("drivers") / f"{driver}.md").read_text()
    assert [item.name for item in fields(options) if f"| `{item.name}` |" not in text] == []


def test_the_table_of_capabilities_is_what_the_drivers_declare() -> None:
    drivers = register_compute_drivers()
    table = DOCS.read_text().partition("## Which driver can do what")[2]
    head, _, *rows = [
        line.strip("| ").split(" | ") for line in table.partition("\n## ")[0].splitlines() if line[:1] == "|"
    ]
    names = [name.strip("`") for name in head[1:]]
    assert names == sorted(drivers)
    declared = [
        [what, *("yes" if what in drivers[name].capabilities else "no" for name in names)] for what in CAPABILITIES
    ]
    assert rows == declared
