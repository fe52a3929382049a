"""Connections to OVN's databases: writing the northbound one, and reading the southbound one.

A connection has threads and a replica of its tables. It reconnects by itself, and does not survive a fork: a process
opens it when it needs it.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ovs.db.idl import Row, Transaction
from ovs.stream import Stream
from ovsdbapp.backend.ovs_idl import command, connection, idlutils
from ovsdbapp.exceptions import OvsdbConnectionUnavailable, TimeoutException
from ovsdbapp.schema.ovn_northbound.impl_idl import OvnNbApiIdlImpl

from conductor.network.ovn.balancing import CheckedMember
from conductor.network.ovn.errors import DatabaseUnavailable
from conductor.network.ovn.northbound import (
    COLUMNS,
    ID,
    NAMED_TABLES,
    PREFIX,
    REFERENCES,
    SHARED,
    Northbound,
    NorthboundChanges,
    RowKey,
    Value,
    diff,
)
from conductor.network.ovn.tls import TlsFiles

# A replica of the database is read in one piece, and a transaction may hold all networks.
TIMEOUT_SECONDS = 20.0
PROBE_MILLISECONDS = 30_000
LOCK = "novella_projection"
GLOBAL = "NB_Global"  # the table with one row, for the whole database


class NorthboundDatabase:
    """A connection to the northbound database. Only the connection that has the database's lock can write."""

    def __init__(self, remote: str, *, tls: TlsFiles | None = None, options: Mapping[str, str] | None = None) -> None:
        """Open the connection. Each write restores `options` of the whole database. Raises DatabaseUnavailable."""
        self._options = options or {}
        columns = {table: (*names, "external_ids") for table, names in COLUMNS.items()}
        columns[GLOBAL] = ("nb_cfg", "options")
        self._connection = open_database(remote, "OVN_Northbound", columns, tls=tls, lock=LOCK)
        # The library keeps the connection in its class: without a class of its own a second one would use the first.
        own_class = type("NorthboundApi", (OvnNbApiIdlImpl,), {"_ovsdb_connection": None})
        try:
            self._api = own_class(self._connection, auto_index=False)
        except OvsdbConnectionUnavailable as error:
            raise DatabaseUnavailable(f"{remote} does not answer: {error}") from error

    def write(
        self, desired: Northbound, *, since: Northbound | None = None, is_counted: bool = False
    ) -> NorthboundChanges:
        """Write the differences to the desired rows in one transaction, and return them.

        Args:
            since: The rows of the last write. Those that are desired unchanged are not compared: reading them takes
                most of the time. When one of them is missing, all are compared.
            is_counted: Raise the number of the configuration, also without changes. Northd and the hosts repeat it.

        Raises:
            DatabaseUnavailable: The database does not answer, or another connection has the lock. Without a change
                to write this is not noticed.
        """
        write = _Write(self._api, desired, since or {}, self._options, is_counted)
        try:
            write.execute(check_error=True, log_errors=False)
        except (RuntimeError, TimeoutException) as error:
            raise DatabaseUnavailable(str(error)) from error
        return write.changes

    def has_lock(self) -> bool:
        return bool(self._connection.idl.has_lock)

    def close(self) -> None:
        self._connection.stop(TIMEOUT_SECONDS)


class SouthboundDatabase:
    """A connection to the southbound database, with what hosts report there."""

    def __init__(self, remote: str, *, tls: TlsFiles | None = None) -> None:
        """Open the connection. Raises DatabaseUnavailable."""
        columns = {
            "Chassis": ("name", "other_config"),
            "Port_Binding": ("logical_port", "up", "chassis"),
            "Service_Monitor": ("logical_port", "ip", "protocol", "port", "status"),
        }
        self._connection = open_database(remote, "OVN_Southbound", columns, tls=tls)
        try:
            self._connection.start()
        except Exception as error:  # the library raises plain exceptions here
            self._connection.stop(0)
            raise DatabaseUnavailable(f"{remote} does not answer: {error}") from error

    @property
    def version(self) -> int:
        """Return a number that changes with each change of the replica."""
        return int(self._connection.idl.change_seqno)

    def chassis(self) -> dict[str, Mapping[str, str]]:
        """Return the configuration of each host that runs OVN, by name."""
        with self._connection.lock:
            return {row.name: row.other_config for row in self._rows("Chassis")}

    def up_ports(self) -> dict[str, str]:
        """Return the host of each port that is bound and has its flows there, by the port's name."""
        with self._connection.lock:
            return {
                row.logical_port: row.chassis[0].name
                for row in self._rows("Port_Binding")
                if row.up == [True] and row.chassis
            }

    def answers(self) -> dict[CheckedMember, str]:
        """Return `online`, `offline` or `error` for each member of a load balancer that was checked."""
        with self._connection.lock:
            return {
                CheckedMember(row.logical_port, row.ip, row.protocol[0], row.port): row.status[0]
                for row in self._rows("Service_Monitor")
                if row.protocol and row.status
            }

    def close(self) -> None:
        self._connection.stop(TIMEOUT_SECONDS)

    def _rows(self, table: str) -> Collection[Row]:
        rows: Collection[Row] = self._connection.idl.tables[table].rows.values()
        return rows


def open_database(
    remote: str,
    schema: str,
    columns: Mapping[str, Sequence[str]],
    *,
    tls: TlsFiles | None = None,
    lock: str = "",
) -> connection.Connection:
    """Return a connection with a replica of `columns`, by table. It connects at its first use.

    Args:
        remote: Addresses as OVN's own programs take them, such as `tcp:10.0.0.1:6641,tcp:10.0.0.2:6641`.
        tls: For servers with `ssl:`. They are the same for all connections of a process.
        lock: The name of a database lock that every transaction needs.

    Raises:
        DatabaseUnavailable: The server does not answer.
    """
    if tls is not None:
        tls.context()  # the library's own errors name no file
        Stream.ssl_set_private_key_file(str(tls.private_key))
        Stream.ssl_set_certificate_file(str(tls.certificate))
        Stream.ssl_set_ca_cert_file(str(tls.ca_certificate))
    try:
        helper = idlutils.get_schema_helper(remote.split(",")[0], schema)
    except Exception as error:  # the library raises plain exceptions here
        raise DatabaseUnavailable(f"{remote} does not answer: {error}") from error
    for table, names in columns.items():
        helper.register_columns(table, [*names])
    idl = connection.OvsdbIdl(remote, helper, leader_only=True, probe_interval=PROBE_MILLISECONDS)
    if lock:
        idl.set_lock(lock)
    return connection.Connection(idl, timeout=TIMEOUT_SECONDS)


class _Write(command.BaseCommand):  # type: ignore[misc] # the library has no types
    """Writes the differences. The library repeats it when another client wrote at the same time."""

    def __init__(
        self,
        api: OvnNbApiIdlImpl,
        desired: Northbound,
        since: Northbound,
        options: Mapping[str, str],
        is_counted: bool,
    ) -> None:
        super().__init__(api)
        self._desired = desired
        self._since = since
        self._options = options
        self._is_counted = is_counted
        self.changes = NorthboundChanges()

    def run_idl(self, txn: Transaction) -> None:
        present = _PresentRows(self.api.tables, self._desired)
        rows = present.rows
        unchanged = {key for key, columns in self._desired.items() if self._since.get(key) == columns}
        if not unchanged <= rows.keys():  # a row is gone: the row that contained it must be written again, too
            unchanged = set()
        compared = {key: columns for key, columns in self._desired.items() if key not in unchanged}
        self.changes = changes = diff(present.values(rows.keys() - unchanged), compared)
        rows.update({key: txn.insert(self.api.tables[key.table]) for key in changes.created})
        for key, columns in changes.created.items():
            for column, value in columns.items():
                setattr(rows[key], column, _stored(value, rows))
        for key, columns in changes.updated.items():
            for column, value in columns.items():
                _update(rows, key, column, value)
        for table, row in (*((key.table, rows[key]) for key in changes.deleted), *present.surplus):
            self._delete(table, row)
        for row in self.api.tables[GLOBAL].rows.values():
            for name, value in self._options.items() - row.options.items():
                row.setkey("options", name, value)
            row.nb_cfg += self._is_counted

    def _delete(self, table: str, row: Row) -> None:
        """Delete a row. OVN deletes a contained row with its container, if the row refers to no deleted row."""
        if self.api.tables[table].is_root:
            row.delete()
            return
        for column in COLUMNS[table]:
            if (table, column) in REFERENCES:
                setattr(row, column, [])


class _PresentRows:
    """The rows of the projection that the database has. `surplus` are rows whose key another row has too."""

    def __init__(self, tables: Mapping[str, Any], desired: Northbound) -> None:
        self.rows: dict[RowKey, Row] = {}
        self.surplus: list[tuple[str, Row]] = []
        self._keys: dict[uuid.UUID, RowKey] = {}
        for table in COLUMNS:
            for row in tables[table].rows.values():
                key = _key_of(table, row, desired)
                if key is None:
                    continue
                if key in self.rows:
                    self.surplus.append((table, row))
                else:
                    self.rows[key] = row
                    self._keys[row.uuid] = key

    def values(self, keys: Iterable[RowKey]) -> Northbound:
        return {key: dict(self._columns(key, self.rows[key])) for key in keys}

    def _columns(self, key: RowKey, row: Row) -> Iterator[tuple[str, Value]]:
        for column in COLUMNS[key.table]:
            value = getattr(row, column)
            if (key.table, column) in SHARED:
                value = _ours(value)
            if (key.table, column) in REFERENCES:
                yield column, frozenset(self._reference(key.table, column, one) for one in value)
            else:
                yield column, frozenset(value) if isinstance(value, list) else value
        yield "external_ids", {name: value for name, value in row.external_ids.items() if name.startswith(PREFIX)}

    def _reference(self, table: str, column: str, row: Row) -> RowKey:
        """Return the key of a row; one that is not the projection's has a key that no desired row has."""
        return self._keys.get(row.uuid) or RowKey(REFERENCES[table, column], str(row.uuid))


def _key_of(table: str, row: Row, desired: Northbound) -> RowKey | None:
    """Return the key of a row of the projection, by its mark or else its name; None for rows of other clients."""
    mark = row.external_ids.get(ID)
    if table not in NAMED_TABLES:
        return RowKey(table, mark) if mark else None
    key = RowKey(table, row.name)
    return key if mark or key in desired else None


def _ours(rows: Iterable[Row]) -> list[Row]:
    """Return the rows that have the projection's mark."""
    return [row for row in rows if ID in row.external_ids]


def _stored(value: Value, rows: Mapping[RowKey, Row]) -> Any:
    """Return a value in the form that the library takes."""
    if not isinstance(value, frozenset):
        return value
    return [rows[one] if isinstance(one, RowKey) else one for one in value]


def _update(rows: Mapping[RowKey, Row], key: RowKey, column: str, value: Value) -> None:
    """Write a value: of external ids the projection's keys, of references the additions and removals."""
    row = rows[key]
    if column == "external_ids" and isinstance(value, Mapping):
        for name, text in value.items():
            row.setkey(column, name, text)
    elif (key.table, column) in REFERENCES:
        held = getattr(row, column)
        children = _ours(held) if (key.table, column) in SHARED else held
        present, wanted = ({child.uuid for child in some} for some in (children, _stored(value, rows)))
        for child in wanted - present:
            row.addvalue(column, child)
        for child in present - wanted:
            row.delvalue(column, child)
    else:
        setattr(row, column, _stored(value, rows))
