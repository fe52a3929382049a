"""Servers that move between hosts with recorded guests, so that tests can look up each guest's host."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from conductor.api_db.models import InstanceGroupMember, InstanceMapping
from conductor.cell_db.models import ComputeNode, Instance, Migration
from conductor.cells.lookup import journal_aliases
from conductor.core.states import FINAL_MIGRATION_STATUSES, LIVE_RUN_STATES, MigrationStatus, RunState
from conductor.db.transactions import database_now
from conductor.journal.models import LockWait, OutboxMessage, ResourceLock, WorkflowRun
from conductor.network.models import Port
from conductor.placement.models import Allocation, Consumer, ProviderInventory, ResourceProvider
from conductor.rpc.messages import StepAnswered
from conductor.workflows.engine import executor

CELL = "cell1"
ROUNDS = 80
RUNNING, OFF, KEPT, COMING = "running", "off", "kept for going back", "expected"
Body = dict[str, Any]
Failing = Callable[[str, str], str | None]  # message, host → class of an error, or None


class Missing(Exception):
    """The host has no such guest."""


class Hosts:
    """Hosts as commands find them: the state of each guest on each. Answers as agents do, each command once.

    `fails(message, host)` names an error to answer with, after the effect when it begins with "late "; `mute` hosts
    get commands and never answer.
    """

    def __init__(self) -> None:
        self.guests: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self.kept: defaultdict[str, set[str]] = defaultdict(set)
        self.fails: Failing = lambda message, host: None
        self.mute: set[str] = set()
        self.commands: list[tuple[str, str]] = []

    def has(self, uuid: str) -> dict[str, str]:
        """Hosts that list the guest, with its state there."""
        return {host: guests[uuid] for host, guests in self.guests.items() if guests.get(uuid) in (RUNNING, OFF)}

    def left_over(self, uuid: str) -> set[str]:
        """Hosts that keep something of the guest without listing it."""
        keeping = {host for host, kept in self.kept.items() if uuid in kept}
        return keeping | {host for host, guests in self.guests.items() if guests.get(uuid) == COMING}

    def answer(self, alias: str, command: OutboxMessage) -> bool:
        """Carry a command out and answer it; False for a mute host's."""
        message, body = command.body["message"], command.body["body"]
        if command.host in self.mute:
            return False
        self.commands.append((message, command.host))
        wrong = self.fails(message, command.host)
        result: dict[str, Any] = {}
        if wrong is None or wrong.startswith("late "):
            try:
                result = getattr(self, message)(command.host, body) or {}
            except Missing:
                wrong = "GuestMissing"
        error = {"class": wrong, "message": f"{message} failed", "is_reschedulable": wrong == "DriverError"}
        executor.answer(
            alias,
            StepAnswered(
                step_key=command.step_key,
                run_uuid=str(command.run_uuid),
                fencing_token=body["fencing_token"],
                host=command.host,
                ok=wrong is None,
                result={} if wrong else result,
                error=error if wrong else None,
            ),
        )
        return True

    def check_build(self, host: str, body: Body) -> None:
        """Answer that the host can build it."""

    def spawn_instance(self, host: str, body: Body) -> None:
        self.guests[host][body["instance_uuid"]] = RUNNING if body.get("is_running", True) else OFF

    def destroy_instance(self, host: str, body: Body) -> None:
        self.guests[host].pop(body["instance_uuid"], None)

    def take_over_instance(self, host: str, body: Body) -> None:
        assert body["source_host"] != host
        self.spawn_instance(host, body)

    def hand_back_instance(self, host: str, body: Body) -> None:
        assert body["source_host"] != host
        self.destroy_instance(host, body)

    def power_off(self, host: str, body: Body) -> None:
        self._there(host, body)
        self.guests[host][body["instance_uuid"]] = OFF

    def power_on(self, host: str, body: Body) -> None:
        self._there(host, body)
        self.guests[host][body["instance_uuid"]] = RUNNING

    def migrate_out(self, host: str, body: Body) -> Body:
        if body["instance_uuid"] not in self.kept[host]:
            self._there(host, body)
            del self.guests[host][body["instance_uuid"]]
            self.kept[host].add(body["instance_uuid"])
        return {"disks": f"at {host}"}

    def migrate_in(self, host: str, body: Body) -> None:
        assert body["disks"], "the source's answer must come along"
        self.guests[host][body["instance_uuid"]] = RUNNING if body["is_running"] else OFF

    def confirm_migration(self, host: str, body: Body) -> None:
        self.kept[host].discard(body["instance_uuid"])

    def revert_migration(self, host: str, body: Body) -> None:
        if body["instance_uuid"] in self.kept[host]:
            self.kept[host].discard(body["instance_uuid"])
            self.guests[host][body["instance_uuid"]] = RUNNING if body["is_running"] else OFF

    def prepare_live_migration(self, host: str, body: Body) -> Body:
        self.guests[host].setdefault(body["instance_uuid"], COMING)
        return {"listens_at": host}

    def live_migrate(self, host: str, body: Body) -> None:
        target = body["target"]["listens_at"]
        if self.guests[target].get(body["instance_uuid"]) != RUNNING:
            self._there(host, body)
            self.guests[target][body["instance_uuid"]] = self.guests[host].pop(body["instance_uuid"])

    def finish_live_migration(self, host: str, body: Body) -> None:
        self._there(host, body)

    def cancel_live_migration(self, host: str, body: Body) -> None:
        if self.guests[host].get(body["instance_uuid"]) == COMING:
            del self.guests[host][body["instance_uuid"]]

    def abort_live_migration(self, host: str, body: Body) -> None:
        """Do nothing: the test answers the running migration itself."""

    force_live_migration = steer_live_migration = abort_live_migration

    def _there(self, host: str, body: Body) -> None:
        if self.guests[host].get(body["instance_uuid"]) not in (RUNNING, OFF):
            raise Missing


def report_checks() -> None:
    """Have all hosts report that their drivers check builds."""
    for node in ComputeNode.objects.using(CELL).all():
        node.report["capabilities"] |= {"checks_builds": True}
        node.save(using=CELL)


def step_on(hosts: Hosts) -> bool:
    """Run every live run's next step and answer its commands; False when none is left."""
    live = [
        (alias, run.uuid)
        for alias in journal_aliases()
        for run in WorkflowRun.objects.using(alias).filter(state__in=LIVE_RUN_STATES)
    ]
    for alias, uuid in live:
        runs = WorkflowRun.objects.using(alias).filter(uuid=uuid)
        runs.filter(state=RunState.WAITING, waits_for__cause__in=["timer", "children"]).update(wake_at=database_now())
        executor.run(alias, uuid)
    for alias in journal_aliases():
        for command in OutboxMessage.objects.using(alias).order_by("pk"):
            hosts.answer(alias, command)
    return bool(live)


def run_to_the_end(hosts: Hosts) -> None:
    """Take every run as far as it goes; hosts answer at once."""
    for _ in range(ROUNDS):
        if not step_on(hosts):
            return
    live = WorkflowRun.objects.using(CELL).filter(state__in=LIVE_RUN_STATES)
    raise AssertionError(f"still live: {[(run.flow, run.state, run.waits_for, run.error) for run in live]}")


def instance_of(uuid: str) -> Instance:
    return Instance.objects.using(CELL).get(uuid=uuid)


def migration_of(uuid: str) -> Migration:
    """Return the newest move of an instance."""
    found = Migration.objects.using(CELL).filter(instance_uuid=uuid).order_by("-pk").first()
    assert found is not None
    return found


def held_by(uuid: str) -> dict[str, dict[str, int]]:
    """Amounts by class, by the name of the provider, that a consumer holds."""
    held: defaultdict[str, dict[str, int]] = defaultdict(dict)
    rows = Allocation.objects.filter(consumer__uuid=uuid)
    for name, kind, amount in rows.values_list("provider__name", "resource_class", "amount"):
        held[name][kind] = amount
    return dict(held)


def assert_placement_is_true() -> None:
    """Allocations equal instances and open moves: what each holds, and nothing else; `used` is their sum."""
    consumers = {str(uuid) for uuid in Consumer.objects.values_list("uuid", flat=True)}
    alive = {str(row.uuid): row for row in Instance.objects.using(CELL).filter(deleted_at__isnull=True)}
    open_moves = {
        str(row.uuid): row
        for row in Migration.objects.using(CELL).exclude(status__in=FINAL_MIGRATION_STATUSES - {MigrationStatus.DONE})
    }
    assert consumers <= alive.keys() | open_moves.keys(), "a deleted consumer holds resources"
    for uuid, row in alive.items():
        if row.host and row.task_state is None:
            assert set(held_by(uuid)) == {row.host}, f"{row.name} is on {row.host} and holds {held_by(uuid)}"
    for provider in ResourceProvider.objects.all():
        for inventory in ProviderInventory.objects.filter(provider=provider):
            rows = Allocation.objects.filter(provider=provider, resource_class=inventory.resource_class)
            assert inventory.used == sum(rows.values_list("amount", flat=True))


def assert_at_rest(hosts: Hosts, uuid: str) -> None:
    """Check that no lock, command or wait is left, and that the guest is only on the host of its row."""
    for alias in journal_aliases():
        for model in (ResourceLock, LockWait, OutboxMessage):
            left = list(model.objects.using(alias).values())  # type: ignore[attr-defined]
            assert left == [], f"{model.__name__} in {alias}"
    instance = instance_of(uuid)
    assert instance.task_state is None
    assert list(hosts.has(uuid)) == [instance.host]
    bindings = set(Port.objects.filter(device_id=uuid).values_list("binding_host", "migrating_to"))
    assert bindings <= {(instance.host, "")}
    member = InstanceGroupMember.objects.filter(instance_uuid=uuid).first()
    assert (
        member is None or (member.host == instance.host and not member.leaving_host) or instance.vm_state == "resized"
    )
    mapping = InstanceMapping.objects.get(instance_uuid=uuid)
    if instance.vm_state != "resized":
        assert (mapping.vcpus, mapping.memory_mb) == (instance.flavor["vcpus"], instance.flavor["memory_mb"])
    assert_placement_is_true()
