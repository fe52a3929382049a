"""Interventions that are permitted in a live migration now, each with its risk, in figures where they are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from conductor.core.context import RequestContext
from conductor.core.live_steering import DOWNTIME, POST_COPY, STEERINGS, THROTTLE
from conductor.core.messages import message
from conductor.core.states import MigrationStatus
from conductor.services.server_migrations import convergence, live_interventions, live_migrations
from conductor.services.server_migrations.convergence import Sample
from conductor.services.server_migrations.live_interventions import ABORT, FINISH

EARLY_LOSS = message("migration.nothing_lost")
LOSS = message("migration.loss")
REQUESTED = message("migration.requested")
POST_COPY_RISK = message("migration.post_copy_risk")
SPARE = 1.25  # factor on the pause it would take now: the rate of changes varies from second to second
STEP_MS = 100
TITLES = {
    DOWNTIME: "Increase allowed downtime",
    THROTTLE: "Throttle CPU",
    POST_COPY: "Switch to post-copy",
}


@dataclass(frozen=True)
class MigrationAction:
    """An intervention in a migration, with its risk; `why_not` is "" where it is permitted now.

    With a `field` it takes an amount from `least` to `most`, in `unit`; `suggested` is a sensible one.
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
class MigrationProgress:
    """Progress of a migration. `has_begun`: its source has reported; `ordered` are pending interventions.

    `abilities` are those of the source's driver; with `is_post_copy` the guest already runs at its destination.
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
        """Seconds that the rest of the copy would take at the current rate."""
        moved = max((one.moved for one in convergence.rates_of(self.samples[-6:])), default=0.0)
        return max(0.1, self.samples[-1].left / moved) if self.samples and moved else None


def actions(context: RequestContext, standing: MigrationProgress) -> list[MigrationAction]:
    """Return the interventions that the drivers support: steer, complete, abort."""
    last = standing.last
    is_early = standing.status in live_migrations.NOT_MOVING_YET
    may = "" if context.is_admin or "manager" in context.roles else message("migration.needs_manager")
    # Sent to the source before it has begun, any of these would have no effect.
    is_moving = is_early or standing.status == MigrationStatus.RUNNING
    not_yet = live_interventions.NOT_YET if is_early or not standing.has_begun else ""

    def why_not(name: str, otherwise: str) -> str:
        switched = "" if is_moving and not standing.is_post_copy else live_interventions.SWITCHED
        if name == ABORT and standing.is_post_copy:
            switched = live_interventions.NO_WAY_BACK
        return may or switched or (REQUESTED if name in standing.ordered else otherwise)

    is_forced_so = last is not None and last.is_post_copy_forced
    abort = why_not(ABORT, "" if is_early else not_yet)
    return [
        *(_steering(standing, kind, why_not(kind, _why_not(standing, kind) or not_yet)) for kind in TITLES),
        MigrationAction(
            FINISH, ("Force completion"), POST_COPY_RISK if is_forced_so else _pause(standing), why_not(FINISH, not_yet)
        ),
        MigrationAction(ABORT, "Abort", EARLY_LOSS if is_early else LOSS, abort, is_danger=True),
    ]


def _why_not(standing: MigrationProgress, kind: str) -> str:
    return live_interventions.why_not_steered(
        kind, standing.abilities, is_post_copy=standing.is_post_copy, has_begun=standing.has_begun
    )


def _steering(standing: MigrationProgress, kind: str, why_not: str) -> MigrationAction:
    steering = STEERINGS[kind]
    risk, suggested = _RISKS[kind](standing)
    return MigrationAction(
        kind, TITLES[kind], risk, why_not, is_danger=kind == POST_COPY, field=steering.field, unit=steering.unit,
        least=steering.least, most=steering.most, suggested=min(suggested, steering.most),
    )  # fmt: skip


def _of_downtime(standing: MigrationProgress) -> tuple[str, int]:
    last = standing.last
    allowed = last.downtime_limit_ms or 0 if last is not None else 0
    needed = last.downtime_ms or 0 if last is not None else 0
    needed = needed or round((standing.pause_seconds or 0) * 1000)
    suggested = -(-round(max(needed * SPARE, allowed * 2, STEP_MS)) // STEP_MS) * STEP_MS
    if needed and allowed:
        return message("migration.downtime_limit", needed=needed, allowed=allowed), suggested
    return (message("migration.downtime_now", needed=needed) if needed else message("migration.downtime")), suggested


def _of_throttle(standing: MigrationProgress) -> tuple[str, int]:
    taken = (standing.last.throttle_percent or 0) if standing.last is not None else 0
    if not taken:
        return message("migration.throttle"), 40
    return message("migration.throttle_now", percent=taken), min(taken + 20, 90)


def _of_post_copy(standing: MigrationProgress) -> tuple[str, int]:
    left = standing.last.left if standing.last is not None else 0
    return (message("migration.post_copy_left", left=convergence.size_of(left)) if left else POST_COPY_RISK), 0


_RISKS: Mapping[str, Callable[[MigrationProgress], tuple[str, int]]] = {
    DOWNTIME: _of_downtime,
    THROTTLE: _of_throttle,
    POST_COPY: _of_post_copy,
}


def _pause(standing: MigrationProgress) -> str:
    seconds = standing.pause_seconds
    if seconds is None:
        return message("migration.pause_unknown")
    return message("migration.pause", seconds=round(seconds, 1))
