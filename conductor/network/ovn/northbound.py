"""Rows of OVN's northbound database as values, and the difference between the present and the desired rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

# The keys of a row's `external_ids` that mark it as the projection's.
PREFIX = "novella:"
NAME, ID, REVISION = PREFIX + "name", PREFIX + "id", PREFIX + "rev"
# The key of the database's own `external_ids` with the rows that others keep changing, as a JSON list.
CONTESTED = PREFIX + "contested"

# Table → the columns that the projection owns, besides its own keys of `external_ids`. It compares and writes no other.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "Logical_Switch": ("name", "ports", "other_config", "dns_records", "qos_rules", "load_balancer"),
    "Logical_Switch_Port": (
        "name", "type", "options", "addresses", "port_security", "enabled", "tag", "dhcpv4_options",
        "dhcpv6_options",
    ),
    "DHCP_Options": ("cidr", "options"),
    "DNS": ("records",),
    "QoS": ("direction", "priority", "match", "bandwidth"),
    "Port_Group": ("name", "ports", "acls"),
    "ACL": ("direction", "priority", "match", "action"),
    "Logical_Router": ("name", "ports", "static_routes", "nat", "enabled", "load_balancer"),
    "Logical_Router_Port": ("name", "mac", "networks", "options", "ipv6_ra_configs", "ha_chassis_group"),
    "Logical_Router_Static_Route": ("ip_prefix", "nexthop", "output_port"),
    "NAT": ("type", "external_ip", "logical_ip"),
    "HA_Chassis_Group": ("name", "ha_chassis"),
    "HA_Chassis": ("chassis_name", "priority"),
    "Load_Balancer": ("name", "vips", "protocol", "options", "selection_fields", "health_check", "ip_port_mappings"),
    "Load_Balancer_Health_Check": ("vip", "options"),
}  # fmt: skip
# Columns whose values refer to rows of this table.
REFERENCES: Mapping[tuple[str, str], str] = {
    ("Logical_Switch", "ports"): "Logical_Switch_Port",
    ("Logical_Switch", "dns_records"): "DNS",
    ("Logical_Switch", "qos_rules"): "QoS",
    ("Logical_Switch_Port", "dhcpv4_options"): "DHCP_Options",
    ("Logical_Switch_Port", "dhcpv6_options"): "DHCP_Options",
    ("Port_Group", "ports"): "Logical_Switch_Port",
    ("Port_Group", "acls"): "ACL",
    ("Logical_Router", "ports"): "Logical_Router_Port",
    ("Logical_Router", "static_routes"): "Logical_Router_Static_Route",
    ("Logical_Router", "nat"): "NAT",
    ("Logical_Router_Port", "ha_chassis_group"): "HA_Chassis_Group",
    ("HA_Chassis_Group", "ha_chassis"): "HA_Chassis",
    ("Logical_Switch", "load_balancer"): "Load_Balancer",
    ("Logical_Router", "load_balancer"): "Load_Balancer",
    ("Load_Balancer", "health_check"): "Load_Balancer_Health_Check",
}
# Columns that may also refer to rows of other clients. These references stay.
SHARED = frozenset({("Logical_Switch", "load_balancer"), ("Logical_Router", "load_balancer")})
# Columns that map text to text, or to numbers. Of these, as of all others, the projection owns the whole value.
MAPS = frozenset({"options", "other_config", "ipv6_ra_configs", "records", "bandwidth", "vips", "ip_port_mappings"})
# Rows of these tables are identified by their names, all others by their external id `novella:id`.
NAMED_TABLES = frozenset(table for table, columns in COLUMNS.items() if "name" in columns)


class RowKey(NamedTuple):
    """A row of the northbound database, by its name or by the id that the projection gave it."""

    table: str
    key: str


Scalar = str | int | bool
# A set column has a frozenset, also where it holds at most one value; a map column has a mapping.
Value = Scalar | frozenset[Scalar] | frozenset[RowKey] | Mapping[str, str] | Mapping[str, int]
Columns = Mapping[str, Value]
Northbound = Mapping[RowKey, Columns]


@dataclass(frozen=True, slots=True)
class NorthboundChanges:
    """Changes to the desired rows. `updated` has the columns that differ, with their new values."""

    created: Northbound = field(default_factory=dict)
    updated: Northbound = field(default_factory=dict)
    deleted: frozenset[RowKey] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.created or self.updated or self.deleted)


def diff(present: Northbound, desired: Northbound) -> NorthboundChanges:
    """Return the changes from `present`, which holds rows of the projection only, to `desired`."""
    updated = {
        key: changed
        for key, columns in desired.items()
        if (before := present.get(key, columns)) is not columns and (changed := _changed(before, columns))
    }
    return NorthboundChanges(
        created={key: columns for key, columns in desired.items() if key not in present},
        updated=updated,
        deleted=frozenset(present.keys() - desired.keys()),
    )


def _changed(present: Columns, desired: Columns) -> Columns:
    return {name: value for name, value in desired.items() if present.get(name) != value}


def changed_by_others(changes: NorthboundChanges, desired: Northbound, last: Northbound) -> frozenset[RowKey]:
    """Return the rows that a full comparison changed though they are desired as at the last write."""
    again = {key for key in (*changes.created, *changes.updated) if last.get(key) == desired[key]}
    return frozenset(again | (changes.deleted - last.keys()))


class NorthboundBuilder:
    """Collects desired rows, and the references between them."""

    def __init__(self) -> None:
        self._rows: dict[RowKey, dict[str, Any]] = {}
        self._children: defaultdict[tuple[RowKey, str], set[RowKey]] = defaultdict(set)

    def add(self, table: str, key: str, *, name: str = "", revision: int = 0, **columns: Value) -> RowKey:
        """Add a row. `name` and `revision` are for people; columns not given are empty.

        Raises KeyError for a column that the projection does not own.
        """
        row_key = RowKey(table, key)
        unknown = columns.keys() - set(COLUMNS[table])
        if unknown:
            raise KeyError(f"{table} has no columns {unknown}")
        values: dict[str, Any] = {column: {} if column in MAPS else frozenset() for column in COLUMNS[table]}
        values.update(columns)
        if table in NAMED_TABLES:
            values["name"] = key
        values["external_ids"] = {ID: key, NAME: name, REVISION: str(revision)}
        self._rows[row_key] = values
        return row_key

    def refer(self, parent: RowKey, column: str, child: RowKey) -> None:
        """Add `child` to a column of `parent`, which may be added later."""
        self._children[parent, column].add(child)

    def include(self, other: NorthboundBuilder) -> None:
        """Add all rows and references of `other`, which stays as it is."""
        self._rows.update(other._rows)
        for place, children in other._children.items():
            self._children[place] |= children

    def build(self) -> Northbound:
        """Return all rows. References from and to rows that were not added are dropped."""
        for (parent, column), children in self._children.items():
            if parent in self._rows:
                self._rows[parent] = {**self._rows[parent], column: frozenset(children & self._rows.keys())}
        return self._rows
