"""Several projects that use the cloud at once: what each person does follows from a seed and from what is there."""

from __future__ import annotations

import http.client
import json
import random
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.waiting import take_time

COMPUTE, VOLUME, IDENTITY = "/compute/v2.1", "/volume/v3", "/identity/v3"
MOST_SERVERS = 8  # of one person
TIMEOUT_SECONDS = 20.0


@dataclass(frozen=True)
class ApiOperation:
    """An action: how often it is chosen, in which statuses it makes sense, and its request."""

    name: str
    weight: int
    statuses: frozenset[str]
    request: Callable[[Person, str], tuple[str, str, Any]]
    as_admin: bool = False


def act(name: str, weight: int, statuses: str, value: Any = None, *, as_admin: bool = False) -> ApiOperation:
    def request(person: Person, server: str) -> tuple[str, str, Any]:
        key = name.partition("/")[0]
        given = value(person) if callable(value) else value
        return "POST", f"{COMPUTE}/servers/{server}/action", {key: given}

    return ApiOperation(name, weight, frozenset(statuses.split()), request, as_admin)


def _attach(person: Person, server: str) -> tuple[str, str, Any]:
    attachment = {"volumeAttachment": {"volumeId": person.a_volume()}}
    return "POST", f"{COMPUTE}/servers/{server}/os-volume_attachments", attachment


def _detach(person: Person, server: str) -> tuple[str, str, Any]:
    return "DELETE", f"{COMPUTE}/servers/{server}/os-volume_attachments/{person.a_volume()}", None


def _delete(person: Person, server: str) -> tuple[str, str, Any]:
    return "DELETE", f"{COMPUTE}/servers/{server}", None


def _plug(person: Person, server: str) -> tuple[str, str, Any]:
    return "POST", f"{COMPUTE}/servers/{server}/os-interface", {"interfaceAttachment": {}}


BOOTED = "ACTIVE SHUTOFF PAUSED SUSPENDED"
ANY = f"{BOOTED} ERROR RESCUE VERIFY_RESIZE SHELVED SHELVED_OFFLOADED BUILD"
VERBS: Sequence[ApiOperation] = (
    ApiOperation("delete", 14, frozenset(ANY.split()), _delete),
    act("os-stop", 10, "ACTIVE"),
    act("os-start", 12, "SHUTOFF"),
    act("reboot/soft", 5, "ACTIVE", {"type": "SOFT"}),
    act("reboot/hard", 6, f"{BOOTED} ERROR", {"type": "HARD"}),
    act("pause", 6, "ACTIVE"),
    act("unpause", 10, "PAUSED"),
    act("suspend", 6, "ACTIVE"),
    act("resume", 10, "SUSPENDED"),
    act("rescue", 4, "ACTIVE SHUTOFF"),
    act("unrescue", 10, "RESCUE"),
    act("rebuild", 4, "ACTIVE SHUTOFF", lambda person: {"imageRef": person.image}),
    act("resize", 8, "ACTIVE SHUTOFF", lambda person: {"flavorRef": person.random.choice(person.flavors)}),
    act("confirmResize", 12, "VERIFY_RESIZE"),
    act("revertResize", 10, "VERIFY_RESIZE"),
    act("migrate", 4, "ACTIVE SHUTOFF", as_admin=True),
    act("os-migrateLive", 8, "ACTIVE PAUSED", {"host": None, "block_migration": "auto"}, as_admin=True),
    act("shelve", 6, BOOTED),
    act("unshelve", 12, "SHELVED SHELVED_OFFLOADED"),
    act("createImage", 3, BOOTED, lambda person: {"name": f"image-{person.random.randrange(10**6)}"}),
    act("createBackup", 2, BOOTED, {"name": "backup", "backup_type": "daily", "rotation": 2}),
    act("changePassword", 2, "ACTIVE", {"adminPass": "correct-horse-7"}),
    act("lock", 2, ANY),
    act("unlock", 4, ANY),
    ApiOperation("attach_volume", 8, frozenset(f"{BOOTED} SHELVED_OFFLOADED".split()), _attach),
    ApiOperation("detach_volume", 8, frozenset(f"{BOOTED} SHELVED_OFFLOADED".split()), _detach),
    ApiOperation("attach_interface", 4, frozenset(["ACTIVE", "SHUTOFF", "PAUSED"]), _plug),
)


CREATE = ApiOperation("create", 0, frozenset(), lambda person, server: ("POST", f"{COMPUTE}/servers", None))


class Answers:
    """Every response to any user, as JSON lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self.accepted = 0
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")

    def note(self, **answer: Any) -> None:
        with self._lock, self.path.open("a") as file:
            file.write(json.dumps(answer) + "\n")
            self.count += answer["status"] != 0
            self.accepted += 200 <= answer["status"] < 300


class Person:
    """A user with a project; works until `is_over`."""

    def __init__(
        self, name: str, seed: str, *, webs: Sequence[str], tokens: Mapping[str, str], answers: Answers
    ) -> None:
        self.name = name
        self.random = random.Random(seed)
        self.servers: list[str] = []
        self.volumes: list[str] = []
        self.image = self.network = ""
        self.flavors: list[str] = []
        self._webs, self._tokens, self._answers = webs, tokens, answers

    def prepare(self) -> None:
        """Learn what the cloud has, and make a few volumes."""
        images = self.ask("GET", "/image/v2/images?name=simulated-linux")[1]["images"]
        flavors = self.ask("GET", f"{COMPUTE}/flavors")[1]["flavors"]
        networks = self.ask("GET", "/network/v2.0/networks?name=private")[1]["networks"]
        self.image, self.network = images[0]["id"], networks[0]["id"]
        self.flavors = [flavor["id"] for flavor in flavors if flavor["name"] in ("tiny", "small")]
        for number in range(3):
            volume = {"volume": {"name": f"{self.name}-{number}", "size": 1}}
            status, body, _ = self.ask("POST", f"{VOLUME}/{self.project}/volumes", volume)
            assert status == 202, body
            self.volumes.append(body["volume"]["id"])

    @property
    def project(self) -> str:
        return self._tokens["project"]

    def a_volume(self) -> str:
        return self.random.choice(self.volumes)

    def work(self, is_over: Callable[[], bool], is_too_fast: Callable[[], bool]) -> None:
        while not is_over():
            if is_too_fast():
                take_time(0.1)
            else:
                self.step()

    def step(self) -> None:
        """Do one action, with any outcome."""
        if not self.servers or (len(self.servers) < MOST_SERVERS and self.random.random() < 0.15):
            self._create()
            return
        server = self.random.choice(self.servers)
        status, body, _ = self.ask("GET", f"{COMPUTE}/servers/{server}")
        if status == 404:
            self.servers.remove(server)
            return
        if status != 200:
            take_time(0.1)  # no answer from the web process, or from a service behind it
            return
        shown = body["server"]["status"]
        if shown == "BUILD" and self.random.random() < 0.8:  # most wait for what they asked for
            take_time(0.2)
            return
        fitting = [verb for verb in VERBS if shown in verb.statuses]
        if self.random.random() < 0.08:  # a mistake: it is to be refused, and nothing to change
            fitting = list(VERBS)
        if not fitting:
            return
        (verb,) = self.random.choices(fitting, [verb.weight for verb in fitting])
        method, path, given = verb.request(self, server)
        self.note(verb.name, server, *self.ask(method, path, given, as_admin=verb.as_admin))

    def _create(self) -> None:
        count = 2 if self.random.random() < 0.2 else 1
        server = {
            "name": f"{self.name}-{self.random.randrange(10**6)}",
            "imageRef": self.image,
            "flavorRef": self.random.choice(self.flavors),
            "networks": [{"uuid": self.network}],
            "min_count": count,
            "max_count": count,
        }
        status, body, request_id = self.ask("POST", f"{COMPUTE}/servers", {"server": server})
        uuid = body["server"]["id"] if status == 202 else ""
        if uuid:
            self.servers.append(uuid)
        self.note(CREATE.name, uuid, status, body, request_id)

    def note(self, verb: str, server: str, status: int, answer: Any, request_id: str) -> None:
        """Have an answer among those that the checker looks at."""
        self._answers.note(
            at=datetime.now(UTC).timestamp(),
            who=self.name,
            verb=verb,
            server=server,
            status=status,
            request_id=request_id,
            answer=None if 200 <= status < 300 else answer,
        )

    def ask(
        self, method: str, path: str, body: Any = None, *, as_admin: bool = False, key: str = ""
    ) -> tuple[int, Any, str]:
        """Return status, body and request id; status 0 without a response: then the outcome is unknown.

        With a `key`, the request can be repeated until there is a response.
        """
        request = urllib.request.Request(
            self.random.choice(self._webs) + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Content-Type": "application/json",
                "X-Auth-Token": self._tokens["admin" if as_admin else "own"],
                "OpenStack-API-Version": "compute 2.93, volume 3.68",
                **({"Idempotency-Key": key} if key else {}),
            },
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
                raw = response.read()
                return response.status, json.loads(raw) if raw else None, _request_id(response.headers)
        except urllib.error.HTTPError as error:
            return error.code, _rest_of(error), _request_id(error.headers)
        except (OSError, http.client.HTTPException, ValueError) as error:
            return 0, str(error), ""


def _rest_of(refusal: urllib.error.HTTPError) -> str:
    """Return the body of a refusal; "" when the web process dies while sending it."""
    try:
        return refusal.read().decode(errors="replace")
    except (OSError, http.client.HTTPException):
        return ""


def _request_id(headers: Mapping[str, str]) -> str:
    return headers.get("x-openstack-request-id") or ""
