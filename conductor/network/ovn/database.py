"""Connections to OVN's databases: writing the northbound one, and reading the southbound one.

A connection has threads and a replica of its tables. It reconnects by itself, and does not survive a fork: a process
opens it when it needs it.
"""

from __future__ import annotations

import json
import uuid
from collections import ChainMap, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
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
    CONTESTED,
    ID,
    NAMED_TABLES,
    PREFIX,
    REFERENCES,
    SHARED,
    Columns,
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
MOST_NOTED, NONE_NOTED = 20, "[]"


class NorthboundDatabase:
    """A connection to the northbound database. Only the connection that has the database's lock can write."""

    def __init__(self, remote: str, *, tls: TlsFiles | None = None, options: Mapping[str, str] | None = None) -> None:
        """Open the connection. Each write restores `options` of the whole database. Raises DatabaseUnavailable."""
        self._options = options or {}
        columns = {table: (*names, "external_ids") for table, names in COLUMNS.items()}
        columns[GLOBAL] = ("nb_cfg", "options", "external_ids")
        self._connection = open_database(remote, "OVN_Northbound", columns, tls=tls, lock=LOCK)
        # The library keeps the connection in its class: without a class of its own a second one would use the first.
        own_class = type("NorthboundApi", (OvnNbApiIdlImpl,), {"_ovsdb_connection": None})
        try:
            self._api = own_class(self._connection, auto_index=False)
        except OvsdbConnectionUnavailable as error:
            raise DatabaseUnavailable(f"{remote} does not answer: {error}") from error
        self._present = _PresentRows(self._connection.idl)

    def write(
        self, desired: Northbound, *, is_counted: bool = False, contested: Collection[RowKey] = ()
    ) -> NorthboundChanges:
        """Write the differences to the desired rows in one transaction, and return them.

        Args:
            is_counted: Raise the number of the configuration, also without changes. Northd and the hosts repeat it.
            contested: The rows that others keep changing, which are noted in the database for operators.

        Raises:
            DatabaseUnavailable: The database does not answer, or another connection has the lock. Without a change
                to write this is not noticed.
        """
        write = _Write(self._api, self._present, desired, self._options, is_counted, contested)
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
        self._places: dict[uuid.UUID, tuple[str, str]] = {}  # name and host of each port that OVN knows

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
            rows, known = self._connection.idl.tables["Port_Binding"].rows, self._places
            for row_id in self._connection.idl.take_changed("Port_Binding"):
                if row_id in rows:
                    known[row_id] = _place(rows[row_id])
                else:
                    known.pop(row_id, None)
            if len(known) != len(rows):  # after a reconnection some are gone
                self._places = known = {row_id: _place(row) for row_id, row in rows.items()}
            return {port: host for port, host in known.values() if host}

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
    idl = _Replica(remote, helper, leader_only=True, probe_interval=PROBE_MILLISECONDS)
    if lock:
        idl.set_lock(lock)
    return connection.Connection(idl, timeout=TIMEOUT_SECONDS)


class _Replica(connection.OvsdbIdl):  # type: ignore[misc] # the library has no types
    """A replica that remembers which rows changed: to read a row takes longer than to know that it is the same."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._changed: defaultdict[str, set[uuid.UUID]] = defaultdict(set)

    def notify(self, event: str, row: Row, updates: Row | None = None) -> None:
        self._changed[row._table.name].add(row.uuid)

    def take_changed(self, table: str) -> set[uuid.UUID]:
        """Return the ids of rows that are new, changed or deleted since the last call.

        After a reconnection all rows are among them, but not those that are gone since.
        """
        return self._changed.pop(table, set())


class _Write(command.BaseCommand):  # type: ignore[misc] # the library has no types
    """Writes the differences. The library repeats it when another client wrote at the same time."""

    def __init__(
        self,
        api: OvnNbApiIdlImpl,
        present: _PresentRows,
        desired: Northbound,
        options: Mapping[str, str],
        is_counted: bool,
        contested: Collection[RowKey],
    ) -> None:
        super().__init__(api)
        self._present = present
        self._desired = desired
        self._options = options
        self._is_counted = is_counted
        self._noted = json.dumps([f"{key.table} {key.key}" for key in sorted(contested)[:MOST_NOTED]])
        self.changes = NorthboundChanges()

    def __str__(self) -> str:
        return f"a write of {len(self._desired)} rows"  # for errors of the library, which would name all of them

    __repr__ = __str__

    def run_idl(self, txn: Transaction) -> None:
        present = self._present
        self.changes = changes = present.diff(self._desired)
        created = {key: txn.insert(self.api.tables[key.table]) for key in changes.created}
        rows = ChainMap(created, present.rows)
        for key, columns in changes.created.items():
            for column, value in columns.items():
                setattr(rows[key], column, _stored(value, rows))
        for key, columns in changes.updated.items():
            for column, value in columns.items():
                if (key.table, column) in REFERENCES:
                    self._refer(rows, key, column, value)
                else:
                    _update(rows[key], column, value)
        for table, row in (*((key.table, rows[key]) for key in changes.deleted), *present.surplus):
            self._delete(table, row)
        for row in self.api.tables[GLOBAL].rows.values():
            for name, value in self._options.items() - row.options.items():
                row.setkey("options", name, value)
            if row.external_ids.get(CONTESTED, NONE_NOTED) != self._noted:
                row.setkey("external_ids", CONTESTED, self._noted)
            row.nb_cfg += self._is_counted

    def _refer(self, rows: Mapping[RowKey, Row], key: RowKey, column: str, wanted: Any) -> None:
        """Write only what is added and removed."""
        before: Any = self._present.values[key][column]
        for child in wanted - before:
            rows[key].addvalue(column, rows[child])
        for child in before - wanted:
            rows[key].delvalue(column, self._present.row_of(child))

    def _delete(self, table: str, row: Row) -> None:
        """Delete a row. OVN deletes a contained row with its container, if the row refers to no deleted row."""
        if self.api.tables[table].is_root:
            row.delete()
            return
        for column in COLUMNS[table]:
            if (table, column) in REFERENCES:
                setattr(row, column, [])


class _PresentRows:
    """The rows of the projection that the database has, with their values. `surplus` are rows whose key another
    row has too.

    Values are read once, and again when a row changed.
    """

    def __init__(self, replica: _Replica) -> None:
        self._replica = replica
        self._tables = {table: replica.tables[table] for table in COLUMNS}
        self._read_none()

    def diff(self, desired: Northbound) -> NorthboundChanges:
        """Return the changes from the present rows to the desired ones."""
        if not self._keep_up(desired):
            self._read_all(desired)
        for key in self.rows.keys() - self.values.keys():
            self.values[key] = dict(self._columns(key, self.rows[key]))
        changes = diff(self.values, desired)
        # Of equal values the desired ones are kept: the next comparison only sees that they are the same objects.
        self.values.update(
            (key, columns) for key, columns in desired.items() if key in self.values and key not in changes.updated
        )
        return changes

    def row_of(self, key: RowKey) -> Row:
        """Return a row that a column refers to, also one that is not the projection's."""
        return self.rows.get(key) or self._tables[key.table].rows[uuid.UUID(key.key)]

    def _keep_up(self, desired: Northbound) -> bool:
        """Read the keys of changed rows; False where all must be read, as rows share a key or changed theirs."""
        there: list[tuple[str, Row]] = []
        for table, found in self._tables.items():
            for row_id in self._replica.take_changed(table):
                row = found.rows.get(row_id)
                if row is not None:
                    there.append((table, row))
                elif row_id in self._keys:
                    self._forget(row_id)
        if self.surplus or not self._others.isdisjoint(desired.keys()):
            return False
        for table, row in there:
            key = _key_of(table, row, desired)
            if self._keys.get(row.uuid, key) != key or not self._add(table, row, key):
                return False
        return len(self._keys) == sum(len(table.rows) for table in self._tables.values())

    def _read_all(self, desired: Northbound) -> None:
        self._read_none()
        for table, found in self._tables.items():
            for row in found.rows.values():
                if not self._add(table, row, _key_of(table, row, desired)):
                    self.surplus.append((table, row))

    def _read_none(self) -> None:
        self.rows: dict[RowKey, Row] = {}
        self.surplus: list[tuple[str, Row]] = []
        self.values: dict[RowKey, Columns] = {}
        self._keys: dict[uuid.UUID, RowKey | None] = {}  # of all rows; None for those of others
        self._others: set[RowKey] = set()  # keys that rows of others would have if they were desired

    def _add(self, table: str, row: Row, key: RowKey | None) -> bool:
        """Take over a new or changed row; False where another one has its key."""
        if key is None:
            self._keys[row.uuid] = None
            if table in NAMED_TABLES:
                self._others.add(RowKey(table, row.name))
            return True
        if key in self.rows and self.rows[key].uuid != row.uuid:
            return False
        self._keys[row.uuid] = key
        self.rows[key] = row
        self.values.pop(key, None)
        return True

    def _forget(self, row_id: uuid.UUID) -> None:
        key = self._keys.pop(row_id)
        if key is not None:
            del self.rows[key]
            self.values.pop(key, None)

    def _columns(self, key: RowKey, row: Row) -> Iterator[tuple[str, Value]]:
        for column in COLUMNS[key.table]:
            table = REFERENCES.get((key.table, column))
            if table:
                yield column, frozenset(self._references(row, column, table, (key.table, column) in SHARED))
            else:
                value = getattr(row, column)
                yield column, frozenset(value) if isinstance(value, list) else value
        yield "external_ids", {name: value for name, value in row.external_ids.items() if name.startswith(PREFIX)}

    def _references(self, row: Row, column: str, table: str, is_shared: bool) -> Iterator[RowKey]:
        """Yield the keys of rows that a column refers to; one that is not the projection's has a key of its own.

        The column's ids are read as they are: the library would look up all rows of a group, for each change of it.
        """
        for row_id in row._data[column].as_list():
            key = self._keys.get(row_id)
            if key is not None:
                yield key
            elif not is_shared and row_id in self._tables[table].rows:
                yield RowKey(table, str(row_id))


def _place(binding: Row) -> tuple[str, str]:
    """Return the port of a binding, and the host where it is up; "" for none."""
    return binding.logical_port, binding.chassis[0].name if binding.chassis and binding.up == [True] else ""


def _key_of(table: str, row: Row, desired: Northbound) -> RowKey | None:
    """Return the key of a row of the projection, by its mark or else its name; None for rows of other clients."""
    mark = row.external_ids.get(ID)
    if table not in NAMED_TABLES:
        return RowKey(table, mark) if mark else None
    key = RowKey(table, row.name)
    return key if mark or key in desired else None


def _stored(value: Value, rows: Mapping[RowKey, Row]) -> Any:
    """Return a value in the form that the library takes."""
    if not isinstance(value, frozenset):
        return value
    return [rows[one] if isinstance(one, RowKey) else one for one in value]


def _update(row: Row, column: str, value: Value) -> None:
    """Write a value: of external ids the projection's keys."""
    if column == "external_ids" and isinstance(value, Mapping):
        for name, text in value.items():
            row.setkey(column, name, text)
    else:
        setattr(row, column, [*value] if isinstance(value, frozenset) else value)
