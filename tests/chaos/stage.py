"""What a scene is made of: what happens when, who plays where, and how a deed is insisted on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.campaign import Campaign
from tests.chaos.people import COMPUTE, Person

WAIT_SECONDS = 240.0  # a volume is a gigabyte, and whoever copies it may be one of many on the machine


@dataclass(frozen=True)
class Scene:
    """What a new server goes through before the action, and after it; all are keys of DEEDS.

    `before` happens before there is a server, `first` to the server, `last` once the action has been seen to, `tidy`
    when all was found right. `verb` is the driver's that fails in order that the flow turns back, so many times in all
    (once where the way back needs it too), and `lost` the data that are not there for the same reason; `commands` are
    the messages that hosts get from the flow; `faults` are how hosts behave from the beginning; `launch` is what the
    server is launched with beside the usual, `is_about_volumes` says that there is none; `never` is found in the names
    of places that it cannot come to.
    """

    first: tuple[str, ...]
    action: str
    verb: str = ""
    commands: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
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
        """It knows how to have the flow fail."""
        return bool(self.verb or self.lost)


@dataclass
class Stage:
    """Who plays where: the server, the host that it was on at first, and what else was made, by kind."""

    campaign: Campaign
    person: Person
    server: str = ""
    home: str = ""
    made: dict[str, str] = field(default_factory=dict)

    @property
    def volume(self) -> str:
        """The one that is copied, went back, and so on."""
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
        """The server, as its operator sees it."""
        status, body, _ = self.person.ask("GET", f"{COMPUTE}/servers/{self.server}", as_admin=True)
        return status, body["server"] if status == 200 else {}

    def change_services(self, changes: Mapping[str, Any], host: str = "", not_yet: int = 409) -> None:
        """Of one host's compute service, or of all; asked again while the answer is `not_yet`."""
        query = f"?binary=nova-compute{f'&host={host}' if host else ''}"
        _, body, _ = insist(lambda: self.person.ask("GET", f"{COMPUTE}/os-services{query}", as_admin=True))
        for service in body["services"]:
            path = f"{COMPUTE}/os-services/{service['id']}"
            insist(lambda path=path: self.person.ask("PUT", path, dict(changes), as_admin=True), not_yet)


Request = tuple[str, str, Any]
Deed = Callable[[Stage], Request | None]  # a request to make, or None where all is done


def insist(ask: Callable[[], tuple[int, Any, str]], not_yet: int = 409) -> tuple[int, Any, str]:
    """The same request until somebody says yes: webs die, and actions wait for each other."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        status, said, request_id = ask()
        if 200 <= status < 300:
            return status, said, request_id
        if status not in (0, 409, 503, not_yet) or time.monotonic() > deadline:
            raise AssertionError(f"is refused with {status}: {said}")
        time.sleep(0.3)
