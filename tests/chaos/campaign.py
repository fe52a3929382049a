"""A whole cloud of separate processes, users, an adversary that kills processes, and checks afterwards."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, cast

from tests.acceptance.deployment import Deployment, Member
from tests.chaos.checker import unsettled, violations
from tests.chaos.evidence import Evidence
from tests.chaos.people import Answers, Person
from tests.waiting import Stopwatch, take_time

# Short times, so that a cloud settles soon after it was hurt.
LEASE_SECONDS = 3.0
VARIABLES = {
    "NOVELLA_LEASE_SECONDS": str(LEASE_SECONDS),
    "NOVELLA_SWEEP_SECONDS": "0.5",
    "NOVELLA_HEARTBEAT_SECONDS": "1",
    "NOVELLA_HOST_DOWN_SECONDS": "12",
    "NOVELLA_RECONCILE_SECONDS": "5",
    "NOVELLA_LOG_LEVEL": "WARNING",
    "NOVELLA_INTERFACE_SECONDS": "10",  # people wait twice as long for an answer
    "latency_seconds": "0.05",
}
# With schedulers of their own. As many calls as it takes: no build fails because schedulers are dead for a while.
SCHEDULERS = 2
CALLED = {"NOVELLA_SCHEDULER": "service", "NOVELLA_SCHEDULER_SECONDS": "2", "NOVELLA_SCHEDULER_CALLS": "10000"}
MESSAGE_FAULTS = "lose=0.03,repeat=0.05,delay=0.05"
SETTLE_SECONDS = 420.0
LONGEST_ACTION_SECONDS = 300.0  # of a person: some requests, each of which gives up after a minute
FAULTY_VERBS = (
    "spawn",
    "power_on",
    "power_off",
    "pause",
    "suspend",
    "rebuild",
    "migrate_in",
    "live_migrate",
    "snapshot",
)
PROJECTS = (("ana", "shop"), ("bo", "lab"), ("chi", "lab"))
SERVER_KILL = "kill -9 of the"
BROKER_EVERY = 4  # of the kills of servers: the broker takes seconds of processor time to start
QUOTAS = {"instances": 40, "cores": 400, "ram": 400_000}


class Server(Protocol):
    """A service that the product needs."""

    def kill(self) -> None: ...
    def restart(self) -> None: ...


class Campaign:
    """A deployment with users in it. Use it as a context manager; `settle` waits, `check` returns what is wrong."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        *,
        broker: str = "rabbitmq",
        schedulers: int = 0,
        message_faults: str = MESSAGE_FAULTS,
        **variables: str,
    ) -> None:
        self.folder, self.seed = folder, seed
        variables = {**VARIABLES, **(CALLED if schedulers else {}), **variables}
        if message_faults:
            variables["NOVELLA_MESSAGE_FAULTS"] = message_faults
        self.cloud = Deployment(folder, broker=broker, schedulers=schedulers, **variables)
        self.answers = Answers(folder / "answers.jsonl")
        self.people: list[Person] = []
        self.stay_dead: set[str] = set()  # names of members that are not to be started again yet
        self.were_dead: set[str] = set()

    def __enter__(self) -> Campaign:
        self.cloud.__enter__()
        try:
            self.people = [self._person(user, project) for user, project in PROJECTS]
            for person in self.people:
                person.prepare()
        except BaseException:
            self.cloud.stop()
            raise
        return self

    def __exit__(self, *error: Any) -> None:
        self.evidence.close()
        self.cloud.stop()

    @cached_property
    def evidence(self) -> Evidence:
        assert self.cloud.database is not None
        names = ("api", "cell0", *self.cloud.cells)
        urls = {name: f"{self.cloud.database.url}_{name}" for name in names}
        return Evidence(urls, self.cloud.data_dir / "agents", self.answers.path)

    def settle(self, seconds: float = SETTLE_SECONDS) -> list[str]:
        """Wait until no work is in progress; returns the rest when the time is over."""
        watch = Stopwatch()
        quiet: Stopwatch | None = None
        while watch.seconds < seconds:
            left = unsettled(self.evidence)
            if left:
                quiet = None
            elif quiet is None:
                quiet = Stopwatch()
            elif quiet.seconds > LEASE_SECONDS:  # reports of hosts may still open something
                return []
            take_time(0.5)
        return [f"never settles: {line}" for line in left or ["it goes on and on"]]

    def check(self) -> list[str]:
        return violations(self.evidence)

    def revive(self) -> None:
        """Start again whatever was killed and is not to stay dead."""
        self.were_dead |= self.stay_dead
        for member in self.cloud.members:
            if not member.is_alive and member.name not in self.stay_dead:
                self.start_again(member)

    def start_again(self, member: Member) -> None:
        """Start a dead process. A host is not ready while the conductors of its cell are dead: nothing waits for it."""
        start = self.cloud.begin if member.role == "host" else self.cloud.restart
        start(member.role, self.cloud.of(member.role).index(member))

    def _person(self, user: str, project: str) -> Person:
        """Create a user with a project of this name, a token for it, and one of the administrator's."""
        client, domain = self.cloud.api(0), {"name": "Default"}
        found = client.call("GET", f"/identity/v3/projects?name={project}", user="admin").json["projects"]
        if not found:
            body = {"project": {"name": project}}
            found = [client.call("POST", "/identity/v3/projects", body, user="admin").json["project"]]
            quotas = {"quota_set": QUOTAS}
            client.call("PUT", f"/compute/v2.1/os-quota-sets/{found[0]['id']}", quotas, user="admin")
        password = f"{user}-has-a-password-7"
        made = client.call("POST", "/identity/v3/users", {"user": {"name": user, "password": password}}, user="admin")
        (role,) = client.call("GET", "/identity/v3/roles?name=member", user="admin").json["roles"]
        path = f"/identity/v3/projects/{found[0]['id']}/users/{made.json['user']['id']}/roles/{role['id']}"
        assert client.call("PUT", path, user="admin").status == 204
        who = {"user": {"name": user, "domain": domain, "password": password}}
        auth = {"identity": {"methods": ["password"], "password": who}, "scope": {"project": {"id": found[0]["id"]}}}
        token = client.call("POST", "/identity/v3/auth/tokens", {"auth": auth}, user="").headers["X-Subject-Token"]
        tokens = {"own": token, "admin": client.token("admin"), "project": found[0]["id"]}
        webs = [self.cloud.api(index).url for index in range(len(self.cloud.of("web")))]
        return Person(user, f"{self.seed}:{user}", webs=webs, tokens=tokens, answers=self.answers)


class Adversary:
    """Kills, freezes and disconnects processes at random, by its own seed; all of them run again at the end."""

    def __init__(self, campaign: Campaign, kills: int, server_kills: int = 0) -> None:
        self.campaign, self.cloud = campaign, campaign.cloud
        self.random = random.Random(f"{campaign.seed}:adversary")
        self.done: list[str] = []
        servers = [self._kill_database if at % BROKER_EVERY else self._kill_broker for at in range(server_kills)]
        default = (self._kill, self._freeze, self._cut_connections, self._spoil_hosts)
        self._blows = servers + self.random.choices(default, (60, 12, 12, 12), k=kills)
        self.random.shuffle(self._blows)

    def work(self) -> None:
        """Inject one fault after the other; all of them, even if the users finish earlier."""
        for blow in self._blows:
            take_time(self.random.uniform(0.2, 1.5))
            blow()
        self._heal_hosts()
        self.campaign.revive()

    def _kill(self) -> None:
        member = self.random.choice([member for member in self.cloud.members if member.is_alive])
        index = self.cloud.of(member.role).index(member)
        self.done.append(f"kill {member.name}")
        self.cloud.kill(member.role, index)
        take_time(self.random.uniform(0.0, 2 * LEASE_SECONDS) if self.random.random() < 0.3 else 0.0)
        self.campaign.start_again(member)

    def _freeze(self) -> None:
        """Freeze a process, mostly past its lease; then it continues with its old state."""
        member = self.random.choice([member for member in self.cloud.members if member.is_alive])
        self.done.append(f"freeze {member.name}")
        _signal(member, signal.SIGSTOP)
        take_time(self.random.uniform(0.5, 2 * LEASE_SECONDS))
        _signal(member, signal.SIGCONT)

    def _cut_connections(self) -> None:
        assert self.cloud.database is not None
        self.done.append("cut connections")
        self.cloud.database.psql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND usename = 'novella' AND random() < 0.5"
        )

    def _kill_database(self) -> None:
        assert self.cloud.database is not None
        self._kill_server("database", self.cloud.database)

    def _kill_broker(self) -> None:
        self._kill_server("broker", cast(Server, self.cloud.broker))

    def _kill_server(self, name: str, server: Server) -> None:
        self.done.append(f"{SERVER_KILL} {name}")
        server.kill()
        take_time(self.random.uniform(0.0, 2.0))
        server.restart()

    def _spoil_hosts(self) -> None:
        """Make a few calls of drivers fail, before or after their effect, or slow."""
        verb = self.random.choice(FAULTY_VERBS)
        rule = {
            "fail_times": self.random.randrange(0, 3),
            "delay_seconds": self.random.choice((0.0, 0.0, 1.0)),
            "after_effect": self.random.random() < 0.5,
        }
        self.done.append(f"spoil {verb} {rule}")
        _write(self.cloud.data_dir / "faults.json", {verb: rule})

    def _heal_hosts(self) -> None:
        _write(self.cloud.data_dir / "faults.json", {})


def _write(path: Path, rules: dict[str, Any]) -> None:
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(rules))
    os.replace(part, path)


def _signal(member: Member, number: int) -> None:
    assert member.child is not None
    member.child.send_signal(number)


@contextmanager
def at_work(people: Sequence[Person], *tests: Callable[[], bool]) -> Iterator[list[str]]:
    """Run all users at once, each on a thread, until the end. A user whose thread fails is reported."""
    broken: list[str] = []

    def work(person: Person) -> None:
        try:
            person.work(*tests)
        except Exception as error:
            broken.append(f"{person.name} broke down: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=work, args=(person,), name=person.name) for person in people]
    for thread in threads:
        thread.start()
    try:
        yield broken
    finally:
        for thread in threads:
            thread.join(timeout=LONGEST_ACTION_SECONDS)
            assert not thread.is_alive(), f"{thread.name} is still at work"


def at_random(
    campaign: Campaign, *, actions: int, kills: int, server_kills: int = 0, report: Callable[[str], None]
) -> list[str]:
    """Run `actions` of the users while faults are injected; then the cloud must come to rest without violations.

    The adversary injects `kills` faults into the product, and kills database and broker `server_kills` times in all.
    """
    adversary, blows = Adversary(campaign, kills, server_kills), kills + server_kills

    has_failed = threading.Event()

    def is_over() -> bool:
        return campaign.answers.count >= actions or has_failed.is_set()

    def is_too_fast() -> bool:
        """Whether the faults lag behind the actions, over which they are spread."""
        share = len(adversary.done) / blows if blows else 1.0
        return campaign.answers.count > actions * share + len(campaign.people)

    watch = Stopwatch()
    with at_work(campaign.people, is_over, is_too_fast) as broken:
        try:
            adversary.work()
        except BaseException:
            has_failed.set()  # no further blow follows
            raise
    servers = sum(blow.startswith(SERVER_KILL) for blow in adversary.done)
    report(
        f"{campaign.answers.count} actions ({campaign.answers.accepted} accepted), "
        f"{len(adversary.done) - servers} blows, {servers} kills of servers in {watch.seconds:.0f} s"
    )
    wrong = campaign.settle()
    report(f"settled after {watch.seconds:.0f} s")
    return broken + wrong + campaign.check()
