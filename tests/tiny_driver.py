"""A hypervisor in a dictionary: records every call, and fails or waits when a test sets it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from conductor.core.compute_driver import ComputeDriver, GuestInfo, GuestSpec, Inventory, NodeReport, Progress
from conductor.core.request_spec import FlavorSpec, ImageSpec
from conductor.core.states import PowerState


class TinyDriver(ComputeDriver):
    name = "tiny"
    is_simulated = True
    supports_console_log = True

    def __init__(self, host: str = "host-1", options: Mapping[str, Any] | None = None, open_image: Any = None) -> None:
        super().__init__(host, options or {}, open_image)
        self.calls: list[tuple[str, str]] = []
        self.running: dict[str, GuestSpec] = {}
        self.consoles: dict[str, bytes] = {}
        self.spawning: Callable[[GuestSpec, Progress], None] = lambda guest, progress: None
        self.destroying: Callable[[str], None] = lambda uuid: None
        self.overlaps: list[str] = []  # instances that two calls worked on at once
        self._under_work: set[str] = set()
        self._lock = threading.Lock()

    def report(self) -> NodeReport:
        return NodeReport(
            node=self.host,
            hypervisor_type="tiny",
            hypervisor_version=1,
            inventory={"VCPU": Inventory(8, allocation_ratio=4.0), "MEMORY_MB": Inventory(8192, reserved=512)},
            traits=frozenset({"COMPUTE_NODE"}),
            supported_instances=(("x86_64", "tiny", "hvm"),),
        )

    def guests(self) -> list[GuestInfo]:
        return [GuestInfo(uuid, PowerState.RUNNING) for uuid in sorted(self.running)]

    def spawn(self, guest: GuestSpec, progress: Progress) -> None:
        self._enter("spawn", guest.instance_uuid)
        try:
            self.spawning(guest, progress)
            self.running[guest.instance_uuid] = guest
        finally:
            self._leave(guest.instance_uuid)

    def destroy(self, instance_uuid: str) -> None:
        self._enter("destroy", instance_uuid)
        try:
            self.destroying(instance_uuid)
            self.running.pop(instance_uuid, None)
            self.consoles.pop(instance_uuid, None)
        finally:
            self._leave(instance_uuid)

    def console_log(self, instance_uuid: str, offset: int) -> bytes:
        return self.consoles.get(instance_uuid, b"")[offset:]

    def _enter(self, verb: str, uuid: str) -> None:
        with self._lock:
            self.calls.append((verb, uuid))
            if uuid in self._under_work:
                self.overlaps.append(uuid)
            self._under_work.add(uuid)

    def _leave(self, uuid: str) -> None:
        with self._lock:
            self._under_work.discard(uuid)


def guest_json(instance_uuid: str, **values: Any) -> dict[str, Any]:
    """Return a small guest, as a spawn command carries it."""
    guest = GuestSpec(
        instance_uuid=instance_uuid,
        name="web-1",
        hostname="web-1",
        project_id="b" * 32,
        flavor=FlavorSpec("1", "tiny", 1, 64),
        image=ImageSpec(image_id="i", name="tiny"),
        **values,
    )
    return guest.to_json()
