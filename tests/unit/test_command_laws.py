"""Commands in any order, doubled, late, with restarts in between: the laws that hold whatever happens."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections import defaultdict, deque
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from conductor.compute.host_journal import HostJournal
from conductor.compute.hosts import HostConfig
from conductor.compute.keyed_executor import KeyedExecutor
from conductor.compute.manager import AgentResources, ComputeManager
from conductor.core.compute_driver import GuestSpec, Progress
from conductor.core.errors import DriverError
from conductor.rpc.codec import encode
from conductor.rpc.messages import DestroyInstance, SpawnInstance, StepAnswered
from tests.tiny_driver import TinyDriver, guest_json

INSTANCES = ("a", "b")
MOST_TOKENS = 8


class SteppedExecutor(KeyedExecutor):
    """KeyedExecutor whose work finishes when the test decides, one piece at a time."""

    def __init__(self) -> None:
        super().__init__("stepped", 0)
        self.waiting: dict[Hashable, deque[Callable[[], None]]] = defaultdict(deque)

    def submit(self, group: Hashable, key: Hashable, work: Callable[[], None], *, max_parallel: int = 1) -> None:
        self.waiting[key].append(work)


class Killed(BaseException):
    """The process ends here: nothing after this line happens."""


class Commands(RuleBasedStateMachine):
    """A pool of commands, each with its key and a token of its own, as a conductor's leases give them."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="novella-laws-"))
        self.sent: list[StepAnswered] = []
        self.received: dict[str, int] = {}  # highest token that came in, per instance
        self.runs: defaultdict[str, int] = defaultdict(int)  # how often the driver was called, per command
        self.cut_off: defaultdict[str, int] = defaultdict(int)  # how often a restart cut a command off
        self.answers: dict[str, StepAnswered] = {}
        self.violations: list[str] = []  # collected: the manager catches what is raised below it
        self.driver = TinyDriver()
        self.fails = False
        self.overtaken_by: dict[str, Any] | None = None
        self.is_killed_now = False
        self._start()

    def _start(self) -> None:
        self.executor = SteppedExecutor()
        self.journal = HostJournal(self.folder / "host.sqlite3")
        config = HostConfig(host="host-1", cell="cell1", driver="tiny", journal_path=self.folder / "host.sqlite3")
        self.driver.spawning = self._in_driver
        self.driver.destroying = lambda uuid: None
        self.manager = ComputeManager(
            config,
            self.driver,
            journal=self.journal,
            resources=AgentResources(self.executor, self.executor, lambda _, message: self._hear(message)),
        )

    def teardown(self) -> None:
        self.journal.close()
        shutil.rmtree(self.folder)

    def _in_driver(self, guest: GuestSpec, progress: Progress) -> None:
        key = guest.metadata["key"]
        token = int(guest.metadata["token"])
        if token < self.received[guest.instance_uuid]:
            self.violations.append(f"{key} reached the driver after {self.received[guest.instance_uuid]}")
        self.runs[key] += 1
        if self.overtaken_by is not None:
            body, self.overtaken_by = self.overtaken_by, None
            self._deliver(body)
        if self.is_killed_now:
            self.is_killed_now = False
            self.driver.running[guest.instance_uuid] = guest  # the guest may be there already
            self.cut_off[key] += 1
            raise Killed
        if self.fails:
            self.fails = False
            raise DriverError("configured to fail")

    def _hear(self, message: Any) -> None:
        if not isinstance(message, StepAnswered):
            return
        first = self.answers.setdefault(message.step_key, message)
        if message != first:
            self.violations.append(f"{message} after {first}")

    def _deliver(self, body: dict[str, Any]) -> None:
        inner = body["body"]
        seen = self.received.get(inner["instance_uuid"], 0)
        self.received[inner["instance_uuid"]] = max(seen, inner["fencing_token"])
        self.manager.receive(body)

    @rule(instance=st.sampled_from(INSTANCES), token=st.integers(1, MOST_TOKENS), times=st.integers(1, 3))
    def deliver(self, instance: str, token: int, times: int) -> None:
        for _ in range(times):
            self._deliver(_body(instance, token))

    @rule(instance=st.sampled_from(INSTANCES), fails=st.booleans(), overtaker=st.integers(0, MOST_TOKENS))
    def work(self, instance: str, fails: bool, overtaker: int) -> None:
        """Carry out the next command of an instance; another may arrive while the driver works."""
        if not self.executor.waiting[instance]:
            return
        self.fails = fails
        self.overtaken_by = _body(instance, overtaker) if overtaker else None
        self.executor.waiting[instance].popleft()()
        self.fails, self.overtaken_by = False, None

    @rule()
    def restart(self) -> None:
        """End the process between two commands, and start it again."""
        self.journal.close()
        self._start()

    @precondition(lambda self: any(self.executor.waiting.values()))
    @rule(instance=st.sampled_from(INSTANCES))
    def die_at_work(self, instance: str) -> None:
        """Kill the process in the middle of a spawn, and start it again."""
        if not self.executor.waiting[instance]:
            return
        self.is_killed_now = True
        with contextlib.suppress(Killed):
            self.executor.waiting[instance].popleft()()
        self.is_killed_now = False
        self.restart()

    @invariant()
    def no_stale_token_reached_the_driver_and_answers_are_equal(self) -> None:
        assert self.violations == []

    @invariant()
    def the_driver_ran_each_command_once_for_each_life(self) -> None:
        for key, count in self.runs.items():
            assert count <= 1 + self.cut_off[key]

    @invariant()
    def what_was_answered_well_and_is_newest_is_true(self) -> None:
        for instance, token in self.received.items():
            answer = self.answers.get(_key(instance, token))
            if answer is not None and answer.ok:
                assert (instance in self.driver.running) == _is_spawn(token)


def _is_spawn(token: int) -> bool:
    return token % 3 != 0


def _key(instance: str, token: int) -> str:
    return f"{instance}:{token}"


def _body(instance: str, token: int) -> dict[str, Any]:
    address = {
        "step_key": _key(instance, token),
        "fencing_token": token,
        "run_uuid": "r",
        "cell": "cell1",
        "host": "host-1",
        "instance_uuid": instance,
    }
    if not _is_spawn(token):
        return encode(DestroyInstance(**address))
    guest = guest_json(instance, metadata={"key": _key(instance, token), "token": str(token)})
    return encode(SpawnInstance(**address, guest=guest))


Commands.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestCommands = Commands.TestCase
