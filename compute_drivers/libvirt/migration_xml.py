"""Rewrites the domain XML of a running guest for the destination of a live migration: same machine, other paths."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from compute_drivers.libvirt import disks, qemu_network
from compute_drivers.libvirt.domain_xml import NAMESPACE, QEMU_NAMESPACE
from compute_drivers.libvirt.qemu_network import BackendOf
from conductor.core.compute_driver import NetworkPort

# Elements that describe the source's disks; libvirt inspects the destination's itself.
REMOVED_ELEMENTS = ("backingStore", "mirror")
NIC_ID = re.compile(r"card-.+")
COMMAND_LINE, ARGUMENT = f"{{{QEMU_NAMESPACE}}}commandline", f"{{{QEMU_NAMESPACE}}}arg"


@dataclass(frozen=True)
class Nics:
    """The guest's present network cards: PCI slots by QEMU's names, and the ports with their backends."""

    slots: Mapping[str, int]
    ports: Collection[NetworkPort] = ()
    backends: BackendOf | None = None


def rewrite(domain_xml: str, paths: Mapping[str, str], host: str, nics: Nics) -> str:
    """Return the XML for the destination.

    Args:
        paths: Paths of the source, each with its path at the destination.
        host: Name of the destination.
    """
    domain = ElementTree.fromstring(domain_xml)
    for element in domain.iter():
        for name in REMOVED_ELEMENTS:
            for child in element.findall(name):
                element.remove(child)
        element.text = _translate(element.text, paths)
        for name, value in element.attrib.items():
            element.set(name, _translate(value, paths) or "")
    for element in domain.iter(f"{{{NAMESPACE}}}host"):
        element.text = host
    _rewrite_nics(domain, nics, paths)
    return ElementTree.tostring(domain, encoding="unicode")


def own_disks(domain_xml: str, folder: str) -> dict[str, Path]:
    """Return the guest's disks in its `folder`, by target."""
    found = {}
    for disk in ElementTree.fromstring(domain_xml).findall("devices/disk[@device='disk']"):
        source, target = disk.find("source"), disk.find("target")
        path = Path(source.get("file", "")) if source is not None else Path()
        if target is not None and str(path.parent) == folder and path.suffix == ".qcow2":
            found[target.get("dev", "")] = path
    return found


def is_on_image(found: Mapping[str, Path]) -> bool:
    """Return whether an image backs the root disk, so that only its changes have to be sent."""
    return any(path.name == disks.ROOT and disks.lies_on_image(path) for path in found.values())


def nic_slots(answer: str) -> dict[str, int]:
    """Return the PCI slots of network cards by name, from QEMU's answer to `query-pci`."""
    devices = [device for bus in json.loads(answer)["return"] for device in bus["devices"]]
    return {device["qdev_id"]: device["slot"] for device in devices if NIC_ID.fullmatch(device["qdev_id"])}


def _rewrite_nics(domain: Element, nics: Nics, paths: Mapping[str, str]) -> None:
    """Remove cards from QEMU's command line that were detached, and add those that were attached."""
    line = domain.find(COMMAND_LINE)
    if line is None:
        line = SubElement(domain, COMMAND_LINE)
    known = qemu_network.arguments_by_nic([argument.get("value", "") for argument in line])
    kept = [argument for name, arguments in known.items() if name in nics.slots for argument in arguments]
    for port in nics.ports:
        name = qemu_network.nic_id(port.port_uuid)
        if name in nics.slots and name not in known:
            kept += qemu_network.attached_arguments(nics.slots[name], port, nics.backends)
    for argument in list(line):
        line.remove(argument)
    for value in kept:
        SubElement(line, ARGUMENT, value=_translate(value, paths) or "")


def _translate(value: str | None, paths: Mapping[str, str]) -> str | None:
    for source, target in paths.items():
        if value == source or (value or "").startswith(f"{source}/"):
            return target + (value or "")[len(source) :]
        if f",ifname={source}" in (value or ""):
            value = (value or "").replace(f",ifname={source}", f",ifname={target}")
    return value
