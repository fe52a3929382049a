"""The short way to grant claims: by hand, for consumers that hold nothing and providers that have enough.

Nearly all claims are such. Models and their queries would cost several times what the database does for them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from conductor.placement.changes import ALIAS, COUNTER
from conductor.placement.claim import Claim
from conductor.sql.dialect import run, run_many
from conductor.transactions import bare_tx, write_tx


class NotFresh(Exception):
    """Something is in the way. The transaction is to be undone; the long way finds out what it is."""


class _Sum(NamedTuple):
    """What is wanted of one class of one provider: all of it, its smallest and its largest part, what divides all."""

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
        raise NotFresh  # parts of a tree, or the same twice
    connection = connections[ALIAS]
    is_near = connection.vendor == "sqlite"
    with bare_tx(ALIAS) if is_near else write_tx(ALIAS):
        (_write_step_by_step if is_near else _write_at_once)(connection, claims, sums)


_FITS = (
    "used + {amount} <= (total - reserved) * allocation_ratio "
    "AND {least} >= min_unit AND {most} <= max_unit AND {divisor} %% step_size = 0"
)
_TAKE = (
    "UPDATE placement_inventory SET used = used + %s WHERE provider_id = %s AND resource_class = %s AND "
    + _FITS.format(amount="%s", least="%s", most="%s", divisor="%s")
)
_FIND = "SELECT uuid, id FROM placement_resourceprovider WHERE uuid IN (SELECT value FROM json_each(%s))"
_ENROL = (
    "INSERT INTO placement_consumer (uuid, project_id, user_id, generation, consumer_type) "
    "SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), 1, "
    "json_extract(value, '$[3]') FROM json_each(%s) WHERE true ON CONFLICT DO NOTHING RETURNING uuid, id"
)
_GIVE = "INSERT INTO placement_allocation (consumer_id, provider_id, resource_class, amount) VALUES (%s, %s, %s, %s)"
_COUNT = "UPDATE placement_changecounter SET number = number + 1 WHERE id = %s RETURNING number"
_TOUCH = (
    "UPDATE placement_resourceprovider SET generation = generation + 1, change_number = %s "
    "WHERE id IN (SELECT value FROM json_each(%s))"
)


def _write_step_by_step(
    connection: BaseDatabaseWrapper, claims: Sequence[Claim], sums: dict[tuple[str, str], _Sum]
) -> None:
    """For a database in the same process, where a statement costs little and a transaction that writes is alone."""
    uuids = {claim.provider_uuid: _digits(claim.provider_uuid) for claim in claims}
    ids: dict[str, int] = dict(run(connection, _FIND, (json.dumps(list(uuids.values())),)))
    _all(uuids, ids)
    providers = {uuid: ids[text] for uuid, text in uuids.items()}
    wanted = [
        (of.amount, providers[uuid], kind, of.amount, of.least, of.most, of.divisor)
        for (uuid, kind), of in sums.items()
    ]
    if run_many(connection, _TAKE, wanted) < len(wanted):
        raise NotFresh
    owners = [(_digits(one.consumer_uuid), one.project_id, one.user_id, one.consumer_type) for one in claims]
    consumers: dict[str, int] = dict(run(connection, _ENROL, (json.dumps(owners),)))
    _all(owners, consumers)
    amounts = [
        (consumers[owner[0]], providers[claim.provider_uuid], kind, amount)
        for claim, owner in zip(claims, owners, strict=True)
        for kind, amount in claim.resources.items()
    ]
    run_many(connection, _GIVE, amounts)
    numbers = run(connection, _COUNT, (COUNTER,))
    _all((COUNTER,), numbers)
    run(connection, _TOUCH, (numbers[0][0], json.dumps(list(providers.values()))))


def _digits(uuid: str) -> str:
    """As SQLite keeps it; a `UUID` in between would take a tenth of the time of a claim."""
    return uuid.replace("-", "").lower()


def _all(wanted: Any, found: Any) -> None:
    if len(found) < len(wanted):
        raise NotFresh


# One statement, so nothing waits for this process while providers are held. They are locked in the order of their ids,
# as everywhere; the counter is last, as all who claim wait for it. Lists go as texts: the driver would look at each
# of their elements for quotes. None of them has a blank: they are uuids, numbers and names of resource classes.
_AT_ONCE = f"""
    WITH held AS (
        SELECT id, uuid FROM placement_resourceprovider WHERE uuid = ANY(string_to_array(%s, ' ')::uuid[])
        ORDER BY id FOR UPDATE
    ), wanted AS (
        SELECT held.id AS provider_id, asked.* FROM held JOIN unnest(
            string_to_array(%s, ' ')::uuid[], string_to_array(%s, ' '), string_to_array(%s, ' ')::bigint[],
            string_to_array(%s, ' ')::bigint[], string_to_array(%s, ' ')::bigint[], string_to_array(%s, ' ')::bigint[]
        ) AS asked (uuid, kind, amount, least, most, divisor) ON asked.uuid = held.uuid
    ), taken AS (
        UPDATE placement_inventory SET used = used + wanted.amount FROM wanted
        WHERE placement_inventory.provider_id = wanted.provider_id AND resource_class = wanted.kind
        AND {_FITS.format(amount="wanted.amount", least="wanted.least", most="wanted.most", divisor="wanted.divisor")}
        RETURNING 1
    ), enrolled AS (
        INSERT INTO placement_consumer (uuid, project_id, user_id, generation, consumer_type)
        SELECT (asked ->> 0)::uuid, asked ->> 1, asked ->> 2, 1, asked ->> 3 FROM json_array_elements(%s) AS asked
        WHERE (SELECT count(*) FROM taken) = %s
        ON CONFLICT DO NOTHING RETURNING uuid, id
    ), given AS (
        INSERT INTO placement_allocation (consumer_id, provider_id, resource_class, amount)
        SELECT enrolled.id, held.id, part.kind, part.amount FROM unnest(
            string_to_array(%s, ' ')::uuid[], string_to_array(%s, ' ')::uuid[], string_to_array(%s, ' '),
            string_to_array(%s, ' ')::bigint[]
        ) AS part (consumer, provider, kind, amount)
        JOIN enrolled ON enrolled.uuid = part.consumer JOIN held ON held.uuid = part.provider
        RETURNING 1
    ), counted AS (
        UPDATE placement_changecounter SET number = number + 1
        WHERE id = %s AND (SELECT count(*) FROM enrolled) = %s AND (SELECT count(*) FROM given) = %s RETURNING number
    )
    UPDATE placement_resourceprovider SET generation = generation + 1, change_number = counted.number
    FROM counted, held WHERE placement_resourceprovider.id = held.id RETURNING 1"""


def _write_at_once(connection: BaseDatabaseWrapper, claims: Sequence[Claim], sums: dict[tuple[str, str], _Sum]) -> None:
    providers = list({claim.provider_uuid: None for claim in claims})
    parts = [
        (claim.consumer_uuid, claim.provider_uuid, kind, amount)
        for claim in claims
        for kind, amount in claim.resources.items()
    ]
    owners = [(one.consumer_uuid, one.project_id, one.user_id, one.consumer_type) for one in claims]
    params = [
        " ".join(providers),
        *_columns(((*key, *of) for key, of in sums.items()), 6),
        json.dumps(owners),
        len(sums),
        *_columns(parts, 4),
        COUNTER,
        len(owners),
        len(parts),
    ]
    _all(providers, run(connection, _AT_ONCE, params))


def _columns(rows: Iterable[Sequence[Any]], count: int) -> list[str]:
    """Rows as columns, each one text; none at all are so many empty ones."""
    return [" ".join(map(str, column)) for column in zip(*rows, strict=True)] or [""] * count
