"""Raw SQL statements of networks: those of every server that is built or deleted.

Each names its index, and why the ORM is not used. Writes need the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.backends.base.base import BaseDatabaseWrapper

from conductor.db.dialect import padded, places, run, scan

_OF_GUEST = "FROM network_port WHERE device_id = %s AND (is_plugged OR binding_host <> '')"
_HAS_ANY = f"SELECT 1 {_OF_GUEST} LIMIT 1"
_MADE = f"SELECT id {_OF_GUEST} AND is_made_by_compute"
WINDOW = 64  # addresses that are read at first; each allocation has several times as many of them as it needs
MORE = 1024  # addresses that are read at once after that
_HELD = "SELECT number FROM network_addressallocation WHERE subnet_id = %s AND number >= %s ORDER BY number LIMIT %s"
_FREED = "SELECT number FROM network_freedaddress WHERE subnet_id = %s AND number >= %s ORDER BY number LIMIT %s"
_NEAR = f"SELECT 'held', number, 0, 0 FROM ({_HELD}) held UNION ALL SELECT 'freed', number, 0, 0 FROM ({_FREED}) freed"
_NEAR_AND_SHARE = (
    f"{_NEAR} UNION ALL SELECT 'share', '', coalesce(sum(addresses), 0), count(*) FROM network_shareentry "
    "WHERE subnet_id = %s AND project_id = %s"
)
_LOCK_GAP = "SELECT lowest_gap FROM network_subnet WHERE id = %s AND gap_epoch = %s {for no key update skip locked}"
_RAISE_GAP = "UPDATE network_subnet SET lowest_gap = %s WHERE id = %s AND lowest_gap < %s"
_NEXT_EPOCH = "UPDATE network_subnet SET gap_epoch = gap_epoch + 1 WHERE id = %s"
_FORGET_FREED = (
    "DELETE FROM network_freedaddress WHERE id IN (SELECT id FROM network_freedaddress "
    "WHERE subnet_id = %s AND NOT (number < %s AND ({pooled})) LIMIT %s {for update skip locked})"
)
_STATE = "SELECT '{table}', COUNT(*), MAX(id), {revisions} FROM {table}"
PORT_TABLES = ("network_port_security_groups", "network_addressallocation")  # their rows are deleted with a port


def table_states(
    connection: BaseDatabaseWrapper, revised: Sequence[str], others: Sequence[str]
) -> dict[str, tuple[object, ...]]:
    """Return, by table, how many rows there are, the highest id, and the sum of revisions where rows have some.

    Indexes: none, all rows are counted. Raw SQL, as OVN's holder asks twice a second: the ORM took longer to compile
    it than it takes in a cloud of a thousand ports.
    """
    revisions = {**dict.fromkeys(revised, "SUM(revision_number)"), **dict.fromkeys(others, "0")}
    selects = (_STATE.format(table=table, revisions=each) for table, each in revisions.items())
    return {table: tuple(state) for table, *state in scan(connection, " UNION ALL ".join(selects))}


def has_plugged_ports(connection: BaseDatabaseWrapper, instance_uuid: str) -> bool:
    """Whether an instance has a plugged or bound port.

    Index: `device_id`. Raw SQL, as each build and deletion asks, mostly without a result.
    """
    return bool(run(connection, _HAS_ANY, (instance_uuid,)))


def ports_made_for(connection: BaseDatabaseWrapper, instance_uuid: str) -> list[int]:
    """Return ids of the instance's plugged ports that a build created. Index and reason as for `has_plugged_ports`."""
    return [pk for (pk,) in run(connection, _MADE, (instance_uuid,))]


@dataclass(frozen=True)
class NearbyAddresses:
    """Addresses of a subnet as numbers in hexadecimal digits, each list in order and at most WINDOW long.

    `held` are the lowest allocated ones from a number on, `freed` the lowest that were allocated before. `of_project`
    is how many a project holds, in `entries` of its ledger.
    """

    held: list[str]
    freed: list[str]
    of_project: int = 0
    entries: int = 0


def near_addresses(
    connection: BaseDatabaseWrapper, subnet_id: int, held_from: str, freed_from: str, project_id: str | None
) -> NearbyAddresses:
    """Return allocated addresses from one number on, freed ones from another, and how many a project has, if given.

    Indexes: `addresses_in_order`, `freed_once`, and `share_of_project`. Raw SQL, as each allocation reads it, and the
    ORM has no union of parts with limits.
    """
    template = _NEAR
    params: tuple[object, ...] = (subnet_id, held_from, WINDOW, subnet_id, freed_from, WINDOW)
    if project_id is not None:
        template, params = _NEAR_AND_SHARE, (*params, subnet_id, project_id)
    rows = run(connection, template, params)
    return NearbyAddresses(
        held=sorted(number for part, number, _, _ in rows if part == "held"),
        freed=sorted(number for part, number, _, _ in rows if part == "freed"),
        of_project=sum(count for _, _, count, _ in rows),
        entries=sum(entries for _, _, _, entries in rows),
    )


def held_addresses(connection: BaseDatabaseWrapper, subnet_id: int, start: str) -> list[str]:
    """Return the lowest MORE allocated numbers from `start` on. Index: `addresses_in_order`; reason as above."""
    return [number for (number,) in run(connection, _HELD, (subnet_id, start, MORE))]


def freed_addresses(connection: BaseDatabaseWrapper, subnet_id: int, start: str) -> list[str]:
    """Return the lowest MORE freed numbers from `start` on. Index: `freed_once`; reason as above."""
    return [number for (number,) in run(connection, _FREED, (subnet_id, start, MORE))]


def raise_lowest_gap(connection: BaseDatabaseWrapper, subnet_id: int, epoch: int, number: str) -> None:
    """Store that below `number` all addresses of the pools are allocated or freed, as read in this epoch of the gap.

    Index: the primary key. Raw SQL for SKIP LOCKED: it only saves reading, so no allocation waits for it. The lock is
    one beside which others allocate: they reference the subnet's key, which stays.
    """
    if run(connection, _LOCK_GAP, (subnet_id, epoch)):
        run(connection, _RAISE_GAP, (number, subnet_id, number))


def forget_freed(connection: BaseDatabaseWrapper, subnet_id: int, epoch: int, pools: Sequence[tuple[str, str]]) -> None:
    """Delete up to MORE freed addresses that are above the gap or outside of the pools: nothing is found by them.

    The next epoch begins, as a concurrent allocation that still saw such an address allocated may raise the gap above
    it. Indexes: the primary key and `freed_once`. Raw SQL for SKIP LOCKED: it waits for no allocation.
    """
    pooled = " OR ".join(["number BETWEEN %s AND %s"] * len(pools)) or "1 = 0"
    bounds = [bound for pool in pools for bound in pool]
    for (gap,) in run(connection, _LOCK_GAP, (subnet_id, epoch)):
        run(connection, _NEXT_EPOCH, (subnet_id,))
        run(connection, _FORGET_FREED.replace("{pooled}", pooled), (subnet_id, gap, *bounds, MORE))


def has_floating_ips(connection: BaseDatabaseWrapper, port_ids: Sequence[int]) -> bool:
    """Whether a floating IP is associated with one of these ports.

    Index: `port_id`. Raw SQL, as each deleted server asks, mostly without a result.
    """
    ids = padded(port_ids)
    return bool(run(connection, f"SELECT 1 FROM network_floatingip WHERE port_id IN ({places(ids)}) LIMIT 1", ids))


def delete_ports(connection: BaseDatabaseWrapper, port_ids: Sequence[int]) -> None:
    """Delete ports with their memberships and addresses.

    Indexes: `port_id` of both, and the primary key. Raw SQL, as the ORM would first read the rows that refer to each;
    here their tables are named, and a test compares them with the models.
    """
    ids = padded(port_ids)
    for table in PORT_TABLES:
        run(connection, f"DELETE FROM {table} WHERE port_id IN ({places(ids)})", ids)
    run(connection, f"DELETE FROM network_port WHERE id IN ({places(ids)})", ids)
