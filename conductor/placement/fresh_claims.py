"""Fast path of claims, for consumers without allocations and providers with enough room.

Nearly all claims take it. Its statements are those of `conductor.placement.statements`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from conductor.db.transactions import bare_tx, write_tx
from conductor.placement import statements
from conductor.placement.changes import ALIAS

INSTANCE = "INSTANCE"


@dataclass(frozen=True, slots=True)
class Claim:
    """Resources that one consumer requests of one provider, by class. Several claims of a consumer are of one tree."""

    consumer_uuid: str
    provider_uuid: str
    resources: Mapping[str, int]
    project_id: str
    user_id: str
    consumer_type: str = INSTANCE


class NotFresh(Exception):
    """The fast path does not apply. The transaction must roll back; the slow path finds out why."""


class _Sum(NamedTuple):
    """Requests of one class of one provider: their total, smallest and largest amount, and greatest common divisor."""

    amount: int
    least: int
    most: int
    divisor: int

    def plus(self, amount: int) -> _Sum:
        return _Sum(
            self.amount + amount, min(self.least, amount), max(self.most, amount), math.gcd(self.divisor, amount)
        )


def grant(claims: Sequence[Claim]) -> None:
    """Grant all claims in one transaction, or none. Raises NotFresh."""
    sums: dict[tuple[str, str], _Sum] = {}
    for claim in claims:
        for kind, amount in claim.resources.items():
            key = claim.provider_uuid, kind
            known = sums.get(key)
            sums[key] = known.plus(amount) if known else _Sum(amount, amount, amount, amount)
    owners = {claim.consumer_uuid: claim for claim in claims}
    if len(owners) < len(claims):
        raise NotFresh  # several parts of a tree, or duplicates
    connection = connections[ALIAS]
    is_near = connection.vendor == "sqlite"
    with bare_tx(ALIAS) if is_near else write_tx(ALIAS):
        (_write_step_by_step if is_near else _write_at_once)(connection, claims, sums)


def _write_step_by_step(
    connection: BaseDatabaseWrapper, claims: Sequence[Claim], sums: dict[tuple[str, str], _Sum]
) -> None:
    """Write with several statements, for an in-process database: statements are cheap there, and writers run alone."""
    uuids = {claim.provider_uuid: _digits(claim.provider_uuid) for claim in claims}
    ids = statements.provider_ids(connection, list(uuids.values()))
    _all(uuids, ids)
    providers = {uuid: ids[text] for uuid, text in uuids.items()}
    wanted = [
        (of.amount, providers[uuid], kind, of.amount, of.least, of.most, of.divisor)
        for (uuid, kind), of in sums.items()
    ]
    if statements.use_inventories(connection, wanted) < len(wanted):
        raise NotFresh
    owners = [(_digits(one.consumer_uuid), one.project_id, one.user_id, one.consumer_type) for one in claims]
    consumers = statements.create_consumers(connection, owners)
    _all(owners, consumers)
    amounts = [
        (consumers[owner[0]], providers[claim.provider_uuid], kind, amount)
        for claim, owner in zip(claims, owners, strict=True)
        for kind, amount in claim.resources.items()
    ]
    statements.insert_each_allocation(connection, amounts)
    number = statements.next_change_number(connection)
    if number is None:
        raise NotFresh
    statements.touch_listed_providers(connection, list(providers.values()), number)


def _digits(uuid: str) -> str:
    """Return a uuid as SQLite stores it; a `UUID` in between would take a tenth of the time of a claim."""
    return uuid.replace("-", "").lower()


def _all(wanted: Any, found: Any) -> None:
    if len(found) < len(wanted):
        raise NotFresh


def _write_at_once(connection: BaseDatabaseWrapper, claims: Sequence[Claim], sums: dict[tuple[str, str], _Sum]) -> None:
    providers = list({claim.provider_uuid: None for claim in claims})
    parts = [
        (claim.consumer_uuid, claim.provider_uuid, kind, amount)
        for claim in claims
        for kind, amount in claim.resources.items()
    ]
    owners = [(one.consumer_uuid, one.project_id, one.user_id, one.consumer_type) for one in claims]
    uses = [(*key, *of) for key, of in sums.items()]
    if statements.claim(connection, providers, uses, owners, parts) < len(providers):
        raise NotFresh
