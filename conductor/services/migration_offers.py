"""What may be ordered of a live migration now: each with what it risks, in figures where they are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from conductor.core.context import RequestContext
from conductor.core.live_steering import DOWNTIME, POST_COPY, STEERINGS, THROTTLE
from conductor.core.states import MigrationStatus
from conductor.services import convergence, live_migrations, live_orders
from conductor.services.convergence import Sample
from conductor.services.live_orders import ABORT, FINISH

EARLY_LOSS = "Nothing has moved yet: the guest stays where it is."
LOSS = "The guest stays at its source; what has arrived is thrown away."
REQUESTED = "It was requested, and is not carried out yet."
POST_COPY_RISK = (
    "The guest switches at once and fetches the rest: it cannot be stopped then, and a broken connection loses it."
)
SPARE = 1.25  # of what the pause would take now: the guest changes more or less from one second to the next
STEP_MS = 100
TITLES = {
    DOWNTIME: "Raise allowed downtime",
    THROTTLE: "Throttle guest",
    POST_COPY: "Switch to post-copy",
}


@dataclass(frozen=True)
class Offer:
    """One thing to do to a migration, with what it risks; `why_not` is empty where it may be done now.

    One with a `field` takes an amount of it, from `least` to `most` of that `unit`; `suggested` is a good one.
    """

    id: str
    title: str
    risk: str
    why_not: str = ""
    is_danger: bool = False
    field: str = ""
    unit: str = ""
    least: int = 0
    most: int = 0
    suggested: int = 0


@dataclass(frozen=True)
class Standing:
    """How far a move is. `has_begun`: its source has said so; `ordered` is not carried out yet.

    `abilities` are those of the source's driver; with `is_post_copy` the guest goes on at its destination already.
    """

    status: str
    samples: Sequence[Sample]
    ordered: frozenset[str]
    abilities: frozenset[str]
    has_begun: bool
    is_post_copy: bool

    @property
    def last(self) -> Sample | None:
        return self.samples[-1] if self.samples else None

    @property
    def pause_seconds(self) -> float | None:
        """How long the rest would take at the present speed."""
        moved = max((one.moved for one in convergence.rates_of(self.samples[-6:])), default=0.0)
        return max(0.1, self.samples[-1].left / moved) if self.samples and moved else None


def offers(context: RequestContext, standing: Standing) -> list[Offer]:
    """What the drivers can do: steer it, have it switch now, and stop it."""
    last = standing.last
    is_early = standing.status in live_migrations.NOT_MOVING_YET
    may = "" if context.is_admin or "manager" in context.roles else "It takes the role manager."
    # Sent to the source before it has begun, any of these would find nothing to change.
    is_moving = is_early or standing.status == MigrationStatus.RUNNING
    not_yet = live_orders.NOT_YET if is_early or not standing.has_begun else ""

    def why_not(name: str, otherwise: str) -> str:
        switched = "" if is_moving and not standing.is_post_copy else live_orders.SWITCHED
        if name == ABORT and standing.is_post_copy:
            switched = live_orders.NO_WAY_BACK
        return may or switched or (REQUESTED if name in standing.ordered else otherwise)

    pause = f"The guest pauses until the rest has arrived: {_pause(standing)}."
    is_forced_so = last is not None and last.is_post_copy_forced
    abort = why_not(ABORT, "" if is_early else not_yet)
    return [
        *(_steering(standing, kind, why_not(kind, _why_not(standing, kind) or not_yet)) for kind in TITLES),
        Offer(FINISH, "Finish now", POST_COPY_RISK if is_forced_so else pause, why_not(FINISH, not_yet)),
        Offer(ABORT, "Abort", EARLY_LOSS if is_early else LOSS, abort, is_danger=True),
    ]


def _why_not(standing: Standing, kind: str) -> str:
    return live_orders.why_not_steered(
        kind, standing.abilities, is_post_copy=standing.is_post_copy, has_begun=standing.has_begun
    )


def _steering(standing: Standing, kind: str, why_not: str) -> Offer:
    steering = STEERINGS[kind]
    risk, suggested = _RISKS[kind](standing)
    return Offer(
        kind, TITLES[kind], risk, why_not, is_danger=kind == POST_COPY, field=steering.field, unit=steering.unit,
        least=steering.least, most=steering.most, suggested=min(suggested, steering.most),
    )  # fmt: skip


def _of_downtime(standing: Standing) -> tuple[str, int]:
    last = standing.last
    allowed = last.downtime_limit_ms or 0 if last is not None else 0
    needed = last.downtime_ms or 0 if last is not None else 0
    needed = needed or round((standing.pause_seconds or 0) * 1000)
    suggested = -(-round(max(needed * SPARE, allowed * 2, STEP_MS)) // STEP_MS) * STEP_MS
    risk = "The guest may stand still for longer when it switches."
    if needed and allowed:
        return f"{risk} Now it would be {needed} ms, and {allowed} ms are allowed.", suggested
    return (f"{risk} Now it would be {needed} ms." if needed else risk), suggested


def _of_throttle(standing: Standing) -> tuple[str, int]:
    taken = (standing.last.throttle_percent or 0) if standing.last is not None else 0
    risk = "The guest gets less of its processors until it has moved: it changes less, and what runs in it is slower."
    return (f"{risk} Now {taken} percent are taken away." if taken else risk), min(taken + 20, 90) if taken else 40


def _of_post_copy(standing: Standing) -> tuple[str, int]:
    left = standing.last.left if standing.last is not None else 0
    return (f"{POST_COPY_RISK} Now it would lack {convergence.size(left)}." if left else POST_COPY_RISK), 0


_RISKS: Mapping[str, Callable[[Standing], tuple[str, int]]] = {
    DOWNTIME: _of_downtime,
    THROTTLE: _of_throttle,
    POST_COPY: _of_post_copy,
}


def _pause(standing: Standing) -> str:
    seconds = standing.pause_seconds
    return "how long cannot be told yet" if seconds is None else f"about {seconds:.1f} s at the present speed"
