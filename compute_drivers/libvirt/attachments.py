"""Attaches and detaches volumes and network ports while guests run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from compute_drivers.libvirt import accounts, devices_xml, qemu_network
from compute_drivers.libvirt.node import ON, LibvirtNode
from conductor.core.compute_driver import NetworkPort, Progress, VolumeConnection

if TYPE_CHECKING:
    from compute_drivers.libvirt.guest import LibvirtGuest

# How long a guest may take to release a disk or network card.
DETACH_SECONDS = 20.0


class Attachments:
    """Hot-plugs volumes and ports. A guest that is off gets them at its next start."""

    def __init__(self, node: LibvirtNode) -> None:
        self._node = node

    def attach_volume(self, instance_uuid: str, volume: VolumeConnection) -> None:
        """Attach the volume, or show the guest the new size of one that it already has."""
        with self._node.guest(instance_uuid, "attach the volume") as domain:
            if domain.power_state() not in ON:
                return
            if domain.volumes.alias(volume.volume_uuid):
                domain.volumes.update_size(volume)
                return
            (disk,) = devices_xml.arrange_disks((), [volume], domain.disk_targets())
            alias = domain.volumes.free_alias(volume.volume_uuid)
            with self._granted(instance_uuid, domain, volume):
                domain.attach_disk(devices_xml.disk_xml(replace(disk, alias=alias, chain=domain.volumes.chain)))

    def detach_volume(self, instance_uuid: str, volume_uuid: str) -> None:
        """Raises DriverError when the guest does not release the volume in time."""
        with self._node.guest(instance_uuid, "detach the volume") as domain:
            if domain.power_state() in ON and domain.volumes.alias(volume_uuid):
                with self._granted(instance_uuid, domain):
                    domain.detach_volume(volume_uuid, DETACH_SECONDS)

    def swap_volume(self, instance_uuid: str, old_uuid: str, volume: VolumeConnection, progress: Progress) -> None:
        """Copy volume `old_uuid` to `volume` and switch the running guest to the copy."""
        with (
            self._node.running_guest(instance_uuid, "swap the volume") as domain,
            self._granted(instance_uuid, domain, volume),
        ):
            domain.volumes.swap(old_uuid, volume, lambda share: progress("copying the volume", share))

    def attach_interface(self, instance_uuid: str, port: NetworkPort) -> None:
        with self._node.guest(instance_uuid, "attach the port") as domain:
            if domain.power_state() in ON and not domain.has_nic(qemu_network.nic_id(port.port_uuid)):
                networks = self._node.networks
                networks.plug(instance_uuid, port)
                backends = networks.backends(instance_uuid)
                netdev = partial(qemu_network.netdev, port=port, hostname="", backends=backends)
                domain.attach_nic(netdev, partial(qemu_network.nic, port=port))

    def detach_interface(self, instance_uuid: str, port_uuid: str) -> None:
        """Raises DriverError when the guest does not release the card in time."""
        nic, netdev = qemu_network.nic_id(port_uuid), qemu_network.netdev_id(port_uuid)
        with self._node.guest(instance_uuid, "detach the port") as domain:
            if domain.power_state() in ON:
                domain.detach_nic(nic, netdev, DETACH_SECONDS)
        self._node.networks.unplug(instance_uuid, port_uuid)

    @contextmanager
    def _granted(self, instance_uuid: str, domain: LibvirtGuest, *new: VolumeConnection) -> Iterator[None]:
        """Give the guest's account access to its present and `new` volumes; afterwards only to those attached."""
        granting = self._node.accounts
        if granting is None:
            yield
            return
        granting.grant_volumes(instance_uuid, domain.volumes.permissions() | accounts.volume_permissions(new))
        try:
            yield
        finally:
            granting.grant_volumes(instance_uuid, domain.volumes.permissions())
