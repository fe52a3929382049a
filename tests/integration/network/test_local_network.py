"""The choice between OVN and the user network for the real host, and what it changes in the cloud."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.management.base import CommandError

from conductor.compute.hosts import HostConfig
from conductor.core.errors import DriverError
from conductor.management import local_network
from conductor.management.default_fleet import DefaultFleet
from conductor.network import seed
from conductor.network.models import Network, Subnet
from tests.waiting import wait_until

REAL, SIMULATED = (
    HostConfig(host=name, cell="cell1", driver=driver, journal_path=Path("/none"), options={"state_dir": name})
    for name, driver in (("box", "libvirt"), ("sim-1-01", "fake"))
)
FLEET = DefaultFleet((REAL, SIMULATED), REAL.host, "")
PROJECT = "9a6b4d52f4b64ed2a8b1c9c1d6a6e7b1"

pytestmark = pytest.mark.django_db


class FakeOvn:
    """Records what is done to it."""

    refusal = ""
    calls: list[Any] = []

    def __init__(self, *arguments: object) -> None:
        self.calls.append(arguments)
        self.northbound, self.southbound = "unix:/nb", "unix:/sb"
        self.host_options = {"guest_network": "ovn"}

    def start(self) -> str:
        if self.refusal:
            raise DriverError(self.refusal)
        return "lock"

    def repair(self) -> None:
        self.calls.append("repaired")

    def stop(self, lock: str) -> None:
        self.calls.append(lock)


@pytest.fixture(autouse=True)
def ovn(monkeypatch: pytest.MonkeyPatch, settings: Any) -> type[FakeOvn]:
    """A seeded cloud whose settings are restored."""
    fresh = type("FreshOvn", (FakeOvn,), {"calls": []})
    monkeypatch.setattr(local_network, "import_string", lambda name: {local_network.LOCAL_OVN: fresh}[name])
    settings.NOVELLA_LOCAL_NETWORK, settings.NOVELLA_OVN_NORTHBOUND, settings.NOVELLA_OVN_SOUTHBOUND = "auto", "", ""
    seed.seed(PROJECT)
    return fresh


def public() -> Network:
    return Network.objects.get(is_external=True)


def test_ovn_of_the_machine_serves_the_real_host_and_the_external_network(ovn: type[FakeOvn], tmp_path: Path) -> None:
    before = public().revision_number
    with local_network.started(FLEET, tmp_path) as network:
        assert network.remark == "Network of host box: OVN; floating IPs answer here, at 198.18.0.1/20."
        assert network.hosts[0].options == {"state_dir": "box", "guest_network": "ovn"}
        assert network.hosts[1] == SIMULATED
        assert django_settings.NOVELLA_OVN_NORTHBOUND == "unix:/nb"
        assert django_settings.NOVELLA_OVN_SOUTHBOUND == "unix:/sb"
        assert ovn.calls == [(tmp_path / "ovn", "box", "machine", "198.18.0.1/20")]
    assert ovn.calls[1:] == ["lock"]
    assert (public().provider_type, public().physical_network) == ("flat", "machine")
    assert public().revision_number == before + 1


def test_ovn_is_repaired_while_it_runs(ovn: type[FakeOvn], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_network, "REPAIR_SECONDS", 0.01)
    with local_network.started(FLEET, tmp_path):
        wait_until("it is repaired", lambda: ovn.calls.count("repaired") > 1)
    assert ovn.calls[-1] == "lock"


def test_the_second_start_changes_nothing(settings: Any, tmp_path: Path) -> None:
    for _ in range(2):
        settings.NOVELLA_OVN_NORTHBOUND = ""
        with local_network.started(FLEET, tmp_path):
            revision = public().revision_number
    assert public().revision_number == revision


def test_the_physical_network_of_an_administrator_is_kept(ovn: type[FakeOvn], tmp_path: Path) -> None:
    Network.objects.filter(pk=public().pk).update(provider_type="flat", physical_network="lan")
    with local_network.started(FLEET, tmp_path):
        assert ovn.calls[0][2] == "lan"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"NOVELLA_LOCAL_NETWORK": "user"}, "NOVELLA_LOCAL_NETWORK is user"),
        ({"NOVELLA_OVN_NORTHBOUND": "tcp:10.0.0.1:6641"}, "NOVELLA_OVN_NORTHBOUND names an OVN of its own"),
    ],
    ids=str,
)
def test_what_settings_rule_out_is_not_started(
    ovn: type[FakeOvn], settings: Any, tmp_path: Path, changed: dict[str, str], reason: str
) -> None:
    for name, value in changed.items():
        setattr(settings, name, value)
    with local_network.started(FLEET, tmp_path) as network:
        assert network.remark == f"Network of host box: QEMU's user network, not OVN: {reason}."
        assert network.hosts == FLEET.hosts
    assert (ovn.calls, public().physical_network) == ([], "")


def test_where_it_cannot_start_the_reason_is_printed_or_ends_the_start(
    ovn: type[FakeOvn], settings: Any, tmp_path: Path
) -> None:
    ovn.refusal = "another Novella on this machine has it"
    with local_network.started(FLEET, tmp_path) as network:
        assert network.remark.endswith("QEMU's user network, not OVN: another Novella on this machine has it.")
    settings.NOVELLA_LOCAL_NETWORK = "ovn"
    required = "NOVELLA_LOCAL_NETWORK: OVN cannot be started: another Novella on this machine has it."
    with pytest.raises(CommandError, match=required), local_network.started(FLEET, tmp_path):
        pass
    assert public().physical_network == ""


def test_a_cloud_without_a_real_host_has_no_network_of_its_own(ovn: type[FakeOvn], tmp_path: Path) -> None:
    fleet = DefaultFleet((SIMULATED,), "", "")
    with local_network.started(fleet, tmp_path) as network:
        assert network == local_network.LocalNetwork((SIMULATED,), "")
    assert ovn.calls == []


def test_an_external_network_without_a_gateway_or_with_a_vlan_is_not_connected(tmp_path: Path) -> None:
    Network.objects.filter(pk=public().pk).update(provider_type="vlan", physical_network="lan", segmentation_id=7)
    assert seed.outside() is None
    Network.objects.filter(pk=public().pk).update(provider_type="", physical_network="", segmentation_id=None)
    assert seed.outside() is not None
    Subnet.objects.filter(network=public()).update(gateway_ip=None)
    with local_network.started(FLEET, tmp_path) as network:
        assert "there is no default external network with an IPv4 gateway" in network.remark
