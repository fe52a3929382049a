"""Discrepancies of ports: those of deleted guests, and those bound to another host than their guest's."""

from __future__ import annotations

from collections.abc import Iterator

from conductor.cells.lookup import API_ALIAS
from conductor.core.states import VmState
from conductor.db.transactions import write_tx
from conductor.network import ports
from conductor.network.models import Port
from conductor.network.revisions import touch
from conductor.services.operations.reconciliation.api_facts import PortFact
from conductor.services.operations.reconciliation.facts import ReconciliationFacts, instance_resource
from conductor.services.operations.reconciliation.finding import Discrepancy, DiscrepancyKind


def _found(port: PortFact, cell: str, detail: str, data: object) -> Discrepancy:
    return Discrepancy(
        subject=f"port:{port.uuid}",
        detail=detail,
        cell=cell,
        instance_uuid=port.instance_uuid,
        touches=(f"port:{port.uuid}", instance_resource(port.instance_uuid)),
        data=data,
    )


def _of_dead(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    for port in facts.api.ports:
        if facts.is_dead(port.instance_uuid):
            detail = f"Port {port.uuid} is plugged into instance {port.instance_uuid}, which was deleted."
            yield _found(port, "", detail, port)


def _unplug(facts: ReconciliationFacts, found: Discrepancy) -> str:
    port: PortFact = found.data
    with write_tx(API_ALIAS):
        if not Port.objects.filter(uuid=port.uuid, device_id=port.instance_uuid, is_plugged=True).exists():
            return ""
        ports.unplug_one(port.instance_uuid, port.uuid)
    return "It was given back, or removed where it was made for that server alone."


def _of_unknown(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    for port in facts.api.ports:
        if facts.is_unheard_of(port.instance_uuid):
            detail = f"Port {port.uuid} is plugged into {port.instance_uuid}, of which no database has heard."
            yield _found(port, "", detail, None)


def _elsewhere(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    for port in facts.api.ports:
        instance = facts.alive.get(port.instance_uuid)
        if instance is None or port.instance_uuid in facts.moving:
            continue
        if port.host == instance.host and not port.migrating_to:
            continue
        where = " and ".join(host for host in (port.host, port.migrating_to) if host) or "no host"
        home = instance.host or "no host"
        detail = f"Port {port.uuid} is bound to {where}, its instance {instance.uuid} is on {home}."
        yield _found(port, instance.cell, detail, (port, instance.host))


def _bind(facts: ReconciliationFacts, found: Discrepancy) -> str:
    port, host = found.data
    with write_tx(API_ALIAS):
        rows = Port.objects.filter(
            uuid=port.uuid,
            device_id=port.instance_uuid,
            binding_host=port.host,
            migrating_to=port.migrating_to,
            is_plugged=True,
        )
        bound = touch(rows, binding_host=host, migrating_to="", status="ACTIVE" if host else "DOWN")
    return f"It was bound to {host or 'no host'}." if bound else ""


def _not_bound(facts: ReconciliationFacts) -> Iterator[Discrepancy]:
    """Find ports that OVN does not report as up on the hosts of their running servers."""
    for port in facts.api.ports:
        instance = facts.alive.get(port.instance_uuid)
        is_expected = instance is not None and instance.vm_state == VmState.ACTIVE and port.host == instance.host
        if instance is None or not (port.is_down and is_expected) or port.instance_uuid in facts.moving:
            continue
        detail = (
            f"Port {port.uuid} of instance {instance.uuid} is not up on its host {port.host}. Look there whether "
            "ovn-controller runs and what it logs, and whether br-int has the port; a reboot of the server plugs it "
            "in again."
        )
        yield _found(port, instance.cell, detail, None)


KINDS = (
    DiscrepancyKind("port_of_dead_instance", "Port of a deleted server", _of_dead, _unplug),
    DiscrepancyKind("port_of_unknown", "Port of an unknown server", _of_unknown),
    DiscrepancyKind("port_on_wrong_host", "Port bound to the wrong host", _elsewhere, _bind),
    DiscrepancyKind("port_not_bound", "Port whose traffic the network does not carry", _not_bound),
)
