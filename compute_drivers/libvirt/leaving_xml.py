"""The description of a guest that runs, as the host that it goes to wants it: the same machine, other paths."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from compute_drivers.libvirt import disks, user_network
from compute_drivers.libvirt.domain_xml import NAMESPACE, QEMU_NAMESPACE
from compute_drivers.libvirt.user_network import WiresOf
from conductor.core.compute_driver import NetworkPort

# libvirt looks at the destination's disks itself.
LEFT_OUT = ("backingStore", "mirror")
CARD = re.compile(r"card-.+")
COMMAND_LINE, WORD = f"{{{QEMU_NAMESPACE}}}commandline", f"{{{QEMU_NAMESPACE}}}arg"


@dataclass(frozen=True)
class Cards:
    """Slots of those that the guest has now, by name; the ports that it has, and who is at the end of their cables."""

    slots: Mapping[str, int]
    ports: Collection[NetworkPort] = ()
    wires: WiresOf | None = None


def rewritten(domain_xml: str, paths: Mapping[str, str], host: str, cards: Cards) -> str:
    """`paths` are of the source, and what they are at the destination."""
    domain = ElementTree.fromstring(domain_xml)
    for element in domain.iter():
        for name in LEFT_OUT:
            for left in element.findall(name):
                element.remove(left)
        element.text = _moved(element.text, paths)
        for name, value in element.attrib.items():
            element.set(name, _moved(value, paths) or "")
    for mark in domain.iter(f"{{{NAMESPACE}}}host"):
        mark.text = host
    _say_cards(domain, cards, paths)
    return ElementTree.tostring(domain, encoding="unicode")


def disks_in(domain_xml: str, folder: str) -> dict[str, Path]:
    """The guest's own disks by the names that it has for them."""
    found = {}
    for disk in ElementTree.fromstring(domain_xml).findall("devices/disk[@device='disk']"):
        source, target = disk.find("source"), disk.find("target")
        path = Path(source.get("file", "")) if source is not None else Path()
        if target is not None and str(path.parent) == folder and path.suffix == ".qcow2":
            found[target.get("dev", "")] = path
    return found


def is_on_image(found: Mapping[str, Path]) -> bool:
    """Whether the root disk is what was written on top of an image."""
    return any(path.name == disks.ROOT and disks.lies_on_image(path) for path in found.values())


def cards(answer: str) -> dict[str, int]:
    """Slots by the cards' names, from what QEMU says of its PCI buses."""
    devices = [device for bus in json.loads(answer)["return"] for device in bus["devices"]]
    return {device["qdev_id"]: device["slot"] for device in devices if CARD.fullmatch(device["qdev_id"])}


def _say_cards(domain: Element, cards: Cards, paths: Mapping[str, str]) -> None:
    """Cards of the command line that were unplugged go, those that were plugged come."""
    line, has = domain.find(COMMAND_LINE), cards.slots
    if line is None:
        line = SubElement(domain, COMMAND_LINE)
    words = [word.get("value", "") for word in line]
    known = user_network.by_card(words)
    kept = [word for name, told in known.items() if name in has for word in told]
    for port in cards.ports:
        name = user_network.card_id(port.port_uuid)
        if name in has and name not in known:
            kept += user_network.plugged(has[name], port, cards.wires)
    for word in list(line):
        line.remove(word)
    for value in kept:
        SubElement(line, WORD, value=_moved(value, paths) or "")


def _moved(value: str | None, paths: Mapping[str, str]) -> str | None:
    for source, target in paths.items():
        if value == source or (value or "").startswith(f"{source}/"):
            return target + (value or "")[len(source) :]
        if f"={source}." in (value or ""):  # within a word of the command line
            value = (value or "").replace(f"={source}.", f"={target}.")
        if f",ifname={source}" in (value or ""):
            value = (value or "").replace(f",ifname={source}", f",ifname={target}")
    return value
