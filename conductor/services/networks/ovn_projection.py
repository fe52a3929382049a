"""Writes all networks into OVN's northbound database. One conductor does it for all; requests never wait for it.

The projection looks for changes, and writes the difference in one transaction. A pass now and then repairs rows that
were edited by hand. Two things keep a second writer out: the lease, and the lock of the northbound database, which it
gives to one connection.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from django.conf import settings

from conductor.cells.lookup import API_ALIAS
from conductor.journal import periodic_leases
from conductor.journal.periodic_leases import HeldLease
from conductor.network import balancer_states
from conductor.network.ovn import port_states, topology_rows
from conductor.network.ovn.balancing import CheckedMember, checked_members
from conductor.network.ovn.database import NorthboundDatabase, SouthboundDatabase
from conductor.network.ovn.desired import DesiredRows
from conductor.network.ovn.gateways import gateway_hosts_of
from conductor.network.ovn.northbound import Northbound, RowKey, changed_by_others
from conductor.network.ovn.routing import failover_options
from conductor.network.ovn.topology import GatewayHost
from conductor.network.ovn.topology_rows import TableStates, TopologyReader
from conductor.services.networks import ovn_state
from conductor.services.networks.ovn_state import LEASE

log = logging.getLogger(__name__)

CHECK_SECONDS = 0.5
FULL_PASS_SECONDS = 15.0
# Then all rows of networks are read, also those whose revisions are as before.
READING_SECONDS = 300.0


class OvnProjection:
    """The projection in one process. It has connections and the lease only while it is the one that writes."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._held: _Held | None = None

    def carry_out(self) -> None:
        """Write the changes, if this process has the lease or can take it. After an error it releases the lease."""
        try:
            if self._held is None:
                self._held = _take(self._owner)
            if self._held is not None:
                self._held.carry_out()
        except Exception:
            self.release()
            raise

    def release(self) -> None:
        """Close the connections and release the lease."""
        held, self._held = self._held, None
        if held is not None:
            held.close()


def _take(owner: str) -> _Held | None:
    with ExitStack() as stack:
        lease = stack.enter_context(periodic_leases.hold(API_ALIAS, LEASE, owner, every_seconds=0))
        if lease is None:
            return None
        options = failover_options(settings.NOVELLA_OVN_FAILOVER_MILLISECONDS)
        tls = ovn_state.tls_files()
        northbound = NorthboundDatabase(settings.NOVELLA_OVN_NORTHBOUND, tls=tls, options=options)
        stack.callback(northbound.close)
        southbound = SouthboundDatabase(settings.NOVELLA_OVN_SOUTHBOUND, tls=tls)
        stack.callback(southbound.close)
        return _Held(lease, northbound, southbound, stack.pop_all())


class _Held:
    """The projection while this process has the lease."""

    def __init__(
        self, lease: HeldLease, northbound: NorthboundDatabase, southbound: SouthboundDatabase, stack: ExitStack
    ) -> None:
        self._lease = lease
        self._northbound = northbound
        self._southbound = southbound
        self._stack = stack
        self._reader = TopologyReader()
        self._desired = DesiredRows()
        self._full_pass_at = self._reading_at = 0.0
        self._rows: Northbound = {}
        self._balancers: Mapping[str, int] = {}
        self._changed_by_others: frozenset[RowKey] = frozenset()  # at the last full pass
        self._contested: frozenset[RowKey] = frozenset()  # at the last two
        self._checked: Mapping[str, CheckedMember] = {}
        self._written: object = None
        self._recorded: object = None

    def carry_out(self) -> None:
        version = self._southbound.version
        chassis = self._southbound.chassis()
        gateway_hosts = gateway_hosts_of(chassis)
        is_due, is_reading_due = (time.monotonic() >= due_at for due_at in (self._full_pass_at, self._reading_at))
        states = topology_rows.fingerprint()
        seen = states, gateway_hosts
        is_changed = seen != self._written
        if is_due or is_changed:
            self._lease.require()
            last = self._rows
            if is_changed or is_reading_due:
                self._read(gateway_hosts, {} if is_reading_due else states)
            changes = self._northbound.write(self._rows, is_counted=is_due, contested=self._contested)
            if is_due:
                again = changed_by_others(changes, self._rows, last) if last else frozenset()
                self._contested, self._changed_by_others = again & self._changed_by_others, again
            if changes:
                log.info(
                    "networks written to OVN: created=%s updated=%s deleted=%s",
                    *map(len, (changes.created, changes.updated, changes.deleted)),
                )
            balancer_states.record_written(self._balancers)
            self._written = seen
        if is_due or (seen, version) != self._recorded:
            port_states.record(self._reader.plugged_ports(), chassis.keys(), self._southbound.up_ports())
            balancer_states.record_answers(self._checked, self._southbound.answers())
            self._recorded = seen, version
        if is_due:
            self._lease.record_done()
            self._full_pass_at = time.monotonic() + FULL_PASS_SECONDS

    def _read(self, gateway_hosts: Sequence[GatewayHost], states: TableStates) -> None:
        """Read the topology, without tables whose states are as before; with no states, everything."""
        if not states:
            self._reading_at = time.monotonic() + READING_SECONDS
        topology = self._reader.read(gateway_hosts, states)
        self._rows = self._desired.of(topology)
        self._balancers = {one.uuid: one.revision for one in topology.load_balancers}
        self._checked = checked_members(topology)

    def close(self) -> None:
        self._stack.close()
