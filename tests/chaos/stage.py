"""Scenes of the fault campaign: the steps of a scene, its resources, and requests that are repeated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.campaign import Campaign
from tests.chaos.people import COMPUTE, Person
from tests.waiting import Stopwatch, take_time

WAIT_SECONDS = 240.0  # a volume is a gigabyte, and the machine may be busy with other copies


@dataclass(frozen=True)
class Scene:
    """An action on a server, with the steps before and after it. Steps are keys of the table in scenes.py.

    Attributes:
        first: Steps on the server before the action.
        verb: The driver method that fails, so that the flow is rolled back.
        commands: The flow's messages to hosts.
        accepting: The failpoints of the web process while it accepts the action.
        before: Steps before the server is launched.
        meanwhile: Steps as soon as a process has died.
        last: Steps after the action.
        tidy: Steps after the checks.
        lost: Removes data that the flow needs, so that it is rolled back; returns what it removed.
        faults: The hosts' faults from the beginning.
        launch: Further parameters of the launch.
        is_about_volumes: The scene has no server.
        fail_times: How often `verb` fails in all; once, if the compensation needs the method too.
        never: Matches the names of failpoints that the scene does not reach.
    """

    first: tuple[str, ...]
    action: str
    verb: str = ""
    commands: tuple[str, ...] = ()
    accepting: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    meanwhile: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    tidy: tuple[str, ...] = ()
    lost: Callable[[Person], str] | None = None
    faults: Mapping[str, Any] = field(default_factory=dict)
    launch: Callable[[Person], Mapping[str, Any]] = lambda person: {}
    is_about_volumes: bool = False
    fail_times: int = 99
    never: str = ""

    @property
    def turns_back(self) -> bool:
        """Whether the scene makes the flow fail."""
        return bool(self.verb or self.lost)


@dataclass
class Stage:
    """Resources of a scene: the server, its first host, and other created resources, by kind.

    `accepted` are the ids of the requests that were accepted for the server.
    """

    campaign: Campaign
    person: Person
    server: str = ""
    home: str = ""
    made: dict[str, str] = field(default_factory=dict)
    accepted: list[str] = field(default_factory=list)

    @property
    def volume(self) -> str:
        """The volume that is copied, reverted, and so on."""
        return self.person.volumes[1]

    @property
    def cell(self) -> str:
        """The cell of the server's first host."""
        words = self.member.arguments
        return words[words.index("--cell") + 1]

    @property
    def member(self) -> Any:
        return next(member for member in self.campaign.cloud.of("host") if member.name == self.home)

    def shown(self) -> tuple[int, dict[str, Any]]:
        """Return the server, as its operator sees it."""
        status, body, _ = self.person.ask("GET", f"{COMPUTE}/servers/{self.server}", as_admin=True)
        return status, body["server"] if status == 200 else {}

    def change_services(self, changes: Mapping[str, Any], host: str = "", not_yet: int = 409) -> None:
        """Change one host's compute service, or all; repeated while the answer is `not_yet`."""
        query = f"?binary=nova-compute{f'&host={host}' if host else ''}"
        _, body, _ = insist(lambda: self.person.ask("GET", f"{COMPUTE}/os-services{query}", as_admin=True))
        for service in body["services"]:
            path = f"{COMPUTE}/os-services/{service['id']}"
            insist(lambda path=path: self.person.ask("PUT", path, dict(changes), as_admin=True), not_yet)


Request = tuple[str, str, Any]
StageAction = Callable[[Stage], Request | None]  # a request to make, or None if everything is done


def insist(ask: Callable[[], tuple[int, Any, str]], not_yet: int = 409) -> tuple[int, Any, str]:
    """Repeat a request until it is accepted, because web processes die and actions wait for each other."""
    watch = Stopwatch()
    while True:
        status, reported, request_id = ask()
        if 200 <= status < 300:
            return status, reported, request_id
        if status not in (0, 409, 503, not_yet) or watch.seconds > WAIT_SECONDS:
            raise AssertionError(f"the request is refused with {status}: {reported}")
        take_time(0.3)
