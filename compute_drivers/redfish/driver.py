"""Bare metal: whole machines, one for each guest, driven through their controllers by Redfish."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from compute_drivers.options import parse
from compute_drivers.redfish.node import RedfishNode
from compute_drivers.redfish.options import RedfishOptions
from compute_drivers.redfish.power import Power
from compute_drivers.redfish.spawn import GuestBuilder
from conductor.core.compute_driver import ComputeDriver, GuestInfo, GuestSpec, NodeReport, OpenImage, Progress


class RedfishDriver(ComputeDriver):
    """Bare-metal servers, one per physical machine, managed through Redfish controllers.

    Each method delegates to the part that does the work. All parts share one `RedfishNode`.
    """

    name: ClassVar[str] = "redfish"
    network_is_host_specific: ClassVar[bool] = True  # the ports of a guest are the cards of its machine
    capabilities: frozenset[str] = frozenset({"rebuild", "crash_dump"})

    def __init__(self, host: str, options: Mapping[str, Any], open_image: OpenImage) -> None:
        super().__init__(host, options, open_image)
        chosen = parse(RedfishOptions, options, self.name)
        self.node = RedfishNode(host, chosen, lambda image_id: self.open_image(image_id))
        self.power = Power(self.node)
        self.builder = GuestBuilder(self.node, self.power)

    def start(self) -> None:
        self.node.start()

    def stop(self) -> None:
        self.node.stop()

    def report(self) -> NodeReport:
        return self.node.report()

    def guests(self) -> list[GuestInfo]:
        return self.node.list_guests()

    def console_log(self, instance_uuid: str, offset: int) -> bytes:
        """Return b"": Redfish offers no console output."""
        return b""

    def check_build(self, guest: GuestSpec) -> None:
        self.builder.check(guest)

    def spawn(self, guest: GuestSpec, progress: Progress) -> None:
        self.builder.spawn(guest, progress)

    def destroy(self, instance_uuid: str) -> None:
        self.node.destroy(instance_uuid)

    def rebuild(self, guest: GuestSpec, progress: Progress, *, is_running: bool) -> None:
        self.builder.rebuild(guest, progress, is_running=is_running)

    def power_on(self, guest: GuestSpec) -> None:
        self.power.power_on(guest.instance_uuid)

    def power_off(self, instance_uuid: str, timeout_seconds: float) -> None:
        self.power.power_off(instance_uuid, timeout_seconds)

    def reboot(self, guest: GuestSpec, *, is_hard: bool, timeout_seconds: float) -> None:
        self.power.reboot(guest.instance_uuid, is_hard=is_hard, timeout_seconds=timeout_seconds)

    def trigger_crash_dump(self, instance_uuid: str) -> None:
        self.power.trigger_crash_dump(instance_uuid)
