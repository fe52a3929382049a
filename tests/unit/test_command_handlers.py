"""Every command to a host: the driver method that it calls, its parameters, and its secrets."""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import pytest

from compute_drivers.fake.driver import FakeDriver
from compute_drivers.fake.state import GuestRecord
from conductor.compute.handlers import HANDLERS
from conductor.compute.host_journal import HostJournal
from conductor.compute.hosts import HostConfig
from conductor.compute.keyed_executor import KeyedExecutor
from conductor.compute.manager import AgentResources, ComputeManager
from conductor.core.compute_driver import CAPABILITIES, GuestSpec, NetworkPort, VolumeConnection
from conductor.core.consoles import CAPABILITY_OF
from conductor.core.guest_questions import CAPABILITY_OF as ANSWERED_FOR
from conductor.core.live_steering import STEERINGS
from conductor.core.request_spec import ImageSpec
from conductor.core.states import PowerState
from conductor.rpc import messages as m
from conductor.rpc.codec import encode, registered
from tests.guests import ImageShelf, guest_of
from tests.waiting import WAIT_SECONDS

PASSWORD = "pa$$'w\\ü"  # one whose forms in Python and in JSON differ
VOLUME = VolumeConnection(str(uuid4()), "/volumes/one", 1)
PORT = NetworkPort(str(uuid4()), "back", "fa:16:3e:0a:0b:0c", "10.9.0.7", 24, "10.9.0.0/24")

# In sequence: the command, its parameters besides the guest, and the power state afterwards.
POWER: tuple[tuple[type[Any], dict[str, Any], PowerState], ...] = (
    (m.PauseInstance, {}, PowerState.PAUSED),
    (m.UnpauseInstance, {}, PowerState.RUNNING),
    (m.SuspendInstance, {}, PowerState.SUSPENDED),
    (m.ResumeInstance, {}, PowerState.RUNNING),
    (m.PowerOff, {"timeout_seconds": 0.0}, PowerState.SHUTDOWN),
    (m.PowerOn, {}, PowerState.RUNNING),
    (m.RebootInstance, {"is_hard": True}, PowerState.RUNNING),
    (m.RescueInstance, {"password": PASSWORD}, PowerState.RUNNING),
    (m.UnrescueInstance, {"is_running": False}, PowerState.SHUTDOWN),
    (m.RebuildInstance, {}, PowerState.RUNNING),
)


class Host:
    """A simulated host behind a manager, as an agent has it."""

    def __init__(self, name: str, folder: Path, **options: Any) -> None:
        self.driver = FakeDriver(name, {"state_file": str(folder / f"{name}.json"), **options}, ImageShelf().open)
        self.driver.start()
        self.path = folder / f"{name}.sqlite3"
        self.journal = HostJournal(self.path)
        self.images: dict[str, tuple[str, bytes]] = {}
        self.sent: list[Any] = []
        self.condition = threading.Condition()
        self.executor, self.urgent = KeyedExecutor("commands", 4), KeyedExecutor("urgent", 1)
        self.manager = ComputeManager(
            HostConfig(host=name, cell="cell1", driver="fake", journal_path=self.path),
            self.driver,
            journal=self.journal,
            resources=AgentResources(self.executor, self.urgent, self._send, store_image=self._store),
        )
        self.token = 0

    def _send(self, cell: str, message: Any) -> None:
        with self.condition:
            self.sent.append(message)
            self.condition.notify_all()

    def _store(self, image_id: str, disk_format: str, data: BinaryIO) -> None:
        self.images[image_id] = (disk_format, data.read())

    def give(self, kind: type[Any], of: GuestSpec, /, token: int = 0, **fields: Any) -> str:
        """Send a command, with a newer token unless one is given; its key."""
        self.token = token or self.token + 1
        key = f"key-{uuid4()}"
        address = {"step_key": key, "fencing_token": self.token, "run_uuid": "r", "cell": "cell1"}
        command = kind(**address, host=self.driver.host, instance_uuid=of.instance_uuid, **fields)
        self.manager.receive(json.loads(json.dumps(encode(command))))
        return key

    def answer(self, key: str) -> m.StepAnswered:
        def found() -> list[m.StepAnswered]:
            return [it for it in self.sent if isinstance(it, m.StepAnswered) and it.step_key == key]

        with self.condition:
            assert self.condition.wait_for(found, WAIT_SECONDS), f"no answer: {self.sent}"
        return found()[0]

    def do(self, kind: type[Any], of: GuestSpec, /, **fields: Any) -> dict[str, Any]:
        """Send a command and have it succeed; its result."""
        answer = self.answer(self.give(kind, of, **fields))
        assert answer.ok, answer.error
        return answer.result

    def progressed(self, words: str) -> m.StepProgressed:
        def found() -> list[m.StepProgressed]:
            return [it for it in self.sent if isinstance(it, m.StepProgressed) and words in it.message]

        with self.condition:
            assert self.condition.wait_for(found, WAIT_SECONDS), f"no progress: {self.sent}"
        return found()[0]

    def note(self, guest: GuestSpec) -> GuestRecord | None:
        return self.driver.node.read_state().guests.get(guest.instance_uuid)

    def state(self, guest: GuestSpec) -> PowerState | None:
        return {it.instance_uuid: it.power_state for it in self.driver.guests()}.get(guest.instance_uuid)

    def stop(self) -> None:
        assert self.executor.stop(WAIT_SECONDS)
        assert self.urgent.stop(WAIT_SECONDS)
        self.journal.close()


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Host]]:
    made: list[Host] = []

    def start(name: str = "sim-1", **options: Any) -> Host:
        made.append(Host(name, tmp_path, **options))
        return made[-1]

    yield start
    for host in made:
        host.stop()


@pytest.fixture
def guest() -> GuestSpec:
    return guest_of(str(uuid4()), ImageSpec(image_id="i", name="simulated-linux"))


def test_every_command_has_a_handler_and_every_need_is_a_capability() -> None:
    commands = {kind for kind, _ in registered().values() if issubclass(kind, m.Command)}
    assert set(HANDLERS) == commands
    without_commands = {*CAPABILITY_OF.values(), *ANSWERED_FOR.values()}
    without_commands |= {one.capability for one in STEERINGS.values()}  # one command, which names what it needs
    assert {handler.capability for handler in HANDLERS.values()} - {""} == set(CAPABILITIES) - without_commands


def test_one_guest_through_all_that_can_be_done_to_it(make: Callable[..., Host], guest: GuestSpec) -> None:
    host, whole = make(), guest.to_json()
    host.do(m.SpawnInstance, guest, guest=whole)
    first = host.note(guest)
    assert first is not None
    for kind, fields, state in POWER:
        carried = {"guest": whole} if "guest" in {field.name for field in dataclass_fields(kind)} else {}
        assert host.do(kind, guest, **carried, **fields) == {}
        assert host.state(guest) is state
    host.do(m.SetAdminPassword, guest, password=PASSWORD)
    host.do(m.TriggerCrashDump, guest)
    host.do(m.AttachVolume, guest, volume={**asdict(VOLUME), "new": 1})  # of a newer conductor
    host.do(m.AttachInterface, guest, port={**asdict(PORT), "new": 1})
    last = host.note(guest)
    assert last is not None
    assert (last.has_admin_password, last.dumps, last.disk == first.disk) == (True, 1, False)
    assert (set(last.volumes), set(last.ports)) == ({VOLUME.volume_uuid}, {PORT.port_uuid})
    host.do(m.SwapVolume, guest, old_volume_uuid=VOLUME.volume_uuid, volume=asdict(replace(VOLUME, volume_uuid="w")))
    assert set(getattr(host.note(guest), "volumes", ())) == {"w"}
    host.do(m.DetachVolume, guest, volume_uuid="w")
    host.do(m.DetachInterface, guest, port_uuid=PORT.port_uuid)
    last = host.note(guest)
    assert last is not None
    assert (last.volumes, last.ports) == ({}, {})
    host.do(m.SnapshotInstance, guest, image_id="image-1")
    assert host.images == {"image-1": ("raw", last.disk_data())}
    host.do(m.DestroyInstance, guest)
    assert host.state(guest) is None


def test_a_guest_can_be_built_and_left_off(make: Callable[..., Host], guest: GuestSpec) -> None:
    host = make()
    host.do(m.SpawnInstance, guest, guest=guest.to_json(), is_running=False)
    assert host.state(guest) is PowerState.SHUTDOWN


@pytest.mark.parametrize("is_reverted", [False, True])
def test_a_guest_moves_by_what_the_answers_say(make: Callable[..., Host], guest: GuestSpec, is_reverted: bool) -> None:
    source, destination, whole = make("sim-1"), make("sim-2"), guest.to_json()
    source.do(m.SpawnInstance, guest, guest=whole)
    disks = source.do(m.MigrateOut, guest, guest=whole, destination="sim-2")
    destination.do(m.MigrateIn, guest, guest=whole, disks=disks, is_running=not is_reverted)
    assert (source.state(guest), destination.state(guest) is PowerState.RUNNING) == (None, not is_reverted)
    if is_reverted:
        destination.do(m.DestroyInstance, guest)
        source.do(m.RevertMigration, guest, guest=whole)
    else:
        source.do(m.ConfirmMigration, guest)
        assert source.driver.node.read_state().kept == {}
    assert (source.state(guest) is PowerState.RUNNING) is is_reverted


def test_a_guest_moves_while_it_runs_and_reports_figures(make: Callable[..., Host], guest: GuestSpec) -> None:
    source, destination, whole = make("sim-1"), make("sim-2"), guest.to_json()
    source.do(m.SpawnInstance, guest, guest=whole)
    before = source.note(guest)
    target = destination.do(m.PrepareLiveMigration, guest, guest=whole)
    source.do(m.LiveMigrate, guest, guest=whole, target=target)
    destination.do(m.FinishLiveMigration, guest, guest=whole)
    destination.do(m.CancelLiveMigration, guest)
    after = destination.note(guest)
    assert (source.state(guest), destination.state(guest)) == (None, PowerState.RUNNING)
    assert before is not None
    assert after is not None
    assert after.life == before.life
    reported = source.progressed("copying memory").figures
    assert (reported["memory_total"], reported["memory_remaining"]) == (64 << 20, 64 << 20)


@pytest.mark.parametrize("token", ["the same", "newer"])
def test_an_abort_is_executed_before_the_migration_ends(
    make: Callable[..., Host], guest: GuestSpec, token: str
) -> None:
    source, destination, whole = make("sim-1", live_migration_seconds=3600.0), make("sim-2"), guest.to_json()
    source.do(m.SpawnInstance, guest, guest=whole)
    target = destination.do(m.PrepareLiveMigration, guest, guest=whole)
    moving = source.give(m.LiveMigrate, guest, guest=whole, target=target)
    source.progressed("copying memory")
    stale = source.answer(source.give(m.AbortLiveMigration, guest, token=1))
    assert (stale.ok, (stale.error or {})["class"]) == (False, "StaleToken")
    aborting = source.give(m.AbortLiveMigration, guest, token=2 if token == "the same" else 9)
    assert source.answer(aborting).ok
    answer = source.answer(moving)
    assert (answer.ok, (answer.error or {})["class"]) == (False, "MigrationAborted")
    assert (source.state(guest), destination.state(guest)) == (PowerState.RUNNING, None)


def test_urgent_commands_have_threads_of_their_own(make: Callable[..., Host], guest: GuestSpec) -> None:
    source, destination, whole = make("sim-1", live_migration_seconds=3600.0), make("sim-2"), guest.to_json()
    source.do(m.SpawnInstance, guest, guest=whole)
    target = destination.do(m.PrepareLiveMigration, guest, guest=whole)
    others = [guest_of(str(uuid4()), guest.image, name=f"held-{number}") for number in range(3)]
    faults = {"spawn": {"hangs": True, "match_name": "^held-"}}
    source.driver.node.faults = type(source.driver.node.faults)("sim-1", faults, None)
    held = [source.give(m.SpawnInstance, other, guest=other.to_json()) for other in others]
    moving = source.give(m.LiveMigrate, guest, guest=whole, target=target)
    token = source.token
    source.progressed("copying memory")  # now all four threads are at work
    for kind, is_known in (("throttle", True), ("of a later release", False)):
        steered = source.answer(source.give(m.SteerLiveMigration, guest, token=token, kind=kind, amount=40))
        assert (steered.ok, (steered.error or {}).get("class")) == (is_known, None if is_known else "NotSupported")
    assert source.answer(source.give(m.ForceLiveMigration, guest, token=token)).ok
    assert source.answer(moving).ok
    assert destination.state(guest) is PowerState.RUNNING
    for other in others:  # which interrupts what hangs
        source.give(m.DestroyInstance, other, token=99)
    assert [(source.answer(key).error or {})["class"] for key in held] == ["StaleToken"] * 3


def test_unsupported_commands_never_reach_the_driver(make: Callable[..., Host], guest: GuestSpec) -> None:
    host = make()
    host.do(m.SpawnInstance, guest, guest=guest.to_json())
    host.driver.capabilities = frozenset()
    answer = host.answer(host.give(m.PauseInstance, guest))
    assert not answer.ok
    assert answer.error == {
        "class": "NotSupported",
        "message": "The driver of host sim-1 cannot do that: it has no pause.",
        "is_reschedulable": True,
    }
    assert host.state(guest) is PowerState.RUNNING


@pytest.mark.parametrize(("kind", "action"), [(m.PauseInstance, "paused"), (m.SuspendInstance, "suspended")])
def test_an_action_whose_effect_the_driver_does_not_list_has_failed(
    make: Callable[..., Host], guest: GuestSpec, monkeypatch: pytest.MonkeyPatch, kind: type[Any], action: str
) -> None:
    host = make()
    host.do(m.SpawnInstance, guest, guest=guest.to_json())
    for verb in ("pause", "suspend"):
        monkeypatch.setattr(host.driver, verb, lambda uuid: None)
    answer = host.answer(host.give(kind, guest))
    assert answer.error is not None
    assert answer.error["message"] == f"The driver says that it {action} the guest, and lists it as running."


def test_a_missing_guest_is_reported_as_missing(make: Callable[..., Host], guest: GuestSpec) -> None:
    host = make()
    answer = host.answer(host.give(m.PowerOff, guest))
    assert answer.error == {
        "class": "GuestMissing",
        "message": "The host has no such guest.",
        "is_reschedulable": False,
    }


def test_a_guest_that_comes_in_but_is_not_wanted_any_more_goes_again(
    make: Callable[..., Host], guest: GuestSpec
) -> None:
    source, destination, whole = make("sim-1"), make("sim-2", faults={"migrate_in": {"hangs": True}}), guest.to_json()
    source.do(m.SpawnInstance, guest, guest=whole)
    disks = source.do(m.MigrateOut, guest, guest=whole, destination="sim-2")
    coming = destination.give(m.MigrateIn, guest, guest=whole, disks=disks)
    destination.progressed("copying the disk")
    assert destination.answer(destination.give(m.DestroyInstance, guest)).ok
    assert (destination.answer(coming).error or {})["class"] == "StaleToken"
    assert destination.state(guest) is None
    source.do(m.RevertMigration, guest, guest=whole)
    assert source.state(guest) is PowerState.RUNNING


def test_a_command_that_was_cut_off_ends_right_when_it_comes_again(
    make: Callable[..., Host], guest: GuestSpec, tmp_path: Path
) -> None:
    """The state is as after kill -9: the effect exists, and the answer was not stored."""
    host = make()
    host.do(m.SpawnInstance, guest, guest=guest.to_json())
    key = host.give(m.PauseInstance, guest)
    assert host.answer(key).ok
    host.stop()
    with sqlite3.connect(tmp_path / "sim-1.sqlite3") as sql:
        sql.execute("UPDATE commands SET answer = NULL, state = 'received' WHERE step_key = ?", (key,))
    sql.close()
    again = make()
    address = {"step_key": key, "fencing_token": 2, "run_uuid": "r", "cell": "cell1", "host": "sim-1"}
    again.manager.receive(encode(m.PauseInstance(**address, instance_uuid=guest.instance_uuid)))
    assert again.answer(key).ok
    assert again.state(guest) is PowerState.PAUSED


def test_a_password_is_in_no_answer_progress_log_or_file(
    make: Callable[..., Host], guest: GuestSpec, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    host = make()
    guest = guest_of(guest.instance_uuid, guest.image, admin_password=PASSWORD)

    def leak(*things: Any, **named: Any) -> None:
        raise RuntimeError(f"cannot set {PASSWORD}: {things!r} {json.dumps(PASSWORD)}")

    with caplog.at_level(logging.DEBUG):
        host.do(m.SpawnInstance, guest, guest=guest.to_json())
        host.do(m.SetAdminPassword, guest, password=PASSWORD)
        for verb in ("set_admin_password", "rescue", "rebuild"):
            setattr(host.driver, verb, leak)
        keys = [
            host.give(m.SetAdminPassword, guest, password=PASSWORD),
            host.give(m.RescueInstance, guest, guest=guest.to_json(), password=PASSWORD),
            host.give(m.RebuildInstance, guest, guest=guest.to_json()),
        ]
        assert [host.answer(key).ok for key in keys] == [False] * 3
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    reported = repr(host.sent) + caplog.text + "".join(path.read_text(errors="replace") for path in files)
    for form in (PASSWORD, repr(PASSWORD)[1:-1], json.dumps(PASSWORD)[1:-1]):
        assert form not in reported
    assert "[hidden]" in caplog.text
