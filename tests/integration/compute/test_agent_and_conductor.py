"""An agent with the simulated hypervisor and a conductor, which exchange only encoded messages."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conductor import plugins
from conductor.api_db.models import CellMapping
from conductor.cell_db.models import ComputeNode, ConsoleLog, Instance, Service
from conductor.compute.agent import ComputeAgent
from conductor.compute.hosts import HostConfig
from conductor.core.states import PowerState, TaskState
from conductor.db.transactions import database_now
from conductor.journal.models import OutboxMessage
from conductor.rpc.codec import decode, encode
from conductor.rpc.messages import ConsolesWritten, HostReported, SpawnInstance, StepAnswered
from conductor.services.consoles import logs
from conductor.services.fleet import reports
from tests.tiny_driver import guest_json
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

CELL = "cell1"


class Wire:
    """The agent's messages, delivered on this thread when the test says so."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.answers: list[StepAnswered] = []

    def send(self, cell: str, message: Any) -> None:
        self.sent.append(json.dumps({"cell": cell, **encode(message)}))

    def deliver(self) -> None:
        while self.sent:
            body = json.loads(self.sent.pop(0))
            message = decode(body)
            if isinstance(message, HostReported):
                reports.record(body["cell"], message)
            elif isinstance(message, ConsolesWritten):
                logs.store_all(body["cell"], message)
            elif isinstance(message, StepAnswered):
                self.answers.append(message)

    def until(self, what: str, ask: Callable[[], Any]) -> Any:
        def requested() -> Any:
            self.deliver()
            return ask()

        return wait_until(what, requested)


@pytest.fixture
def wire() -> Wire:
    CellMapping.objects.get_or_create(name=CELL)
    return Wire()


@pytest.fixture
def agent(wire: Wire, tmp_path: Path) -> Iterator[ComputeAgent]:
    config = HostConfig(
        host="sim-1",
        cell=CELL,
        driver="fake",
        options={"latency_seconds": 0.0, "state_file": str(tmp_path / "guests.json")},
        journal_path=tmp_path / "sim-1.sqlite3",
    )
    made = ComputeAgent([config], plugins.registry().drivers, lambda _: None, 0.2, send=wire.send)  # type: ignore[arg-type, return-value]
    made.start()
    yield made
    made.stop()


def make_instance() -> Instance:
    return Instance.objects.using(CELL).create(
        uuid=uuid.uuid4(),
        project_id="b" * 32,
        user_id="a" * 32,
        name="web-1",
        hostname="web-1",
        task_state=TaskState.SPAWNING,
        host="sim-1",
        flavor={},
        image={},
        reservation_id="r-1",
        created_at=database_now(),
        updated_at=database_now(),
    )


def spawn(instance: Instance) -> dict[str, Any]:
    return encode(
        SpawnInstance(
            step_key="k1",
            fencing_token=1,
            run_uuid=str(uuid.uuid4()),
            cell=CELL,
            host="sim-1",
            instance_uuid=str(instance.uuid),
            guest=guest_json(str(instance.uuid)),
        )
    )


def test_a_guest_is_built_reported_and_destroyed_when_its_instance_is_gone(
    agent: ComputeAgent, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "FULL_LOOK_SECONDS", 1)  # the row is deleted without a command to the host
    wire.until("the first report", lambda: ComputeNode.objects.using(CELL).filter(host="sim-1").exists())
    instance = make_instance()
    agent.receive(spawn(instance))
    wire.until("the answer", lambda: wire.answers)
    assert wire.answers[0].ok
    Instance.objects.using(CELL).update(task_state=None)
    wire.until("its power state", lambda: Instance.objects.using(CELL).get().power_state == PowerState.RUNNING)
    log = wire.until("its console", lambda: ConsoleLog.objects.using(CELL).first())
    assert "simulated guest" in log.text

    Instance.objects.using(CELL).update(deleted_at=database_now())
    deferred = wire.until("the deferred destroy", lambda: OutboxMessage.objects.using(CELL).first())
    OutboxMessage.objects.using(CELL).all().delete()
    # Fencing tokens are the ids of lease grants; the token of this spawn is made up, and lower than any later one.
    agent.receive({**deferred.body, "body": {**deferred.body["body"], "fencing_token": 2}})
    wire.until("the answer", lambda: len(wire.answers) == 2)
    assert wire.answers[1].ok
    wire.until("the host without guests", lambda: ComputeNode.objects.using(CELL).get().running_guests == 0)
    wire.until("a settled host", lambda: Service.objects.using(CELL).get().unsettled["unmanaged"] == {})
