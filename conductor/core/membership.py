"""Base class of group memberships: conductors learn which other conductors live, and which has just died."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


def life_of(worker: str) -> str:
    """Return the part of a worker id that differs in each life of a process: its last one, eight hexadecimal digits."""
    return worker.rpartition(":")[2]


@dataclass(frozen=True, slots=True)
class Member:
    """A live process: its worker id, and the name that operators gave it."""

    worker: str
    name: str

    @property
    def life(self) -> str:
        return life_of(self.worker)


# Called with the life that ended, on a thread of the membership; it takes milliseconds and never raises.
OnGone = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class MembershipLocation:
    """Location of a membership: the operator's URL, and the data folder of this process."""

    url: str
    data_dir: Path


class Membership(ABC):
    """A group of processes whose members notice each other's death.

    Its reports are hints: they make a takeover faster, but do not permit it. A member that is wrongly reported dead
    does no harm, because its fencing token is refused from then on. An unreachable group only costs time.
    """

    def __init__(self, place: MembershipLocation) -> None:
        self.place = place

    @abstractmethod
    def join(self, me: Member, on_gone: OnGone) -> None:
        """Join the group and watch the others, until `leave`. `on_gone` is called once for each life that ends.

        It never raises and never waits: a thread of the membership retries a group that does not answer.
        """

    @abstractmethod
    def leave(self) -> None:
        """Leave the group. Never raises; waits a few seconds at most. May be called twice, or without `join`."""

    @abstractmethod
    def members(self) -> Sequence[Member]:
        """Return the live members, queried anew, also for a process that has not joined. Raises errors.Unavailable."""
