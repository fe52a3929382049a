"""The file of further hosts: each of its hosts is started, and errors are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.management.base import CommandError

from conductor.compute.hosts import HostConfig
from conductor.management import hosts_file
from conductor.management.default_fleet import default_fleet

GOOD = """
[[host]]
name = "box-1"
driver = "fake"
cell = "cell2"
zone = "az-3"
options.latency_seconds = 0.5

[[host]]
name = "box-2"
driver = "fake"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hosts.toml"


def test_the_hosts_of_the_file_are_started_beside_the_others(path: Path, settings: Any) -> None:
    path.write_text(GOOD)
    settings.NOVELLA_REAL_HOST, settings.NOVELLA_SIMULATED_HOSTS, settings.NOVELLA_HOSTS_FILE = "off", 1, path
    hosts = default_fleet(path.parent).hosts
    assert [one.host for one in hosts] == ["sim-1-01", "sim-2-01", "box-1", "box-2"]
    assert hosts[2] == HostConfig(
        host="box-1",
        cell="cell2",
        driver="fake",
        options={"latency_seconds": 0.5},
        availability_zone="az-3",
        journal_path=path.parent / "agents" / "box-1.sqlite3",
    )
    assert (hosts[3].cell, hosts[3].availability_zone, hosts[3].options) == ("cell1", "nova", {})
    path.write_text('[[host]]\nname = "sim-1-01"\ndriver = "fake"\n')
    with pytest.raises(CommandError, match="NOVELLA_HOSTS_FILE: there is a host sim-1-01 without the file already"):
        default_fleet(path.parent)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[[host]", "is no TOML"),
        ("", "holds nothing but tables"),
        ('host = "box-1"', "holds nothing but tables"),
        ("[[host]]\n[other]", "holds nothing but tables"),
        ('[[host]]\ndriver = "fake"', "host[0].name: a text is needed"),
        ('[[host]]\nname = "box-1"', "host[0].driver: a text is needed"),
        ('[[host]]\nname = "../1"\ndriver = "fake"', "host[0].name: a name has letters"),
        ('[[host]]\nname = "box-1"\ndriver = "fakes"', "host[0].driver: there is no driver fakes; there are container"),
        ('[[host]]\nname = "box-1"\ndriver = "fake"\ncell = "x"', "host[0].cell: there is no cell x; there are cell1"),
        ('[[host]]\nname = "box-1"\ndriver = "fake"\nzone = 1', "host[0].zone: a text is needed"),
        ('[[host]]\nname = "box-1"\ndriver = "fake"\nport = 1', "host[0]: port is not known; there are name, driver"),
        ('[[host]]\nname = "box-1"\ndriver = "fake"\noptions = 1', "host[0].options: a table is expected"),
        (GOOD.replace("box-2", "box-1"), "host[1].name: box-1 is there twice"),
    ],
)
def test_invalid_values_are_named(path: Path, text: str, reason: str) -> None:
    path.write_text(text)
    with pytest.raises(CommandError) as refusal:
        hosts_file.read(path, path.parent)
    assert str(refusal.value).startswith("NOVELLA_HOSTS_FILE: ")
    assert reason in str(refusal.value)


def test_a_file_that_is_not_there_is_named(path: Path) -> None:
    with pytest.raises(CommandError, match=r"hosts\.toml cannot be read: No such file or directory"):
        hosts_file.read(path, path.parent)
