"""Divides workers and memory between callers.

Workers are divided by the processor time that they use, not by the number of their requests.

This is start-time fair queueing (Goyal, Vin and Cheng, 1996) with several requests in service (Jin, Chase and Kaur,
2004). Each caller has a tag: the seconds that it has used. The waiting caller with the lowest tag gets the next worker.
A caller that comes back starts at the tag that was served last, so idle time is not saved up. The cost of a request is
known only when it ends: until then its caller is charged the mean of its earlier requests.

A process computes on little more than one core. More concurrent requests only take longer each, and favour the caller
with the most requests. So `at_once` requests compute at a time. A request that runs longer than SETTLED_SECONDS is
probably waiting: it is not counted any more, up to `workers` requests in all. While other callers are active, one
caller gets at most half of `at_once`, so that an occasional request starts at once.

Memory for bodies and responses has a sum and shares: its bytes are counted when they are taken, before more are read or
produced.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field

from portal.callers import ANONYMOUS, Caller

SETTLED_SECONDS = 1.0
FEW = 16  # requests of one caller, running and waiting; a caller with more is weighted with BULK_WEIGHT
BULK_WEIGHT = 0.25
FIRST_COST = 0.02  # seconds, for the first request of a caller
SMOOTHING = 0.2  # the weight of the last request in its caller's mean
PRESENT_SECONDS = 5.0  # a caller counts as active for this long after its last request began
LONGEST_DEBT = 5.0  # upper limit of a caller's charge for past requests
MOST_REMEMBERED = 1024  # callers without requests
SHARE_OF_CALLER = 4  # of memory a caller has at most a quarter
SHARE_OF_ADDRESS = 16  # and an address of the anonymous caller a quarter of that


class Busy(Exception):
    """No worker was free in time, or too many requests are waiting."""


class _WaitingRequests:
    """Waiting requests of one caller. Its members, users or addresses, take turns."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, deque[asyncio.Future[WorkerSlot]]] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def count(self, member: str) -> int:
        return len(self._of.get(member, ()))

    def append(self, member: str, one: asyncio.Future[WorkerSlot]) -> None:
        self._of.setdefault(member, deque()).append(one)
        self._size += 1

    def pop_next(self) -> asyncio.Future[WorkerSlot]:
        member, own = next(iter(self._of.items()))
        one = own.popleft()
        self._size -= 1
        if own:
            self._of.move_to_end(member)
        else:
            del self._of[member]
        return one

    def remove(self, member: str, one: asyncio.Future[WorkerSlot]) -> bool:
        """Remove a request; False if it is not waiting any more."""
        own = self._of.get(member, deque())
        if one not in own:
            return False
        own.remove(one)
        self._size -= 1
        if not own:
            del self._of[member]
        return True


@dataclass
class _Caller:
    tag: float
    cost: float = FIRST_COST
    running: int = 0
    computing: int = 0
    served_at: float = 0.0
    waiting: _WaitingRequests = field(default_factory=_WaitingRequests)

    @property
    def weight(self) -> float:
        return 1.0 if self.running + len(self.waiting) <= FEW else BULK_WEIGHT


class WorkerSlot:
    """A worker that a request occupies. `end` releases it."""

    def __init__(self, queue: FairQueue, caller: _Caller) -> None:
        self._queue, self._caller = queue, caller
        self._charge = caller.cost / caller.weight
        self._began = time.monotonic()
        self._settling = asyncio.get_running_loop().call_later(SETTLED_SECONDS, self._settle)
        self._is_computing = True
        caller.tag += self._charge
        caller.running += 1
        caller.computing += 1
        caller.served_at = self._began

    def _settle(self) -> None:
        """Stop counting it as computing."""
        if self._is_computing:
            self._is_computing = False
            self._caller.computing -= 1
            self._queue.give_back(computing=1)

    def end(self, seconds: float | None = None) -> None:
        """Release the worker. `seconds`: of processor time; None if only the elapsed time is known."""
        caller, used = self._caller, time.monotonic() - self._began if seconds is None else seconds
        caller.tag += min(used / caller.weight, LONGEST_DEBT)
        caller.cost += SMOOTHING * (used - caller.cost)
        self._release()

    def give_up(self) -> None:
        """Release the worker without a charge: its request was gone before it began.

        The mean cost of the caller stays, or requests that are cancelled in time would make its costly ones look cheap.
        """
        self._release()

    def _release(self) -> None:
        self._settling.cancel()
        self._caller.tag -= self._charge
        self._caller.running -= 1
        self._settle()
        self._queue.give_back(workers=1)


class FairQueue:
    """Requests that wait for one of `workers` workers, by caller. For the event loop's thread only.

    One caller has at most three quarters of the workers and a quarter of the `most_waiting` places, and one member of a
    caller half of those.
    """

    def __init__(self, workers: int, at_once: int, most_waiting: int) -> None:
        self._workers, self._at_once, self._most_waiting = workers, at_once, most_waiting
        self._most_of_one, self._half = max(1, workers * 3 // 4), max(1, at_once // 2)
        self._callers: dict[str, _Caller] = {}
        self._running = self._computing = self._waiting = 0
        self._tag = 0.0  # of the caller that was served last, before it was charged

    async def turn(self, name: str, seconds: float, *, member: str = "") -> WorkerSlot:
        """Return a worker for a request of a member of the caller `name`, within `seconds`. Raises Busy."""
        caller = self._caller(name)
        if (
            self._waiting >= self._most_waiting
            or len(caller.waiting) >= max(1, self._most_waiting // 4)
            or caller.waiting.count(member) >= max(1, self._most_waiting // 8)
        ):
            raise Busy
        granted: asyncio.Future[WorkerSlot] = asyncio.get_running_loop().create_future()
        caller.waiting.append(member, granted)
        self._waiting += 1
        self._grant()
        try:
            async with asyncio.timeout(seconds):
                return await granted
        except TimeoutError:
            self._give_up(caller, member, granted)
            raise Busy from None
        except asyncio.CancelledError:
            self._give_up(caller, member, granted)
            raise

    def _caller(self, name: str) -> _Caller:
        if len(self._callers) > MOST_REMEMBERED:
            self._callers = {key: one for key, one in self._callers.items() if one.running or one.waiting}
        return self._callers.setdefault(name, _Caller(self._tag))

    def _give_up(self, caller: _Caller, member: str, granted: asyncio.Future[WorkerSlot]) -> None:
        if caller.waiting.remove(member, granted):
            self._waiting -= 1
        elif not granted.cancelled():  # it was granted at the last moment
            granted.result().give_up()

    def _grant(self) -> None:
        while self._running < self._workers and self._computing < self._at_once:
            caller = self._next()
            if caller is None:
                return
            granted = caller.waiting.pop_next()
            self._waiting -= 1
            if granted.cancelled():
                continue
            caller.tag = self._tag = max(caller.tag, self._tag)
            self._running += 1
            self._computing += 1
            granted.set_result(WorkerSlot(self, caller))

    def _next(self) -> _Caller | None:
        """Return the caller whose request starts next."""
        since = time.monotonic() - PRESENT_SECONDS
        present = sum(bool(one.waiting or one.running) or one.served_at > since for one in self._callers.values())
        most = self._half if present > 1 else self._at_once
        able = [
            one
            for one in self._callers.values()
            if one.waiting and one.computing < most and one.running < self._most_of_one
        ]
        return min(able, key=lambda one: one.tag, default=None)

    def give_back(self, *, workers: int = 0, computing: int = 0) -> None:
        self._running -= workers
        self._computing -= computing
        self._grant()


class MemoryShares:
    """Bytes held now, of at most `most`."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held: Counter[str] = Counter()  # by share, and by address within the anonymous share
        self.total = 0

    def reservation(self, caller: Caller) -> Reservation:
        """Return an empty reservation; the caller of this releases it."""
        limits = {caller.share: self.most // SHARE_OF_CALLER}
        if caller.share == ANONYMOUS:
            limits[f"{ANONYMOUS} {caller.address}"] = self.most // SHARE_OF_ADDRESS
        return Reservation(self, limits)


class Reservation:
    """The bytes of one request or response."""

    def __init__(self, shares: MemoryShares, limits: dict[str, int]) -> None:
        self._shares, self._limits = shares, limits
        self.size = 0

    def take(self, size: int) -> bool:
        """Reserve more bytes; False, and nothing is reserved, where a limit would be passed."""
        shares = self._shares
        if shares.total + size > shares.most:
            return False
        if any(shares.held[key] + size > most for key, most in self._limits.items()):
            return False
        self._add(size)
        return True

    def release(self, size: int | None = None) -> None:
        """Give bytes back; all of them without a size."""
        self._add(-(self.size if size is None else size))

    def _add(self, size: int) -> None:
        self.size += size
        self._shares.total += size
        for key in self._limits:
            self._shares.held[key] += size
            if not self._shares.held[key]:
                del self._shares.held[key]
