"""Hosts that copy disks and have volumes and ports plugged while guests are there, and what must be left at the end."""

from __future__ import annotations

import io
from collections import defaultdict

from conductor.cells.lookup import journal_aliases
from conductor.image import store
from conductor.journal.models import LockWait, OutboxMessage, ResourceLock, WorkflowRun
from conductor.network.models import AddressAllocation, Port
from conductor.placement.models import Allocation
from conductor.workflows.flow import RemoteStep, Step
from tests.integration.flows.moving import CELL, OFF, Body, Hosts, instance_of

DISK = b"a disk as it was copied" * 10
EVER = 10_000


class StorageHosts(Hosts):
    """Remembers what each guest has plugged: `plugged[uuid]` holds uuids of volumes and ports."""

    def __init__(self) -> None:
        super().__init__()
        self.plugged: defaultdict[str, set[str]] = defaultdict(set)
        self.spawned_from: dict[str, str] = {}
        self.rescued: dict[str, Body] = {}

    def spawn_instance(self, host: str, body: Body) -> None:
        super().spawn_instance(host, body)
        guest = body["guest"]
        self.spawned_from[body["instance_uuid"]] = guest["image"]["image_id"]
        self.plugged[body["instance_uuid"]] = {volume["volume_uuid"] for volume in guest["volumes"]}

    def destroy_instance(self, host: str, body: Body) -> None:
        super().destroy_instance(host, body)
        self.plugged.pop(body["instance_uuid"], None)

    def rescue_instance(self, host: str, body: Body) -> None:
        self._there(host, body)
        self.rescued[body["instance_uuid"]] = body["guest"]

    def unrescue_instance(self, host: str, body: Body) -> None:
        self._there(host, body)
        self.rescued.pop(body["instance_uuid"], None)

    def rebuild_instance(self, host: str, body: Body) -> None:
        """Rebuild the guest, also one that the host has lost, as agents do."""
        if body["instance_uuid"] not in self.guests[host]:
            self.spawn_instance(host, body)
        self.spawned_from[body["instance_uuid"]] = body["guest"]["image"]["image_id"]

    def snapshot_instance(self, host: str, body: Body) -> None:
        self._there(host, body)
        store.store_image(body["image_id"], "qcow2", io.BytesIO(DISK))

    def attach_volume(self, host: str, body: Body) -> None:
        self._there(host, body)
        self.plugged[body["instance_uuid"]].add(body["volume"]["volume_uuid"])

    def detach_volume(self, host: str, body: Body) -> None:
        self.plugged[body["instance_uuid"]].discard(body["volume_uuid"])

    def swap_volume(self, host: str, body: Body) -> None:
        self._there(host, body)
        plugged, new = self.plugged[body["instance_uuid"]], body["volume"]["volume_uuid"]
        assert {body["old_volume_uuid"], new} & plugged
        plugged.discard(body["old_volume_uuid"])
        plugged.add(new)

    def attach_interface(self, host: str, body: Body) -> None:
        self._there(host, body)
        self.plugged[body["instance_uuid"]].add(body["port"]["port_uuid"])

    def detach_interface(self, host: str, body: Body) -> None:
        self.plugged[body["instance_uuid"]].discard(body["port_uuid"])


def part_of(step: Step) -> str:
    """Return the part of a step that has its effect."""
    return "commit" if step.is_local or isinstance(step, RemoteStep) else "execute"


def times_of(step: Step) -> int:
    """Return how often the step fails: always, except for a step that is repeated until it succeeds."""
    return EVER if step.retry.max_attempts else 4


def run_of(uuid: str, flow: str) -> WorkflowRun:
    """Return the newest run of a flow on an instance."""
    run = WorkflowRun.objects.using(CELL).filter(instance_uuid=uuid, flow=flow).order_by("-pk").first()
    assert run is not None
    return run


def assert_nothing_under_way(uuid: str) -> None:
    """Check that no lock, wait or command is left, and that the server shows no task."""
    for alias in journal_aliases():
        for model in (ResourceLock, LockWait, OutboxMessage):
            left = list(model.objects.using(alias).values())  # type: ignore[attr-defined]
            assert left == [], f"{model.__name__} in {alias}"
    assert instance_of(uuid).task_state is None


def taken() -> dict[str, int]:
    """Return the amounts that are taken of shared resources."""
    return {
        "allocations": Allocation.objects.count(),
        "ports": Port.objects.count(),
        "addresses": AddressAllocation.objects.count(),
    }


def stored_images() -> set[str]:
    """Return the names of the files in the image store, except those of seeded images."""
    return {path.name for path in store._directory().glob("*") if path.read_bytes() == DISK or path.suffix == ".json"}


__all__ = [
    "CELL", "DISK", "EVER", "OFF", "StorageHosts", "assert_nothing_under_way", "part_of", "run_of", "stored_images",
    "taken", "times_of",
]  # fmt: skip
