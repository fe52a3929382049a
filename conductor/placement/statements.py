"""Raw SQL statements of placement: those of every claim and release, and of a scheduler that reads all providers.

Each names its index, and why the ORM is not used. Writes need the caller's transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from conductor.db.dialect import Row, padded, places, run, run_many, scan

# -- change numbers

COUNTER = 1  # the one row of the counter
_COUNT = "UPDATE placement_changecounter SET number = number + 1 WHERE id = %s RETURNING number"
_TOUCH = "UPDATE placement_resourceprovider SET generation = generation + %s, change_number = %s WHERE id IN"


def next_change_number(connection: BaseDatabaseWrapper) -> int | None:
    """Raise the counter of changes, which stays locked until the transaction ends. None while it has no row.

    Index: the primary key. Raw SQL for `RETURNING`: every claim and release does it.
    """
    found = run(connection, _COUNT, (COUNTER,))
    return int(found[0][0]) if found else None


def touch_providers(connection: BaseDatabaseWrapper, ids: Sequence[int], number: int, generations: int) -> None:
    """Set the change number of providers, and raise their generation by `generations`.

    Index: the primary key. Raw SQL, as every claim and release changes a provider.
    """
    among = padded(ids)
    run(connection, f"{_TOUCH} ({places(among)})", (generations, number, *among))


# -- claims of consumers without allocations

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
_INSERT = "INSERT INTO placement_allocation (consumer_id, provider_id, resource_class, amount) VALUES "
_INSERT_ONE = f"{_INSERT}(%s, %s, %s, %s)"
_TOUCH_LISTED = (
    "UPDATE placement_resourceprovider SET generation = generation + 1, change_number = %s "
    "WHERE id IN (SELECT value FROM json_each(%s))"
)


def provider_ids(connection: BaseDatabaseWrapper, uuids: Sequence[str]) -> dict[str, int]:
    """Return ids of providers by uuid, both in 32 digits, on SQLite.

    Index: the unique one of `uuid`. Raw SQL, as are all statements of a claim: objects would cost several times the
    database's own work.
    """
    return dict(run(connection, _FIND, (json.dumps(list(uuids)),)))


def use_inventories(connection: BaseDatabaseWrapper, uses: Sequence[Sequence[Any]]) -> int:
    """Add to `used` of inventories with enough room. Return how many changed.

    Each use is amount, provider id, resource class, amount, and the least, the most and the common divisor of its
    parts. Index: `one_inventory_per_class`. Raw SQL for the conditions on the same row, in one statement for all.
    """
    return run_many(connection, _TAKE, uses)


def create_consumers(connection: BaseDatabaseWrapper, owners: Sequence[Sequence[str]]) -> dict[str, int]:
    """Insert consumers, each a uuid in 32 digits, project, user and type; on SQLite. Return ids by uuid.

    An existing one is left out. Index: the unique one of `uuid`. Raw SQL for `RETURNING` after `ON CONFLICT`.
    """
    return dict(run(connection, _ENROL, (json.dumps(owners),)))


def insert_each_allocation(connection: BaseDatabaseWrapper, rows: Sequence[Sequence[Any]]) -> None:
    """Insert allocations with one statement for each, which costs least on SQLite. Raw SQL as for `provider_ids`."""
    run_many(connection, _INSERT_ONE, rows)


def insert_allocations(connection: BaseDatabaseWrapper, rows: Sequence[Sequence[Any]]) -> None:
    """Insert allocations with one statement. Raw SQL, as models would cost more than all the rest of a claim."""
    text = _INSERT + ", ".join(["(%s, %s, %s, %s)"] * len(rows))
    run(connection, text, [value for row in rows for value in row])


def touch_listed_providers(connection: BaseDatabaseWrapper, ids: Sequence[int], number: int) -> None:
    """Set the change number of providers and raise their generation, on SQLite: one text for any number of providers.

    Index and reason as for `touch_providers`.
    """
    run(connection, _TOUCH_LISTED, (number, json.dumps(list(ids))))


# One statement, so no network round trip while providers are locked. They are locked in the order of their ids,
# as everywhere; the counter is last, as all claims wait for it. Lists are passed as texts: the driver would scan each
# of their elements for quotes. None of them has a blank: they are uuids, numbers and names of resource classes.
_CLAIM = f"""
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


def claim(
    connection: BaseDatabaseWrapper,
    providers: Sequence[str],
    uses: Sequence[Sequence[Any]],
    owners: Sequence[Sequence[str]],
    parts: Sequence[Sequence[Any]],
) -> int:
    """Write claims on PostgreSQL with one statement. Return how many providers changed: all of them, or it failed.

    `uses` are provider uuid, resource class, and the sum, least, most and common divisor of its amounts; `owners` are
    consumer uuid, project, user and type; `parts` are consumer uuid, provider uuid, resource class and amount.
    Indexes: the unique ones of `uuid` of both, `one_inventory_per_class`, and primary keys. Raw SQL, as the ORM has no
    statement that writes to five tables.
    """
    params = [
        " ".join(providers),
        *_columns(uses, 6),
        json.dumps(owners),
        len(uses),
        *_columns(parts, 4),
        COUNTER,
        len(owners),
        len(parts),
    ]
    return len(run(connection, _CLAIM, params))


def _columns(rows: Sequence[Sequence[Any]], count: int) -> list[str]:
    """Return rows as columns, each one text; without rows they are empty texts."""
    return [" ".join(map(str, column)) for column in zip(*rows, strict=True)] or [""] * count


# -- release

CONSUMER_TABLES = ("placement_hardwareclaim", "placement_allocation")  # their rows are deleted with a consumer
_CONSUMERS = "SELECT id FROM placement_consumer WHERE uuid IN ({places}) ORDER BY id {for update}"
_PROVIDERS = """
SELECT id FROM placement_resourceprovider
WHERE id IN (SELECT provider_id FROM placement_allocation WHERE consumer_id IN ({places})) ORDER BY id {for update}
"""
_GIVE_BACK = """
UPDATE placement_inventory SET used = used - held.amount
FROM (
    SELECT provider_id, resource_class, SUM(amount) AS amount FROM placement_allocation
    WHERE consumer_id IN ({places}) GROUP BY provider_id, resource_class
) AS held
WHERE placement_inventory.provider_id = held.provider_id AND placement_inventory.resource_class = held.resource_class
"""


def lock_consumers(connection: BaseDatabaseWrapper, uuids: Sequence[str]) -> list[int]:
    """Lock the rows of consumers in the order of their ids, and return these.

    Index: the unique one of `uuid`. Raw SQL, as are all statements of a release: every deleted server needs them.
    """
    return [pk for (pk,) in _among(connection, _CONSUMERS, [UUID(uuid).hex for uuid in uuids])]


def lock_providers_of(connection: BaseDatabaseWrapper, consumers: Sequence[int]) -> list[int]:
    """Lock the rows of the providers that consumers have allocations of, in order, and return their ids.

    Indexes: the first column of the constraint of allocations, and the primary key. Reason as for `lock_consumers`.
    """
    return [pk for (pk,) in _among(connection, _PROVIDERS, consumers)]


def give_back(connection: BaseDatabaseWrapper, consumers: Sequence[int]) -> None:
    """Subtract what consumers have from `used` of the inventories.

    Indexes: the first column of the constraint of allocations, and `one_inventory_per_class`. Raw SQL, as the ORM has
    no UPDATE from a sum of another table.
    """
    _among(connection, _GIVE_BACK, consumers)


def delete_consumers(connection: BaseDatabaseWrapper, consumers: Sequence[int]) -> None:
    """Delete consumers with their allocations and hardware.

    Indexes: `consumer_id` of both, and the primary key. Raw SQL, as the ORM would first read the rows that refer to
    each; here their tables are named, and a test compares them with the models.
    """
    for table in CONSUMER_TABLES:
        _among(connection, f"DELETE FROM {table} WHERE consumer_id IN ({{places}})", consumers)
    _among(connection, "DELETE FROM placement_consumer WHERE id IN ({places})", consumers)


def _among(connection: BaseDatabaseWrapper, template: str, values: Sequence[str | int]) -> list[Row]:
    """Execute a statement with these values in place of `{places}`."""
    requested = padded(values)
    return run(connection, template.replace("{places}", places(requested)), requested)


# -- hardware

_HARDWARE = (
    'SELECT p.uuid, c."grant" FROM placement_consumer o JOIN placement_hardwareclaim c ON c.consumer_id = o.id '
    "JOIN placement_resourceprovider p ON p.id = c.provider_id WHERE o.uuid = %s"
)


def hardware_of(connection: BaseDatabaseWrapper, consumer_uuid: UUID | str) -> list[Row]:
    """Return a consumer's hardware: uuids of providers, and grants as JSON text.

    Indexes: the unique one of `uuid`, and `one_hardware_claim_per_consumer_and_host`. Raw SQL, as it runs for each
    server that is built, mostly without a result.
    """
    return run(connection, _HARDWARE, (UUID(str(consumer_uuid)).hex,))


# -- states of providers

_STATES = "SELECT id, uuid, name, generation, change_number, traits FROM placement_resourceprovider"
_NESTED = (
    "SELECT p.id, parent.uuid, root.uuid FROM placement_resourceprovider p "
    "JOIN placement_resourceprovider parent ON parent.id = p.parent_id "
    "LEFT JOIN placement_resourceprovider root ON root.id = p.root_id"
)
_INVENTORIES = (
    "SELECT provider_id, resource_class, total, reserved, min_unit, max_unit, step_size, allocation_ratio, used "
    "FROM placement_inventory"
)
_AGGREGATES = "SELECT provider_id, aggregate_uuid FROM placement_provideraggregate"
_NUM_CONSUMERS = "SELECT provider_id, COUNT(DISTINCT consumer_id) FROM placement_allocation"
_CHANGED = "IN (SELECT id FROM placement_resourceprovider WHERE change_number > %s)"
_ONE = "= %s"


@dataclass(frozen=True)
class ProviderReading:
    """Reads some providers, or all, with one statement per table; select them with `one`, `changed` or `all`.

    Indexes: `change_number`, and the first columns of the constraints of inventories and aggregates; whole tables for
    `all`. Raw SQL, as a scheduler's first reading is of all hosts: rows become values without objects in between.
    """

    connection: BaseDatabaseWrapper
    which: str = ""
    params: tuple[int, ...] = ()

    @classmethod
    def all(cls, connection: BaseDatabaseWrapper) -> ProviderReading:
        return cls(connection)

    @classmethod
    def one(cls, connection: BaseDatabaseWrapper, provider_id: int) -> ProviderReading:
        return cls(connection, _ONE, (provider_id,))

    @classmethod
    def changed(cls, connection: BaseDatabaseWrapper, number: int) -> ProviderReading:
        """Select the providers that changed after change `number`."""
        return cls(connection, _CHANGED, (number,))

    def providers(self) -> Iterator[Row]:
        """Yield id, uuid, name, generation, change number and traits as JSON text, by id."""
        return self._rows(_STATES, "id", " ORDER BY id")

    def nested(self) -> Iterator[Row]:
        """Yield the id of each provider with a parent, the parent's uuid and the root's."""
        return self._rows(_NESTED, "p.id")

    def inventories(self) -> Iterator[Row]:
        """Yield provider id, resource class, and the fields of its `Amount`."""
        return self._rows(_INVENTORIES)

    def aggregates(self) -> Iterator[Row]:
        """Yield provider id and uuid of an aggregate."""
        return self._rows(_AGGREGATES)

    def num_consumers(self) -> Iterator[Row]:
        """Yield provider id and number of its consumers, where there are any."""
        return self._rows(_NUM_CONSUMERS, end=" GROUP BY provider_id")

    def _rows(self, select: str, column: str = "provider_id", end: str = "") -> Iterator[Row]:
        if self.which:
            return iter(run(self.connection, f"{select} WHERE {column} {self.which}{end}", self.params))
        return scan(self.connection, f"{select}{end}")
