"""A whole Novella as users run it: `manage.py up` in a separate process, driven over HTTP."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.acceptance.nursery import Child, Nursery, inherited_environment
from tests.services.process import free_port
from tests.waiting import wait_until

PROJECT = Path(__file__).resolve().parents[2]
READY = "Novella is ready: "
START_SECONDS = 240.0
END_SECONDS = 120.0
# Device owners of servers' ports; the cloud's first router has ports, too.
GUESTS_PORTS = "network_port where device_owner not like 'network:%'"
GUESTS_ADDRESSES = f"network_addressallocation where port_id in (select id from {GUESTS_PORTS})"


def copy_seeded(seeded_data: Path, folder: Path) -> Path:
    """Copy the data folder of the first start, without its log."""
    return shutil.copytree(seeded_data, folder, ignore=shutil.ignore_patterns("process.log"))


class HttpResponse:
    """An HTTP answer."""

    def __init__(self, status: int, headers: Mapping[str, str], raw: bytes) -> None:
        self.status = status
        self.headers = headers
        self.raw = raw

    @property
    def json(self) -> Any:
        return json.loads(self.raw)


class Client:
    """Client of the APIs of the cloud at `url`, with the passwords of its data folder."""

    def __init__(self, data_dir: Path, url: str = "") -> None:
        self.data_dir = data_dir
        self._url = url
        self._tokens: dict[str, str] = {}
        self._signs_in = threading.Lock()  # a server hashes few passwords at once, and refuses the rest

    @property
    def url(self) -> str:
        return self._url

    def log_tail(self) -> str:
        """Return the last output of the processes, for the messages of failing tests."""
        return ""

    def call(
        self, method: str, path: str, body: Any = None, *, user: str = "demo", version: str = "2.90"
    ) -> HttpResponse:
        """Send one request with a token of `user` ("demo", "admin" or "" for none). A body of bytes goes as it is.

        `version` is the Compute API's, or another's with its name.
        """
        kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        headers = {"Content-Type": kind, "OpenStack-API-Version": version if " " in version else f"compute {version}"}
        if user:
            headers["X-Auth-Token"] = self.token(user)
        return self._send(method, path, headers, body)

    def token(self, user: str) -> str:
        with self._signs_in:
            if user not in self._tokens:
                self._tokens[user] = self._sign_in(user)
            return self._tokens[user]

    def _sign_in(self, user: str) -> str:
        password = json.loads((self.data_dir / "passwords.json").read_text())[user]
        domain = {"name": "Default"}
        person = {"user": {"name": user, "domain": domain, "password": password}}
        scope = {"project": {"name": user, "domain": domain}}
        body = {"auth": {"identity": {"methods": ["password"], "password": person}, "scope": scope}}
        answer = self._send("POST", "/identity/v3/auth/tokens", {"Content-Type": "application/json"}, body)
        assert answer.status == 201, answer.raw
        token: str = answer.headers["X-Subject-Token"]
        return token

    def _send(self, method: str, path: str, headers: Mapping[str, str], body: Any) -> HttpResponse:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=dict(headers), method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return HttpResponse(response.status, response.headers, response.read())
        except urllib.error.HTTPError as error:
            return HttpResponse(error.code, error.headers, error.read())

    def launch(self, name: str, *, image: str = "simulated-linux", flavor: str = "tiny", **more: Any) -> HttpResponse:
        """POST /servers on the network `private`."""
        images = self.call("GET", f"/image/v2/images?name={image}").json["images"]
        flavors = self.call("GET", "/compute/v2.1/flavors").json["flavors"]
        networks = self.call("GET", "/network/v2.0/networks?name=private").json["networks"]
        server = {
            "name": name,
            "imageRef": images[0]["id"],
            "flavorRef": next(item["id"] for item in flavors if item["name"] == flavor),
            "networks": [{"uuid": networks[0]["id"]}],
        }
        return self.call("POST", "/compute/v2.1/servers", {"server": server | more})

    def servers(self, name: str = "") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call("GET", f"/compute/v2.1/servers/detail?name={name}").json["servers"]
        return found

    def server(self, uuid: str) -> dict[str, Any]:
        found: dict[str, Any] = self.call("GET", f"/compute/v2.1/servers/{uuid}", user="admin").json["server"]
        return found

    def wait_for_status(self, uuid: str, status: str) -> dict[str, Any]:
        """Return the server once it has the status and nothing is under way."""

        def look() -> dict[str, Any] | None:
            server = self.server(uuid)
            assert server["status"] in {status, "BUILD"}, server
            return server if server["status"] == status and server["OS-EXT-STS:task_state"] is None else None

        found: dict[str, Any] = wait_until(f"{uuid} {status}", look, details=self.log_tail)
        return found

    def wait_until_gone(self, uuid: str) -> None:
        wait_until(
            f"{uuid} gone",
            lambda: self.call("GET", f"/compute/v2.1/servers/{uuid}").status == 404,
            details=self.log_tail,
        )


class Cloud(Client):
    """One data folder, and the process that serves it now; a nursery starts it in half the time."""

    program: Sequence[Path | str] = (sys.executable, PROJECT / "manage.py")
    folder = PROJECT  # where the program is started

    def __init__(self, data_dir: Path, nursery: Nursery | None = None, **variables: str) -> None:
        super().__init__(data_dir)
        self.port = free_port()
        # No host counts as down because the machine is slow.
        patient = {"NOVELLA_HOST_DOWN_SECONDS": "3600"}
        # Clouds share the machine, which has one place for OVN.
        shared = {"NOVELLA_LOCAL_NETWORK": "user"}
        self.variables = {"NOVELLA_REAL_HOST": "off", "NOVELLA_SIMULATED_HOSTS": "2"} | patient | shared | variables
        self.nursery = nursery
        self.process: subprocess.Popen[str] | Child | None = None

    # -- the process ------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def environment(self, **variables: str) -> dict[str, str]:
        own = {"NOVELLA_DATA": str(self.data_dir), "NOVELLA_PORT": str(self.port), "PYTHONUNBUFFERED": "1"}
        return {**inherited_environment(), **own, **self.variables, **variables}

    def start(self, **variables: str) -> Cloud:
        """Start and wait for the ready line; a process that is not ready in time is ended."""
        self.log_path.touch()
        before = self.log_path.stat().st_size
        self.process = self._begin(self.environment(**variables))
        try:
            wait_until("the ready line", lambda: self._is_ready(before), START_SECONDS, details=self.log_tail)
        except BaseException:
            self.kill_9()
            raise
        return self

    def _begin(self, environment: Mapping[str, str]) -> subprocess.Popen[str] | Child:
        if self.nursery is not None:
            return self.nursery.spawn(("up",), environment, self.log_path)
        with self.log_path.open("a") as log:
            return subprocess.Popen(
                [*self.program, "up"],
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                text=True,
                start_new_session=True,
            )

    def _is_ready(self, offset: int) -> bool:
        assert self.process is not None
        with self.log_path.open() as log:
            log.seek(offset)
            if READY in log.read():
                return True
        assert self.is_alive, f"ended with {self.process.returncode}:\n{self.log_tail()}"
        return False

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def log_path(self) -> Path:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        return self.data_dir / "process.log"

    def log_tail(self) -> str:
        return self.log_path.read_text()[-4000:]

    def kill_9(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(timeout=END_SECONDS)

    def arm(self, place: str) -> None:
        """Make the process die when it reaches `place`; it must run with `NOVELLA_CRASH_AT` `@<armed_path>`."""
        fresh = self.armed_path.with_suffix(".new")
        fresh.write_text(place)
        fresh.rename(self.armed_path)

    @property
    def armed_path(self) -> Path:
        return self.data_dir / "armed"

    def wait_for_death(self, seconds: float = START_SECONDS) -> int:
        """Return the exit code of a process that ends by itself."""
        assert self.process is not None
        return self.process.wait(timeout=seconds)

    def stop(self) -> int:
        """End with SIGTERM; returns the exit code."""
        assert self.process is not None
        if self.is_alive:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=END_SECONDS)

    # -- what is stored ---------------------------------------------------------------------------------------

    def rows(self, database: str, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query on one of the SQLite files: api, cell0, cell1, cell2."""
        connection = sqlite3.connect(f"file:{self.data_dir / database}.sqlite3?mode=ro", uri=True, timeout=120)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()

    def guests(self) -> list[str]:
        """Return the uuids of the guests on all simulated hosts."""
        found: list[str] = []
        for path in (self.data_dir / "agents").glob("*.guests.json"):
            found += json.loads(path.read_text() or "{}").get("guests", {})
        return sorted(found)

    def leaked_resources(self) -> dict[str, list[Any]]:
        """Everything that a cloud without servers must not have; empty when it is clean."""
        found: dict[str, list[Any]] = {
            "allocations": self.rows("api", "select * from placement_allocation"),
            "used": self.rows("api", "select * from placement_inventory where used <> 0"),
            "ports": self.rows("api", f"select * from {GUESTS_PORTS}"),
            "addresses": self.rows("api", f"select * from {GUESTS_ADDRESSES}"),
            "build requests": self.rows("api", "select * from api_db_buildrequest"),
            "guests": self.guests(),
        }
        for database in ("api", "cell0", "cell1", "cell2"):
            for table in ("resourcelock", "lockwait", "outboxmessage"):
                found[f"{database} {table}"] = self.rows(database, f"select * from journal_{table}")
            live = "('queued', 'running', 'waiting', 'undoing')"
            found[f"{database} runs"] = self.rows(
                database, f"select flow, state from journal_workflowrun where state in {live}"
            )
        return {name: rows for name, rows in found.items() if rows}

    def wait_until_clean(self) -> None:
        """Wait until nothing is left of deleted servers: their last runs end shortly after the servers are gone."""
        wait_until("nothing left", lambda: self.leaked_resources() == {}, details=self.leaked_resources)
