"""How many files a request passes through, from the view to the driver and back.

A profiler looks at the stack at each statement that is sent to a database and at each call of the driver, while a real
agent with the simulated hypervisor carries the request out. The files of all functions of the project on these stacks
are the way: what a reader opens who follows the calls down. A function that only calculates is called from the way and
returns to it; these are counted too, under "with helpers". The request was made once before, so that nothing is
imported or filled meanwhile.
This file runs in a process of its own (see test_request_paths.py): threads that other tests leave would count too.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from conductor import plugins
from conductor.cell_db.models import Instance
from conductor.cells import quarantine
from conductor.compute.agent import ComputeAgent
from conductor.compute.hosts import HostConfig
from conductor.core.states import LIVE_RUN_STATES, VmState
from conductor.image.models import Image
from conductor.journal.models import OutboxMessage, WorkflowRun
from conductor.rpc.codec import decode, encode
from conductor.rpc.messages import StepAnswered
from conductor.scheduler import host_manager
from conductor.workflows.engine import executor
from portal.live import routing  # noqa: F401 - a portal listens to what happens as soon as this is imported
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

PROJECT = Path(__file__).resolve().parents[3]
ROOMS = ("portal", "conductor", "scheduler_plugins", "compute_drivers")
CELL, HOSTS = "cell1", ("sim-1", "sim-2", "sim-3")
# They may only fall: files on the way, and with helpers.
MOST_FILES = {"POST /servers": (55, 186), "resize": (57, 180)}
DRIVER = "compute_drivers/fake/driver.py"
ALL_THE_TIME = ("compute-clock", "compute-consoles", "compute-report", "compute-usage")  # names of an agent's threads
TIMES = 5  # what passes each time is on the way
HEARTBEAT_SECONDS = 3600.0  # what an agent does from time to time is on no request's way


class Files:
    """The files of the project that are on the way, and those whose functions were called, in a request's threads.

    Those are this one and all that begin after the installation, but not what an agent does by itself at all times.
    """

    def __init__(self) -> None:
        self.called: set[str] = set()
        self.on_the_way: set[str] = set()

    def __call__(self, frame: Any, event: str, function: Any) -> None:
        if threading.current_thread().name.startswith(ALL_THE_TIME):
            return
        if event == "call":
            self.called.add(frame.f_code.co_filename)
        is_driver = event == "call" and frame.f_code.co_filename.endswith(DRIVER)
        if is_driver or (event == "c_call" and _is_statement(function)):
            while frame is not None:
                self.on_the_way.add(frame.f_code.co_filename)
                frame = frame.f_back

    def clear(self) -> None:
        self.called.clear()
        self.on_the_way.clear()

    def of_project(self) -> tuple[set[str], set[str]]:
        return _of_project(self.on_the_way), _of_project(self.called)


def _is_statement(function: Any) -> bool:
    return function.__name__ in {"execute", "executemany"} and isinstance(
        getattr(function, "__self__", None), sqlite3.Connection | sqlite3.Cursor
    )


def _of_project(files: set[str]) -> set[str]:
    names = (Path(name) for name in files.copy())  # other threads add to it
    below = (str(name.relative_to(PROJECT)) for name in names if name.is_relative_to(PROJECT))
    return {name for name in below if name.startswith(ROOMS)}


@pytest.fixture
def files() -> Iterator[Files]:
    noted = Files()
    threading.setprofile(noted)
    sys.setprofile(noted)
    yield noted
    sys.setprofile(None)
    threading.setprofile(None)  # type: ignore[arg-type]


class Wire:
    """Carries commands to the agent and its answers back, encoded as they are on the broker."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.delivered: set[str] = set()
        self.agent: ComputeAgent | None = None

    def send(self, cell: str, message: Any) -> None:
        if isinstance(message, StepAnswered):
            self.sent.append(json.loads(json.dumps({"cell": cell, **encode(message)})))

    def step_on(self) -> bool:
        """Run each live workflow once, deliver its new commands, and hand in the answers that came; False at rest."""
        assert self.agent is not None
        runs = {
            alias: WorkflowRun.objects.using(alias).filter(state__in=LIVE_RUN_STATES) for alias in ("default", CELL)
        }
        live = [(alias, uuid) for alias, rows in runs.items() for uuid in rows.values_list("uuid", flat=True)]
        for alias, uuid in live:
            executor.run(alias, uuid)
        for command in OutboxMessage.objects.using(CELL).exclude(step_key="").order_by("pk"):
            if command.step_key not in self.delivered:
                self.delivered.add(command.step_key)
                self.agent.receive(command.body)
        while self.sent:
            answer = decode(self.sent.pop(0))
            assert isinstance(answer, StepAnswered)
            assert answer.ok, answer
            executor.answer(CELL, answer)
        return bool(live)

    def to_the_end(self) -> None:
        wait_until(
            "no run is live",
            lambda: not self.step_on(),
            details=lambda: list(WorkflowRun.objects.using(CELL).values("flow", "waits_for")),
        )


@pytest.fixture
def wire(files: Files, hosts: Any, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    settings.NOVELLA_HOST_DOWN_SECONDS = 2 * HEARTBEAT_SECONDS
    # What is read once a second is on the way of each request of a slow machine, and of none of a fast one.
    monkeypatch.setattr(host_manager, "IO_OPS_EVERY_SECONDS", HEARTBEAT_SECONDS)
    monkeypatch.setattr(quarantine, "LOOK_EVERY_SECONDS", HEARTBEAT_SECONDS)
    made = Wire()
    options = {"latency_seconds": 0.0}
    configs = [
        HostConfig(
            host=host,
            cell=CELL,
            driver="fake",
            options=options | {"state_file": str(tmp_path / f"{host}.json")},
            journal_path=tmp_path / f"{host}.sqlite3",
        )
        for host in HOSTS
    ]
    drivers = plugins.registry().drivers
    made.agent = ComputeAgent(configs, drivers, lambda _: None, HEARTBEAT_SECONDS, send=made.send)  # type: ignore[arg-type]
    made.agent.start()
    yield made
    made.agent.stop()


def test_a_request_passes_through_few_files(files: Files, wire: Wire, api_client: Any) -> None:
    client = api_client("ana", version="2.90")
    image = str(Image.objects.get(name="simulated-linux").uuid)

    def launch() -> str:
        body = {"server": {"name": "web-1", "flavorRef": "1", "imageRef": image, "networks": "auto"}}
        answer = client.post("/compute/v2.1/servers", body)
        assert answer.status_code == 202, answer.content
        wire.to_the_end()
        uuid: str = answer.json()["server"]["id"]
        assert Instance.objects.using(CELL).get(uuid=uuid).vm_state == VmState.ACTIVE
        return uuid

    def resize(uuid: str) -> None:
        answer = client.post(f"/compute/v2.1/servers/{uuid}/action", {"resize": {"flavorRef": "2"}})
        assert answer.status_code == 202, answer.content
        wire.to_the_end()
        assert Instance.objects.using(CELL).get(uuid=uuid).vm_state == VmState.RESIZED

    def passed(works: Iterable[Callable[[], Any]]) -> tuple[list[str], list[str]]:
        passes = []
        for work in works:
            files.clear()
            work()
            passes.append(files.of_project())
        ways, calls = zip(*passes, strict=True)
        return sorted(set.intersection(*ways)), sorted(set.intersection(*calls))

    first, *others = (launch() for _ in range(1 + TIMES))
    resize(first)
    found = {
        "POST /servers": passed([launch] * TIMES),
        "resize": passed([partial(resize, uuid) for uuid in others]),
    }
    numbers = {name: (len(way), len(called)) for name, (way, called) in found.items()}
    assert all(
        number <= most for name in found for number, most in zip(numbers[name], MOST_FILES[name], strict=True)
    ), (
        numbers,
        {name: way for name, (way, _) in found.items()},
    )
