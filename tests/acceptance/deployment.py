"""A whole Novella in separate processes: webs, conductors and hosts, a real broker and a real database.

with Deployment(folder, broker="rabbitmq") as cloud:
    answer = cloud.api(1).launch("web-1")
    cloud.kill("cell1", 0)                 # SIGKILL to the first conductor of cell1
    cloud.broker.kill(); cloud.broker.restart()
    cloud.restart("cell1", 0)
    assert cloud.leaked_resources() == {}

Every process has a log of its own in `folder/logs`. All are started at once, by a nursery (see nursery.py).
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from conductor.compute.host_journal import NUMBERS_PER_EPOCH
from tests import migrated
from tests.acceptance.cloud import GUESTS_ADDRESSES, GUESTS_PORTS, Client
from tests.acceptance.nursery import Child, Nursery, inherited_environment
from tests.locks import locked
from tests.services import postgresql, rabbitmq, redis
from tests.services.process import free_port
from tests.waiting import wait_until

START_SECONDS = 240.0
STOP_SECONDS = 240.0
CELLS = {"cell1": 2, "cell2": 2}
HOSTS = {"cell1": ("h1", "h2", "h3"), "cell2": ("h4", "h5", "h6")}
BROKERS = {"rabbitmq": rabbitmq.start, "redis": redis.start}
VARIABLES = {
    "NOVELLA_REAL_HOST": "off",
    # Leases and sweeps are short: a test that kills should not wait ten seconds each time.
    "NOVELLA_LEASE_SECONDS": "3",
    "NOVELLA_SWEEP_SECONDS": "0.5",
    # No host counts as down because the machine is slow, or because its process or the broker is dead for a while.
    "NOVELLA_HOST_DOWN_SECONDS": "3600",
}
# Seeded data by cells, for the life of this test run: of all its workers, if there are several.
TEMPLATES = Path(tempfile.gettempdir()) / f"novella-seeded-{os.environ.get('PYTEST_XDIST_TESTRUNUID', os.getpid())}"
LOCK = TEMPLATES.with_suffix(".lock")
LIVE = "('queued', 'running', 'waiting', 'undoing')"
# Data that a cloud without servers must not have, by name.
LEFT_ANYWHERE = {table: f"select * from journal_{table}" for table in ("resourcelock", "lockwait", "outboxmessage")}
LEFT_ANYWHERE["runs"] = f"select flow, state, waits_for from journal_workflowrun where state in {LIVE}"
LEFT_IN_API = {
    "allocations": "select * from placement_allocation",
    "used": "select * from placement_inventory where used <> 0",
    "ports": f"select * from {GUESTS_PORTS}",
    "addresses": f"select * from {GUESTS_ADDRESSES}",
    "build requests": "select * from api_db_buildrequest",
}


def _forget_templates() -> None:
    """Forget the templates; a worker that needs them later creates them again."""
    with locked(LOCK):
        shutil.rmtree(TEMPLATES, ignore_errors=True)
        LOCK.unlink(missing_ok=True)


@dataclass
class Member:
    """One process of the deployment: what it is started with, and its present life."""

    role: str  # "web", "api", "scheduler", a cell's name, or "host"
    name: str
    arguments: tuple[str, ...]
    log_path: Path
    variables: dict[str, str] = field(default_factory=dict)
    child: Child | None = None
    began_at: int = 0  # where in the log its present life begins

    @property
    def is_alive(self) -> bool:
        return self.child is not None and self.child.code is None

    def log_tail(self) -> str:
        text = self.log_path.read_text(errors="replace")[-3000:] if self.log_path.exists() else ""
        return f"--- {self.name}\n{text}"

    def is_ready(self) -> bool:
        assert self.child is not None
        code = self.child.code  # asked first: it may be killed as soon as it is ready
        with self.log_path.open(errors="replace") as log:
            log.seek(self.began_at)
            is_ready = " is ready: " in log.read()
        assert is_ready or code is None, f"{self.name} ended with {code}\n{self.log_tail()}"
        return is_ready


class Deployment:
    """See above. `webs`, `api_conductors`, `schedulers` and `cells` are numbers of processes, `hosts` names per cell.

    `variables` go to all processes. They are started by `nursery`, or else by one that ends with the deployment.
    """

    def __init__(  # noqa: PLR0913 - one word for each thing that a test may want otherwise
        self,
        folder: Path,
        *,
        broker: str = "rabbitmq",
        webs: int = 2,
        api_conductors: int = 2,
        schedulers: int = 0,
        cells: Mapping[str, int] = CELLS,
        hosts: Mapping[str, Iterable[str]] = HOSTS,
        nursery: Nursery | None = None,
        **variables: str,
    ) -> None:
        self.folder = folder
        self.data_dir = folder / "var"
        self.variables = VARIABLES | variables
        self.cells = tuple(cells)
        self.hosts = {cell: tuple(names) for cell, names in hosts.items()}
        self._commands = 0
        self.members: list[Member] = []
        self._broker_kind = broker
        self._nursery, self._is_nursery_own = nursery, nursery is None
        self._web_ports = [free_port() for _ in range(webs)]
        self._clients: dict[int, Client] = {}
        for number, port in enumerate(self._web_ports, start=1):
            self._add("web", f"web-{number}", "web", "--port", str(port))
        for number in range(1, api_conductors + 1):
            self._add("api", f"api-{number}", "conductor", "--api-level", "--name", f"api-{number}")
        for number in range(1, schedulers + 1):
            self._add("scheduler", f"scheduler-{number}", "scheduler", "--name", f"scheduler-{number}")
        for cell, count in cells.items():
            for number in range(1, count + 1):
                name = f"{cell}-{number}"
                self._add(cell, name, "conductor", "--cell", cell, "--name", name)
        for cell, names in self.hosts.items():
            for rank, host in enumerate(names):
                self._add_host(cell, host, rank)

    def _host_options(self, host: str) -> tuple[str, ...]:
        options = {
            "latency_seconds": self.variables.pop("latency_seconds", "0.05"),
            "state_file": json.dumps(str(self.data_dir / "agents" / f"{host}.guests.json")),
            "faults_file": json.dumps(str(self.data_dir / "faults.json")),
        }
        self.variables["latency_seconds"] = options["latency_seconds"]
        return tuple(word for key, value in options.items() for word in ("--option", f"{key}={value}"))

    def _add_host(self, cell: str, host: str, rank: int) -> None:
        zone = f"az-{rank % 3 + 1}"
        place = ("--host", host, "--cell", cell, "--zone", zone, "--driver", "fake")
        self._add("host", host, "compute", *place, *self._host_options(host))

    def _add(self, role: str, name: str, *arguments: str) -> None:
        self.members.append(Member(role, name, arguments, self.folder / "logs" / f"{name}.log"))

    # -- life -------------------------------------------------------------------------------------------------

    def start(self) -> Deployment:
        """Start services, seed, start every process; returns when all are ready and the hosts are known."""
        (self.folder / "logs").mkdir(parents=True, exist_ok=True)
        self.variables.pop("latency_seconds", None)
        with ThreadPoolExecutor() as pool:
            broker = pool.submit(BROKERS[self._broker_kind], self.folder / "broker")
            own = pool.submit(Nursery) if self._nursery is None else None
        self.broker = broker.result()
        self._nursery = own.result() if own is not None else self._nursery
        with self._template() as template:
            self.database = self._start_database(template if template.exists() else None)
            if not template.exists():
                self._seed()
                self._keep_as(template)
        self._enroll()
        for member in self.members:
            self._begin(member)
        # A conductor of the previous release may be unable to answer a host, so wait until its report is stored.
        self._await_ready([member for member in self.members if member.role != "host"])
        self._await_hosts()
        return self

    def _start_database(self, template: Path | None) -> postgresql.Service:
        if template is not None:
            shutil.copytree(template / "var", self.data_dir)
        folder = self.folder / "postgresql"
        return migrated.start_server(folder) if template is None else postgresql.start_copy(template / "data", folder)

    @contextmanager
    def _template(self) -> Iterator[Path]:
        """Return the folder of the seeded data. The first process creates them while the others wait."""
        template = TEMPLATES / "-".join(self.cells)
        with locked(LOCK) as lock:
            if template.exists():
                fcntl.flock(lock, fcntl.LOCK_SH)
            yield template

    def _keep_as(self, template: Path) -> None:
        """Keep the seeded data as the start of the run's next deployments."""
        part = template.with_name(f"{template.name}.{os.getpid()}")
        shutil.copytree(self.data_dir, part / "var")
        self.database.stop()
        subprocess.run(["cp", "-a", str(self.database.folder / "data"), str(part / "data")], check=True)
        self.database.restart()
        part.rename(template)
        atexit.register(_forget_templates)

    def _seed(self) -> None:
        self.manage("seed")

    def _enroll(self) -> None:
        """Give each host its key, as an operator does."""
        for cell, hosts in self.hosts.items():
            if hosts:
                self.manage("hosts", "enroll", *hosts, "--cell", cell)

    def enroll_host(self, cell: str, host: str) -> None:
        """Add a host of which no conductor has heard, with its key; `begin` starts it."""
        self._add_host(cell, host, len(self.hosts[cell]))
        self.hosts[cell] += (host,)
        self.manage("hosts", "enroll", host, "--cell", cell)

    def manage(self, *arguments: str) -> str:
        """Run a command of manage.py with the databases at hand; what it prints. It must succeed."""
        self._commands += 1
        name = f"{arguments[0]}-{self._commands}"
        member = Member("command", name, arguments, self.folder / "logs" / f"{name}.log")
        self._begin(member)
        assert member.child is not None
        assert member.child.wait(START_SECONDS) == 0, member.log_tail()
        return member.log_path.read_text()

    def stop(self) -> None:
        """End everything, also after a start that failed."""
        for member in self.members:
            if member.child is not None:
                member.child.kill()
        for member in self.members:
            if member.child is not None:
                member.child.wait(STOP_SECONDS)
        if self._nursery is not None and self._is_nursery_own:
            self._nursery.close()
        for service in (getattr(self, "broker", None), getattr(self, "database", None)):
            if service is not None:
                service.stop()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def environment(self, member: Member) -> dict[str, str]:
        own = {"NOVELLA_DATA": str(self.data_dir), "NOVELLA_BROKER_URL": self.broker.url}
        if self._broker_kind == "redis":
            own["NOVELLA_CHANNEL_URL"] = self.broker.url
        if member.role != "host":  # a host gets no database
            own["NOVELLA_DATABASE_URL"] = self.database.url
        if set(self.cells) != set(CELLS):
            own["NOVELLA_CELLS"] = ",".join(self.cells)
        return {**inherited_environment(), **own, **self.variables, **member.variables}

    def _begin(self, member: Member) -> None:
        assert self._nursery is not None
        member.log_path.touch()
        member.began_at = member.log_path.stat().st_size
        member.child = self._nursery.spawn(member.arguments, self.environment(member), member.log_path)

    def _await_ready(self, members: Sequence[Member]) -> None:
        waiting = list(members)
        for member in waiting:
            wait_until(f"{member.name} is ready", member.is_ready, START_SECONDS, details=member.log_tail)

    def _await_hosts(self) -> None:
        """Wait until conductors have taken in each host's first report: no server can be placed on it before."""
        query = """select count(*) from cell_db_service where "binary" = 'nova-compute' and report_digest <> ''"""
        wanted = {cell: [(str(len(hosts)),)] for cell, hosts in self.hosts.items()}
        wait_until(
            "all hosts have reported",
            lambda: {cell: self.rows(cell, query) for cell in wanted} == wanted,
            START_SECONDS,
            details=self.log_tail,
        )

    # -- one process --------------------------------------------------------------------------------------------

    def of(self, role: str) -> list[Member]:
        """Return the processes of a role: "web", "api", "scheduler", "host" or a cell's name (its conductors)."""
        return [member for member in self.members if member.role == role]

    def kill(self, role: str, index: int = 0, number: int = signal.SIGKILL) -> int:
        """Send a signal and wait for the end; the exit code (a negative signal number when it was killed)."""
        child = self.of(role)[index].child
        assert child is not None
        child.send_signal(number)
        return child.wait(STOP_SECONDS)

    def _life_of(self, host: str) -> int:
        """Return the epoch of the host's newest completely stored report; 0 for none. Each life of an agent has one.

        A late report of an earlier life has the earlier epoch.
        """
        cell = next(cell for cell, hosts in self.hosts.items() if host in hosts)
        query = f"""select report_number from cell_db_service where "binary" = 'nova-compute' and host = '{host}'"""
        rows = self.rows(cell, query + " and report_digest <> ''")
        return int(rows[0][0]) // NUMBERS_PER_EPOCH if rows else 0

    def begin(self, role: str, index: int = 0, **variables: str) -> Member:
        """Start a process that has ended again, this time with these variables too; returns at once."""
        member = self.of(role)[index]
        assert not member.is_alive, f"{member.name} lives"
        member.variables = variables
        self._begin(member)
        return member

    def restart(self, role: str, index: int = 0, **variables: str) -> None:
        """Start a process again and wait until it is ready.

        A host is ready when a conductor has stored a report of its new life.
        """
        host = self.of(role)[index].name
        before = self._life_of(host) if role == "host" else 0
        member = self.begin(role, index, **variables)
        if role != "host":
            self._await_ready([member])
            return
        wait_until(
            f"a conductor has stored a report of {host}",
            lambda: self._life_of(host) > before,
            START_SECONDS,
            details=member.log_tail,
        )

    def dead(self) -> list[str]:
        """Return the names of processes that have ended."""
        return [member.name for member in self.members if not member.is_alive]

    def log_tail(self) -> str:
        return "\n".join(member.log_tail() for member in self.members)

    def make_broker_account(self, host: str) -> str:
        """Give a host an account of its own, as an operator does; the broker's address with it."""
        (url,) = self.make_broker_accounts(host).values()
        return url

    def make_broker_accounts(self, *named: str) -> dict[str, str]:
        """Make accounts as an operator does; the broker's address with each, by what the command calls its user."""
        printed = self.manage("broker_accounts", self._broker_kind, *named).splitlines()
        heads = [line.removeprefix("# ").partition(": NOVELLA_BROKER_URL=") for line in printed if line.startswith("#")]
        for line in printed:
            if line.startswith(("rabbitmqctl ", "redis-cli ")):
                self.broker.administer(shlex.split(line)[1:])
        return {label: url for label, _, url in heads}

    # -- from outside -------------------------------------------------------------------------------------------

    def api(self, web: int = 0) -> Client:
        """Return the API through one of the webs; the same client each time."""
        if web not in self._clients:
            self._clients[web] = _Client(self.data_dir, f"http://127.0.0.1:{self._web_ports[web]}", self.log_tail)
        return self._clients[web]

    def rows(self, database: str, sql: str) -> list[tuple[str, ...]]:
        """Return the rows of a query on one of the databases: api, cell0 or a cell; every value is text."""
        answer = self.database.psql(sql, f"novella_{database}")
        return [tuple(line.split("|")) for line in answer.splitlines()]

    def guests(self) -> list[str]:
        """Return the uuids of the guests on all hosts."""
        found: list[str] = []
        for path in (self.data_dir / "agents").glob("*.guests.json"):
            found += json.loads(path.read_text() or "{}").get("guests", {})
        return sorted(found)

    def leaked_resources(self) -> dict[str, list[Any]]:
        """Everything that a cloud without servers must not have; empty when it is clean."""
        found: dict[str, list[Any]] = {"guests": self.guests()}
        for database in ("api", "cell0", *self.cells):
            wanted = {f"{database} {name}": sql for name, sql in LEFT_ANYWHERE.items()}
            found |= self._rows_of_each(database, wanted | (LEFT_IN_API if database == "api" else {}))
        return {name: rows for name, rows in found.items() if rows}

    def wait_until_clean(self) -> None:
        """Wait until nothing is left of deleted servers: their last runs end shortly after the servers are gone."""
        wait_until("nothing left", lambda: self.leaked_resources() == {}, START_SECONDS, details=self.leaked_resources)

    def _rows_of_each(self, database: str, questions: Mapping[str, str]) -> dict[str, list[Any]]:
        """Return the rows of several queries, in one call: a client is a process that has to be started."""
        parts = [f"select '{name}', to_json(t)::text from ({sql}) t" for name, sql in questions.items()]
        answer = self.database.psql(" union all ".join(parts), f"novella_{database}")
        found: dict[str, list[Any]] = {}
        for line in answer.splitlines():
            name, _, row = line.partition("|")
            found.setdefault(name, []).append(json.loads(row))
        return found


class _Client(Client):
    def __init__(self, data_dir: Path, url: str, log_tail: Callable[[], str]) -> None:
        super().__init__(data_dir, url)
        self._log_tail = log_tail

    def log_tail(self) -> str:
        return self._log_tail()
