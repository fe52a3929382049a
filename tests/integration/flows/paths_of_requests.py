"""How many files a request passes through, from the view to the driver and back; `tools/request_path.py` says how.

The request was made once before, so that nothing is imported or filled meanwhile.
This file runs in a process of its own (see test_request_paths.py): threads that other tests leave would count too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from conductor import plugins
from conductor.cell_db.models import Instance
from conductor.compute.agent import ComputeAgent
from conductor.compute.hosts import HostConfig
from conductor.core.states import LIVE_RUN_STATES, VmState
from conductor.image.models import Image
from conductor.journal.models import OutboxMessage, WorkflowRun
from conductor.rpc.codec import decode, encode
from conductor.rpc.messages import StepAnswered
from conductor.workflows.engine import executor
from portal.live import routing  # noqa: F401 - a portal listens to what happens as soon as this is imported
from tests.integration.flows.moving import report_checks
from tests.waiting import wait_until
from tools.request_path import RequestPath, RequestProfiler, in_all

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

CELL, HOSTS = "cell1", ("sim-1", "sim-2", "sim-3")
# They may only fall: files on the way, and with helpers.
MOST_FILES = {"POST /servers": (51, 182), "resize": (53, 176)}
TIMES = 5  # what passes each time is on the way
HEARTBEAT_SECONDS = 3600.0  # what an agent does from time to time is on no request's way


@pytest.fixture
def profiler() -> Iterator[RequestProfiler]:
    made = RequestProfiler()
    with made.installed():
        yield made


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
def wire(
    profiler: RequestProfiler, hosts: Any, tmp_path: Path, settings: Any, reads_nothing_by_the_clock: None
) -> Iterator[Wire]:
    settings.NOVELLA_HOST_DOWN_SECONDS = 2 * HEARTBEAT_SECONDS
    report_checks()  # as agents with this driver do
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


def test_a_request_passes_through_few_files(profiler: RequestProfiler, wire: Wire, api_client: Any) -> None:
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

    def passed(works: Iterable[Callable[[], Any]]) -> RequestPath:
        paths = []
        for work in works:
            profiler.clear()
            work()
            paths.append(profiler.path())
        return in_all(paths)

    first, *others = (launch() for _ in range(1 + TIMES))
    resize(first)
    found = {
        "POST /servers": passed([launch] * TIMES),
        "resize": passed([partial(resize, uuid) for uuid in others]),
    }
    for name, path in found.items():
        print(f"\n{name}\n{path}")  # noqa: T201 - shown by `python -m tools.request_path`, and when the test fails
    numbers = {name: (len(path.on_the_way), len(path.with_helpers)) for name, path in found.items()}
    assert all(
        number <= most for name in found for number, most in zip(numbers[name], MOST_FILES[name], strict=True)
    ), numbers
