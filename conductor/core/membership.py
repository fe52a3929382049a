"""The base class of group memberships: they tell conductors which others live, and which has just died."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


def life_of(worker: str) -> str:
    """What is different in each life of a process: the last part of its worker id, eight hexadecimal digits."""
    return worker.rpartition(":")[2]


@dataclass(frozen=True, slots=True)
class Member:
    """A process that lives: its worker id, and the name that operators gave it."""

    worker: str
    name: str

    @property
    def life(self) -> str:
        return life_of(self.worker)


# Called with the life that ended, on a thread of the membership; it takes milliseconds and never raises.
OnGone = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a membership is to be found: the operator's URL, and the data folder of this process."""

    url: str
    data_dir: Path


class Membership(ABC):
    """A group of processes whose members notice each other's death.

    All that it says is a hint: it makes a takeover quick and never allows one. So a member that is wrongly taken for
    dead does no harm, as its fencing token is refused from then on, and a group that cannot be reached costs time only.
    """

    def __init__(self, place: Place) -> None:
        self.place = place

    @abstractmethod
    def join(self, me: Member, on_gone: OnGone) -> None:
        """Be seen by the others and watch them, until `leave`. Never raises and never waits: a group that does not
        answer is tried again, on a thread of the membership's own. `on_gone` is called once per life that ends."""

    @abstractmethod
    def leave(self) -> None:
        """Be seen no more. Never raises; waits a few seconds at most. May be called twice, or without `join`."""

    @abstractmethod
    def members(self) -> Sequence[Member]:
        """Who lives now, asked anew, also by a process that has not joined. Raises errors.Unavailable."""
