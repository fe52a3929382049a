"""The domain that the destination of a migration receives: the present machine, with the destination's paths."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from compute_drivers.libvirt import migration_xml, qemu_network
from compute_drivers.libvirt.domain_xml import NAMESPACE, QEMU_NAMESPACE
from conductor.core.compute_driver import NetworkPort

FIRST = NetworkPort("p1", "private", "fa:16:3e:00:00:01", "10.64.0.3", 20, "10.64.0.0/20", "10.64.0.1")
SECOND = NetworkPort("p2", "back", "fa:16:3e:00:00:02", "192.168.7.20", 24, "192.168.7.0/24")
PATHS = {"/a/instances/u": "/b/guests/u", "/a/images": "/b/images", "/a/consoles/u.log": "/b/log/u"}
WORDS = qemu_network.arguments([FIRST], "web")
DOMAIN = f"""
<domain xmlns:qemu="{QEMU_NAMESPACE}">
  <metadata><n:instance xmlns:n="{NAMESPACE}"><n:host>a</n:host></n:instance></metadata>
  <os><kernel>/a/images/k</kernel><cmdline>root=/a/images2</cmdline></os>
  <devices>
    <disk type="file" device="disk"><source file="/a/instances/u/root.qcow2"/>
      <backingStore type="file"><source file="/a/images/i"/></backingStore><target dev="vda"/></disk>
    <disk type="file" device="disk"><source file="/srv/volume.qcow2"/><target dev="vdb"/></disk>
    <disk type="file" device="cdrom"><source file="/a/instances/u/config.iso"/><target dev="hda"/></disk>
    <serial><log file="/a/consoles/u.log"/></serial>
  </devices>
  <qemu:commandline>{"".join(f'<qemu:arg value="{word}"/>' for word in WORDS)}</qemu:commandline>
</domain>"""


def rewritten(cards: dict[str, int]) -> str:
    return migration_xml.rewrite(DOMAIN, PATHS, "b", migration_xml.Nics(cards, [FIRST, SECOND]))


def test_paths_of_the_source_become_those_of_the_destination_and_nothing_else_changes() -> None:
    text = rewritten({"card-p1": 16})
    for expected in (
        *('"/b/guests/u/root.qcow2"', '"/b/guests/u/config.iso"', '"/b/log/u"', ">/b/images/k<"),
        *('"/srv/volume.qcow2"', ">root=/a/images2<", "host>b<"),
    ):
        assert expected in text
    assert '"/a/' not in text
    assert "backingStore" not in text


@pytest.mark.parametrize(
    ("cards", "words"),
    [
        ({"card-p1": 16}, WORDS),
        ({"card-p1": 16, "card-p2": 19}, [*WORDS, *qemu_network.attached_arguments(19, SECOND)]),
        ({"card-p2": 16}, qemu_network.attached_arguments(16, SECOND)),
        ({}, []),
    ],
    ids=["as it was", "one was plugged", "one was changed for another", "none is left"],
)
def test_the_cards_are_those_that_the_guest_has_now(cards: dict[str, int], words: list[str]) -> None:
    found = ElementTree.fromstring(rewritten(cards)).iter(migration_xml.ARGUMENT)
    assert [word.get("value") for word in found] == words


def test_taps_are_those_of_the_destination() -> None:
    """The second was plugged while the guest ran."""

    def taps(prefix: str) -> qemu_network.BackendOf:
        return lambda port: qemu_network.Tap(f"{prefix}-{port.port_uuid}")

    words = qemu_network.arguments([FIRST], "web", backends=taps("no0a0a"))
    cards = migration_xml.Nics({"card-p1": 16, "card-p2": 19}, [FIRST, SECOND], taps("no0a0a"))
    domain = DOMAIN.replace(WORDS[1], words[1])
    text = migration_xml.rewrite(domain, {**PATHS, "no0a0a": "no0b0b"}, "b", cards)
    found = [str(word.get("value")) for word in ElementTree.fromstring(text).iter(migration_xml.ARGUMENT)]
    assert found[1] == "tap,id=port-p1,ifname=no0b0b-p1,script=no,downscript=no,vnet_hdr=off"
    assert found[5] == "tap,id=port-p2,ifname=no0b0b-p2,script=no,downscript=no,vnet_hdr=off"


def test_only_the_guest_s_own_disks_are_sent() -> None:
    assert migration_xml.own_disks(DOMAIN, "/a/instances/u") == {"vda": Path("/a/instances/u/root.qcow2")}


def test_qemu_says_which_cards_there_are() -> None:
    devices = [{"qdev_id": "card-p1", "slot": 16}, {"qdev_id": "", "slot": 0}, {"qdev_id": "virtio-disk0", "slot": 3}]
    assert migration_xml.nic_slots(json.dumps({"return": [{"bus": 0, "devices": devices}]})) == {"card-p1": 16}
