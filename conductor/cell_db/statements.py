"""Raw SQL statements of a cell's tables: those of every report, of every console piece, and of a starting scheduler.

Each names its index, and why the ORM is not used. Writes and row locks need the caller's transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from conductor.core.states import MigrationStatus, MigrationType
from conductor.db.dialect import Row, run, scan

_SERVICE = "\"binary\" = 'nova-compute' AND host = %s"
_HEARD = f"SELECT 1 FROM cell_db_service WHERE {_SERVICE} AND NOT is_forced_down AND last_seen_at > {{later}}"
_FENCED = f"SELECT 1 FROM cell_db_service WHERE {_SERVICE} AND is_forced_down"
_LOCK_SERVICE = f"SELECT id FROM cell_db_service WHERE {_SERVICE} {{for update}}"


def has_reported_since(connection: BaseDatabaseWrapper, host: str, seconds: float) -> bool:
    """Whether the host has reported within so many seconds, and is not forced down.

    Index: `one_service_per_host`. Raw SQL, as every command to a host checks it.
    """
    return bool(run(connection, _HEARD, (host, -seconds)))


def is_forced_down(connection: BaseDatabaseWrapper, host: str) -> bool:
    """Whether an operator has forced the host's service down. Index and reason as for `has_reported_since`."""
    return bool(run(connection, _FENCED, (host,)))


def lock_service(connection: BaseDatabaseWrapper, host: str) -> None:
    """Lock the row of a host's service until the transaction ends.

    Index: `one_service_per_host`. Raw SQL, as each build and move does it and needs no object.
    """
    run(connection, _LOCK_SERVICE, (host,))


# The parts of a digest: a fingerprint of what the host offers, the number of the full comparison, and a fingerprint of
# the guests. The first two are the host's state.
RESOURCES_DIGEST_LENGTH = 32
STATE_DIGEST_LENGTH = RESOURCES_DIGEST_LENGTH + 8
_OLDER_AND_UP = f"{_SERVICE} AND report_number < %s AND last_seen_at > {{later}}"
_SAME_REPORT = (
    "UPDATE cell_db_service SET last_seen_at = {now}, report_number = %s "
    f"WHERE {_OLDER_AND_UP} AND report_digest = %s RETURNING id"
)
_SAME_STATE = (
    "SELECT id, unsettled FROM cell_db_service "
    f"WHERE {_OLDER_AND_UP} AND substr(report_digest, 1, {STATE_DIGEST_LENGTH}) = %s {{for update}}"
)
_RUNNING_GUESTS = (
    "UPDATE cell_db_computenode SET running_guests = %s, updated_at = {now} "
    "WHERE host = %s AND node = %s AND running_guests <> %s"
)


def repeat_report(connection: BaseDatabaseWrapper, host: str, number: int, down_seconds: float, digest: str) -> bool:
    """Record a report that equals the last one of a host that is up; False, and nothing, for any other.

    Index: `one_service_per_host`. Raw SQL, as hosts report all the time, and the ORM's UPDATE returns no row.
    """
    return bool(run(connection, _SAME_REPORT, (number, host, number, -down_seconds, digest)))


# What several hosts report: a JSON list of [host, number, digest].
_GIVEN = {
    "sqlite": "SELECT json_extract(value, '$[0]') AS host, json_extract(value, '$[1]') AS number, "
    "json_extract(value, '$[2]') AS digest FROM json_each(%s)",
    "postgresql": "SELECT value ->> 0 AS host, (value ->> 1)::bigint AS number, value ->> 2 AS digest "
    "FROM jsonb_array_elements(%s::jsonb)",
}
# In the order of their ids, so that two conductors with reports of the same hosts cannot deadlock.
_REPEATED = (
    "SELECT service.id, given.number, given.digest FROM ({given}) AS given "
    "JOIN cell_db_service AS service ON service.\"binary\" = 'nova-compute' AND service.host = given.host "
    "WHERE service.report_number < given.number AND {condition} "
    f"AND substr(service.report_digest, 1, {RESOURCES_DIGEST_LENGTH}) "
    f"= substr(given.digest, 1, {RESOURCES_DIGEST_LENGTH}) "
    f"AND substr(service.report_digest, {STATE_DIGEST_LENGTH + 1}) = substr(given.digest, {STATE_DIGEST_LENGTH + 1}) "
    "ORDER BY service.id {for update}"
)
_REPEAT = (
    "UPDATE cell_db_service AS service SET last_seen_at = {now}, {changes} "
    f"FROM ({_REPEATED}) AS repeated WHERE service.id = repeated.id RETURNING host, report_digest"
)


def _repeat(changes: str, condition: str) -> dict[str, str]:
    """Return an update of services by reports that equal their last ones, in the SQL of each database."""
    text = _REPEAT.replace("{changes}", changes).replace("{condition}", condition)
    return {vendor: text.replace("{given}", given) for vendor, given in _GIVEN.items()}


_REPEAT_REPORTS = _repeat(
    "report_number = CASE WHEN service.report_digest = repeated.digest "
    "THEN repeated.number ELSE service.report_number END",
    "service.last_seen_at > {later}",
)
_COMPARED_REPORTS = _repeat("report_number = repeated.number, report_digest = repeated.digest", "true")
ReportKey = tuple[str, int, str]  # host, number and digest of a report


def repeat_reports(
    connection: BaseDatabaseWrapper, reports: Sequence[ReportKey], down_seconds: float
) -> dict[str, str]:
    """Record heartbeats: reports that equal the last ones of hosts that are up. Return the stored digests by host.

    One whose digest differs from the stored one in the number of the full comparison only is due for that: its host
    has been heard, and the report itself is still to be recorded. Index and reason as for `repeat_report`.
    """
    return dict(run(connection, _REPEAT_REPORTS[connection.vendor], (json.dumps(reports), -down_seconds)))


def store_compared(connection: BaseDatabaseWrapper, reports: Sequence[ReportKey]) -> None:
    """Record reports that were compared in full, and are as the last ones. Index and reason as for `repeat_report`."""
    run(connection, _COMPARED_REPORTS[connection.vendor], (json.dumps(reports),))


def lock_same_state(
    connection: BaseDatabaseWrapper, host: str, number: int, down_seconds: float, state_digest: str
) -> tuple[int, str] | None:
    """Lock the service of a host that is up, if its last report is older and differs in its guests only.

    Returns its id and what was unsettled, as JSON text; None for any other. Index and reason as for `repeat_report`.
    """
    rows = run(connection, _SAME_STATE, (host, number, -down_seconds, state_digest))
    return (rows[0][0], rows[0][1]) if rows else None


def set_running_guests(connection: BaseDatabaseWrapper, host: str, node: str, count: int) -> None:
    """Store how many guests run on a node, if that changed.

    Index: `one_node_per_host_and_name`. Raw SQL, as every report of a busy host does it.
    """
    run(connection, _RUNNING_GUESTS, (count, host, node, count))


_EVACUATED = (
    "SELECT 1 FROM cell_db_migration WHERE source_host = %s "
    f"AND migration_type = '{MigrationType.EVACUATION}' AND status = '{MigrationStatus.DONE}' LIMIT 1"
)


def has_evacuated(connection: BaseDatabaseWrapper, host: str) -> bool:
    """Whether instances were evacuated from the host whose guests it has not yet reported as removed.

    Index: `source_host`. Raw SQL, as each report asks it, mostly without a result.
    """
    return bool(run(connection, _EVACUATED, (host,)))


_NODES = (
    "SELECT uuid, host, node, is_simulated, hypervisor_type, hypervisor_version, host_ip, report "
    "FROM cell_db_computenode"
)
_CHANGED_NODES = f"{_NODES} WHERE change_number > %s"


def node_reports(connection: BaseDatabaseWrapper, since: int | None = None) -> Iterator[Row]:
    """Yield the nodes with their reports as text: those that changed after change `since`, or all.

    Index: `change_number`; the whole table without `since`. Raw SQL, as a starting scheduler reads the nodes of a
    whole cell, and objects would cost more than their parsing.
    """
    return scan(connection, _NODES) if since is None else iter(run(connection, _CHANGED_NODES, (since,)))


_OWNER = "SELECT project_id FROM cell_db_instance WHERE uuid = %s AND host = %s AND deleted_at IS NULL"
_CONSOLE_LOG = 'SELECT host, "offset", text FROM cell_db_consolelog WHERE instance_uuid = %s {for update}'
_SAVE_CONSOLE_LOG = (
    'INSERT INTO cell_db_consolelog (instance_uuid, host, "offset", text, updated_at) VALUES (%s, %s, %s, %s, {now}) '
    'ON CONFLICT (instance_uuid) DO UPDATE SET host = excluded.host, "offset" = excluded."offset", '
    "text = excluded.text, updated_at = excluded.updated_at"
)


def project_of_guest(connection: BaseDatabaseWrapper, instance_uuid: UUID, host: str) -> str | None:
    """Return the project of an instance that is on the host, else None.

    Index: the unique one of `uuid`. Raw SQL, as are all statements of console logs: every booting guest writes, and a
    busy one sends many pieces.
    """
    rows = run(connection, _OWNER, (instance_uuid.hex, host))
    return str(rows[0][0]) if rows else None


def lock_console_log(connection: BaseDatabaseWrapper, instance_uuid: UUID) -> tuple[str, int, str] | None:
    """Lock the stored part of a console. Return its host, offset and text.

    Index: the unique one of `instance_uuid`. Reason as for `project_of_guest`.
    """
    rows = run(connection, _CONSOLE_LOG, (instance_uuid.hex,))
    return (rows[0][0], rows[0][1], rows[0][2]) if rows else None


def save_console_log(connection: BaseDatabaseWrapper, instance_uuid: UUID, host: str, offset: int, text: str) -> None:
    """Store the kept part of a console in place of an earlier one. Index and reason as for `lock_console_log`."""
    run(connection, _SAVE_CONSOLE_LOG, (instance_uuid.hex, host, offset, text))
