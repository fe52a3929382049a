"""Deferred commands of an unresponsive host: real agents, journals and drivers, and a wire without order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compute_drivers.fake.driver import FakeDriver
from compute_drivers.fake.state import StateFile
from conductor.actors import periodic
from conductor.actors.conductor import RECEIVERS
from conductor.cell_db.models import BlockDevice, Migration, Service
from conductor.compute.heartbeat import Heartbeat
from conductor.compute.host_journal import HostJournal
from conductor.compute.hosts import HostConfig
from conductor.compute.manager import AgentResources, ComputeManager
from conductor.core.states import LIVE_RUN_STATES, MigrationStatus, RunState, VmState
from conductor.db.transactions import database_now, write_tx
from conductor.image.models import Image
from conductor.journal.models import AuditRecord, Event, OutboxMessage, WorkflowRun
from conductor.network import port_operations
from conductor.network.models import Network, Port
from conductor.network.port_operations import PortCreate
from conductor.rpc import broker, outbox
from conductor.rpc.messages import StepAnswered
from conductor.services.operations import storage_cleanup
from conductor.services.operations.reconciliation import reconciler, undos
from conductor.services.operations.reconciliation.reconciler import RepairOutcome
from conductor.services.server_migrations import resizes
from conductor.services.servers import actions, instances, interfaces, server_volumes
from conductor.services.servers.interfaces import InterfaceCreate
from conductor.services.servers.server_volumes import AttachmentCreate
from conductor.services.servers.types import InstanceCreate
from conductor.services.volumes import volumes
from conductor.services.volumes.volumes import VolumeCreate
from conductor.volume.models import Volume, VolumeAttachment, VolumeMessage
from conductor.workflows.engine import executor
from tests.fleet import silence
from tests.guests import ImageShelf
from tests.integration.flows.moving import CELL, instance_of, migration_of
from tests.integration.page_clients import signed_in, text

HOSTS = ("sim-1", "sim-2", "sim-3")
ALIASES = ("default", "cell0", CELL)
ROUNDS = 60
FREE_AGAIN = "The resources on its host were released."


class InLine:
    """KeyedExecutor without threads."""

    def submit(self, group: object, key: object, work: Callable[[], None], *, max_parallel: int = 1) -> None:
        work()


class Agents:
    """The agents of three hosts. Messages to a host that is away wait in its queue; the newest is taken first."""

    def __init__(self, folder: Path) -> None:
        self.wire: list[dict[str, Any]] = []
        self.away: set[str] = set()
        self.done: list[tuple[str, str]] = []
        self.drivers: dict[str, FakeDriver] = {}
        self._stores = {host: StateFile(folder / f"{host}.json") for host in HOSTS}
        self._journals = {host: HostJournal(folder / f"{host}.sqlite3") for host in HOSTS}
        self._managers: dict[str, ComputeManager] = {}
        for host in HOSTS:
            driver = FakeDriver(host, {"state_file": str(folder / f"{host}.json")}, ImageShelf().open)
            driver.start()
            self.drivers[host] = driver
            self._managers[host] = ComputeManager(
                HostConfig(host=host, cell=CELL, driver="fake", journal_path=folder / f"{host}.sqlite3"),
                driver,
                journal=self._journals[host],
                resources=AgentResources(commands=InLine(), urgent=InLine(), send=self._take),  # type: ignore[arg-type]
            )

    def close(self) -> None:
        for host in HOSTS:
            self.drivers[host].stop()
            self._journals[host].close()

    def _take(self, cell: str, message: Any) -> None:
        if isinstance(message, StepAnswered):
            RECEIVERS[type(message)](cell, message)

    def deliver(self, until: Callable[[], bool]) -> None:
        """Carry out all that hosts which are there can get."""
        while not until():
            at = next((at for at, body in reversed([*enumerate(self.wire)]) if self._is_here(body)), None)
            if at is None:
                return
            body = self.wire.pop(at)
            self.done.append((body["message"], body["body"]["host"]))
            self._managers[body["body"]["host"]].receive(body)

    def _is_here(self, body: dict[str, Any]) -> bool:
        return body["body"]["host"] not in self.away

    def report(self) -> None:
        """Send a heartbeat of each host that is not away."""
        for host in set(HOSTS) - self.away:
            config = HostConfig(host=host, cell=CELL, driver="fake", journal_path=Path(f"{host}.sqlite3"))
            Heartbeat(config, self.drivers[host], journal=self._journals[host], send=self._pass_on).beat()

    @staticmethod
    def _pass_on(cell: str, message: Any) -> None:
        RECEIVERS[type(message)](cell, message)

    def guests(self, host: str) -> set[str]:
        return set(self._stores[host].load().guests)

    def kept(self, host: str) -> set[str]:
        return set(self._stores[host].load().kept)

    def leave(self, host: str) -> None:
        self.away.add(host)
        silence(host)

    def come_back(self, host: str) -> None:
        self.away.discard(host)
        Service.objects.using(CELL).filter(host=host).update(last_seen_at=database_now())

    def play(self, *, until: Callable[[], bool] = lambda: False) -> None:
        """Let time pass until everything is at rest, or `until` is true."""
        for _ in range(ROUNDS):
            live = {alias: WorkflowRun.objects.using(alias).filter(state__in=LIVE_RUN_STATES) for alias in ALIASES}
            left = OutboxMessage.objects.using(CELL).exclude(host__in=self.away)
            if until() or not (any(runs.exists() for runs in live.values()) or left.exists()):
                return
            for alias, runs in live.items():
                runs.filter(waits_for__isnull=False, owner=None).update(wake_at=database_now(-1))
                for run_uuid in runs.values_list("uuid", flat=True):
                    executor.run(alias, run_uuid)
            self.deliver(until)
            if until():
                return
            OutboxMessage.objects.using(CELL).update(send_again_at=database_now(-1))
            outbox.resend_due(CELL)
        left = OutboxMessage.objects.using(CELL).values_list("host", "body__message")
        runs = WorkflowRun.objects.using(CELL).filter(state__in=LIVE_RUN_STATES)
        raise AssertionError(f"never at rest: {[(run.flow, run.state, run.error) for run in runs]} {list(left)}")


@pytest.fixture
def agents(hosts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[Agents]:
    settings.NOVELLA_RECLAIM_SECONDS = 0
    made = Agents(tmp_path)
    monkeypatch.setattr(broker, "send_to_compute", lambda queue, body, **_: made.wire.append(dict(body)))
    monkeypatch.setattr(broker, "notify_conductor", lambda queue, body: None)
    yield made
    made.close()


@pytest.fixture
def server(agents: Agents, ana: Any) -> str:
    image = Image.objects.get(name="simulated-linux")
    (uuid,) = instances.create(
        ana, InstanceCreate(name="web-1", flavor_ref="1", image_ref=str(image.uuid))
    ).instance_uuids
    agents.play()
    assert instance_of(uuid).vm_state == VmState.ACTIVE
    return uuid


def home_of(uuid: str) -> str:
    host = instance_of(uuid).host
    assert host
    return host


def assert_nothing_is_left(agents: Agents, uuid: str) -> None:
    assert instance_of(uuid).deleted_at is not None
    assert {host: (agents.guests(host), agents.kept(host)) for host in HOSTS} == dict.fromkeys(HOSTS, (set(), set()))
    assert not OutboxMessage.objects.using(CELL).exists()


def fail(*_: Any, **__: Any) -> None:
    raise RuntimeError("no")


def run_of(uuid: str) -> WorkflowRun:
    return WorkflowRun.objects.using(CELL).filter(instance_uuid=uuid, flow="resize_instance").get()


def cancel(uuid: str) -> None:
    with write_tx(CELL):
        outbox.request_cancel(CELL, run_of(uuid), "not needed any more")


def cut_off_and_cancel(agents: Agents, admin: Any, uuid: str) -> str:
    """Return a migration whose source is away once its disks are put aside, cancelled by its owner; the source."""
    source = home_of(uuid)
    resizes.migrate(admin, uuid)
    agents.play(until=lambda: uuid in agents.kept(source))
    agents.leave(source)
    cancel(uuid)
    agents.play()
    assert migration_of(uuid).status == MigrationStatus.CANCELLED
    return source


def test_disks_kept_at_an_unresponsive_host_are_removed_with_the_server(
    agents: Agents, ana: Any, server: str, settings: Any
) -> None:
    """The host's deferred commands discard the retained guest, and then destroy the guest."""
    settings.NOVELLA_ALLOW_RESIZE_TO_SAME_HOST = True
    host = home_of(server)
    Service.objects.using(CELL).exclude(host=host).update(is_disabled=True)
    resizes.resize(ana, server, "2")
    agents.play()
    assert (home_of(server), agents.kept(host), agents.guests(host)) == (host, {server}, {server})
    agents.leave(host)
    instances.delete(ana, server)
    agents.play()
    deferred = OutboxMessage.objects.using(CELL).filter(is_deferred=True).order_by("pk")
    assert [message.body["message"] for message in deferred] == ["confirm_migration", "destroy_instance"]
    agents.come_back(host)
    agents.play()
    assert_nothing_is_left(agents, server)


def test_effects_of_a_cancelled_move_at_an_unresponsive_host_are_removed_with_the_server(
    agents: Agents, ana: Any, admin: Any, server: str
) -> None:
    source = cut_off_and_cancel(agents, admin, server)
    instances.delete(ana, server)
    agents.play()
    agents.come_back(source)
    agents.play()
    assert_nothing_is_left(agents, server)


def test_a_server_that_is_deleted_as_its_host_comes_back(agents: Agents, ana: Any, admin: Any, server: str) -> None:
    """The delete finds the host up, and what it has to do first not yet answered."""
    source = cut_off_and_cancel(agents, admin, server)
    agents.come_back(source)
    instances.delete(ana, server)
    agents.play()
    assert_nothing_is_left(agents, server)


def test_an_action_waits_for_what_its_host_has_to_do_first(agents: Agents, ana: Any, admin: Any, server: str) -> None:
    """Otherwise the host would look for a guest whose files are still put aside."""
    source = cut_off_and_cancel(agents, admin, server)
    agents.come_back(source)
    actions.begin(ana, server, "pause")
    agents.play()
    assert (agents.guests(source), agents.kept(source)) == ({server}, set())
    assert instance_of(server).vm_state == VmState.PAUSED
    assert [*dict.fromkeys(agents.done)][-2:] == [("revert_migration", source), ("pause_instance", source)]


def test_effects_that_a_cancelled_migration_could_not_undo_are_removed_with_the_server(
    agents: Agents, ana: Any, admin: Any, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source responded all the time, and failed."""
    source = home_of(server)
    resizes.migrate(admin, server)
    agents.play(until=lambda: server in agents.kept(source))
    with monkeypatch.context() as broken:
        broken.setattr(agents.drivers[source], "revert_migration", fail)
        cancel(server)
        agents.play()
    assert (run_of(server).state, agents.kept(source)) == (RunState.FAILED_NOT_CLEAN, {server})
    assert migration_of(server).status == MigrationStatus.ERROR
    instances.delete(ana, server)
    agents.play()
    assert_nothing_is_left(agents, server)


def test_a_failed_deferred_command_does_not_prevent_the_destroy_of_its_guest(
    agents: Agents, ana: Any, admin: Any, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the guest follows it, so it is not sent again for ever."""
    source = cut_off_and_cancel(agents, admin, server)
    instances.delete(ana, server)
    agents.play()
    monkeypatch.setattr(agents.drivers[source], "revert_migration", fail)
    agents.come_back(source)
    agents.play()
    assert_nothing_is_left(agents, server)


def test_uncompensated_effects_at_a_host_are_reported_compared_and_removed(
    agents: Agents, ana: Any, admin: Any, server: str, settings: Any
) -> None:
    """However it was left: here the cell takes the move for confirmed, and its source was never notified."""
    settings.NOVELLA_HEARTBEAT_SECONDS = 0.0  # hosts have reported since whatever has ended
    source = home_of(server)
    resizes.migrate(admin, server)
    agents.play()
    agents.report()
    assert reconciler.reconcile(grace_seconds=0).judged == []  # kept for a move that waits for its confirmation
    Migration.objects.using(CELL).update(status=MigrationStatus.CONFIRMED)
    found = {one.kind.name: one.outcome for one in reconciler.reconcile(is_dry_run=True, grace_seconds=0).judged}
    assert found["disks_kept_without_move"] == RepairOutcome.LEFT
    instances.delete(ana, server)
    agents.play()
    agents.report()
    assert agents.kept(source) == {server}
    found = {one.kind.name: one.outcome for one in reconciler.reconcile(grace_seconds=0).judged}
    assert found["disks_kept_of_dead_instance"] == RepairOutcome.REPAIRED
    agents.play()
    assert_nothing_is_left(agents, server)
    agents.report()
    found = {one.kind.name: one.outcome for one in reconciler.reconcile(grace_seconds=0).judged}
    assert "disks_kept_of_dead_instance" not in found


@pytest.fixture
def held_up(agents: Agents, ana: Any, server: str, settings: Any, tmp_path: Path) -> WorkflowRun:
    """An attachment that failed, as its host became unresponsive; its volume stays reserved."""
    settings.NOVELLA_IMAGE_DIR = tmp_path
    volume = volumes.create(ana, VolumeCreate(size_gb=1, name="data"))
    agents.leave(home_of(server))
    server_volumes.attach(ana, server, AttachmentCreate(str(volume.uuid)))
    agents.play()
    run = WorkflowRun.objects.using(CELL).get(instance_uuid=server, flow="attach_volume")
    assert (run.state, Volume.objects.get().status) == (RunState.FAILED_NOT_CLEAN, "attaching")
    return run


def assert_clean(run: WorkflowRun) -> None:
    run.refresh_from_db()
    assert (run.state, run.uncompensated) == (RunState.FAILED_UNDONE, [])
    assert (Volume.objects.get().status, VolumeAttachment.objects.count()) == ("available", 0)
    assert not BlockDevice.objects.using(CELL).exists()
    ends = Event.objects.using(CELL).filter(run_uuid=run.uuid, kind__in=("run.ended", "run.cleaned")).order_by("pk")
    assert list(ends.values_list("kind", flat=True)) == ["run.ended", "run.cleaned"]


def test_an_undo_goes_on_although_the_conductor_died_after_the_hosts_answer(
    agents: Agents, held_up: WorkflowRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undos, "go_on_after", lambda alias, run_uuid: None)
    agents.come_back(home_of(str(held_up.instance_uuid)))
    agents.play()
    held_up.refresh_from_db()
    assert held_up.state == RunState.FAILED_NOT_CLEAN
    periodic.finish_undos_all(ALIASES)
    agents.play()
    assert_clean(held_up)
    periodic.finish_undos_all(ALIASES)
    assert_clean(held_up)


def test_an_undo_goes_on_when_another_workflow_releases_the_server(
    agents: Agents, ana: Any, held_up: WorkflowRun
) -> None:
    server = str(held_up.instance_uuid)
    actions.begin(ana, server, "stop")
    agents.come_back(home_of(server))
    agents.play(until=lambda: not outbox.deferred_about(CELL, server).exists())
    records = AuditRecord.objects.using(CELL).count()
    for _ in range(3):
        periodic.finish_undos_all(ALIASES)
    held_up.refresh_from_db()
    assert held_up.state == RunState.FAILED_NOT_CLEAN
    assert AuditRecord.objects.using(CELL).count() == records  # it waits, and is not refused each time
    agents.play()
    periodic.finish_undos_all(ALIASES)
    agents.play()
    assert_clean(held_up)


def test_a_rollback_that_the_system_finishes_needs_no_approval(
    agents: Agents, held_up: WorkflowRun, settings: Any
) -> None:
    settings.NOVELLA_SECOND_PERSON = True
    agents.come_back(home_of(str(held_up.instance_uuid)))
    agents.play()
    assert_clean(held_up)


def test_a_port_that_was_detached_since_is_not_taken_away_again(
    agents: Agents, ana: Any, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undos, "go_on_after", lambda alias, run_uuid: None)
    host, network = home_of(server), str(Network.objects.get(name="private").uuid)
    port = str(port_operations.create_port(ana, PortCreate(network)).uuid)
    agents.leave(host)
    interfaces.attach(ana, server, InterfaceCreate(port_id=port))
    agents.play()
    run = WorkflowRun.objects.using(CELL).get(instance_uuid=server, flow="attach_interface")
    agents.come_back(host)
    agents.play()
    interfaces.detach(ana, server, port)
    agents.play()
    interfaces.attach(ana, server, InterfaceCreate(port_id=port))
    agents.play()
    assert Port.objects.get(uuid=port).device_id == server
    periodic.finish_undos_all(ALIASES)
    agents.play()
    run.refresh_from_db()
    assert (run.state, run.uncompensated) == (RunState.FAILED_UNDONE, [])
    assert Port.objects.get(uuid=port).device_id == server


def test_a_run_of_a_deleted_server_becomes_clean(agents: Agents, ana: Any, held_up: WorkflowRun) -> None:
    server, host = str(held_up.instance_uuid), home_of(str(held_up.instance_uuid))
    instances.delete(ana, server)
    agents.play()
    agents.come_back(host)
    agents.play()
    storage_cleanup.tend()
    periodic.finish_undos_all(ALIASES)
    agents.play()
    assert_clean(held_up)


def test_an_undo_that_waited_for_its_host_ends_clean_once_that_has_done_it(
    agents: Agents, ana: Any, server: str, settings: Any, tmp_path: Path
) -> None:
    """Without a comparison, and the history of the workflow shows it."""
    settings.NOVELLA_IMAGE_DIR = tmp_path
    volume = str(volumes.create(ana, VolumeCreate(size_gb=1, name="data")).uuid)
    host = home_of(server)
    agents.leave(host)
    server_volumes.attach(ana, server, AttachmentCreate(volume))
    agents.play()
    run = WorkflowRun.objects.using(CELL).get(instance_uuid=server, flow="attach_volume")
    assert (run.state, Volume.objects.get(uuid=volume).status) == (RunState.FAILED_NOT_CLEAN, "attaching")
    assert not VolumeMessage.objects.exists()
    client = signed_in("ana")
    assert FREE_AGAIN not in text(client.get(f"/servers/{server}/activity"))
    agents.come_back(host)
    agents.play()
    run.refresh_from_db()
    assert (run.state, run.uncompensated) == (RunState.FAILED_UNDONE, [])
    assert Volume.objects.get(uuid=volume).status == "available"
    rows = Event.objects.using(CELL).filter(run_uuid=run.uuid).order_by("pk")
    assert rows.filter(kind="step.undone", data__step="ReserveVolume").exists()
    assert rows.get(kind="run.ended").data["state"] == RunState.FAILED_NOT_CLEAN
    assert rows.filter(kind__startswith="run.").last().kind == "run.cleaned"  # type: ignore[union-attr]
    assert rows.get(kind="run.cleaned").data["state"] == RunState.FAILED_UNDONE
    message = VolumeMessage.objects.get(resource_uuid=volume)
    assert message.project_id == ana.project_id
    assert message.text.startswith(f"Server {server} did not get the volume. The server's host has let it go by now")
    assert "did not get the volume" in text(client.get(f"/volumes/of/{volume}"))
    assert FREE_AGAIN in text(client.get(f"/servers/{server}/activity"))
