"""Addresses of a server: one more, one less, and reading them anew; each kept on record as the server's."""

from __future__ import annotations

import logging

from django.db import DatabaseError

from conductor import events
from conductor.api_db.models import InstanceMapping
from conductor.cell_db.models import Instance
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict
from conductor.core.identifiers import uuid_or_none
from conductor.core.states import VmState
from conductor.network import guest_addresses, ports
from conductor.services import instant_runs
from conductor.services.instance_queries import mapping_of, missing
from conductor.services.instant_runs import Deed
from conductor.services.server_actions import cell_of
from conductor.transactions import database_now, write_tx

log = logging.getLogger(__name__)

ADD = Deed(action="addFixedIp", event="compute_add_fixed_ip_to_instance", title="Add an address")
REMOVE = Deed(action="removeFixedIp", event="compute_remove_fixed_ip_from_instance", title="Remove an address")
REFRESH = Deed(action="injectNetworkInfo", event="compute_inject_network_info", title="Read the addresses anew")
STATES = (VmState.ACTIVE, VmState.PAUSED, VmState.STOPPED)


def add_fixed(context: RequestContext, instance_uuid: str, network_id: str) -> str:
    """One more address on a network that the server has a port on; the uuid of the record.

    Raises NotFound, Invalid where there is no such port or no address left, Conflict for a server that is locked, under
    work or in another state.
    """
    _guard(context, instance_uuid, ADD)
    guest_addresses.add(str(mapping_of(context, instance_uuid).instance_uuid), network_id)
    return _tell(context, instance_uuid, ADD)


def remove_fixed(context: RequestContext, instance_uuid: str, address: str) -> str:
    """Take an address from the server; the uuid of the record. Raises as `add_fixed`."""
    _guard(context, instance_uuid, REMOVE)
    guest_addresses.remove(str(mapping_of(context, instance_uuid).instance_uuid), address)
    return _tell(context, instance_uuid, REMOVE)


def refresh(context: RequestContext, instance_uuid: str) -> str:
    """Have the server show the addresses that its ports have; the uuid of the record. Raises NotFound, Conflict."""
    return _tell(context, instance_uuid, REFRESH)


def retell(instance_uuid: str) -> None:
    """The ports have changed elsewhere: the server shows what they have. A silent cell is told with the next change."""
    wanted = uuid_or_none(instance_uuid)
    mapping = InstanceMapping.objects.select_related("cell").filter(instance_uuid=wanted).first() if wanted else None
    if mapping is None or mapping.cell is None or mapping.is_deleted:
        return
    alias = mapping.cell.name
    try:
        with write_tx(alias):
            rows = Instance.objects.using(alias).alive().filter(uuid=mapping.instance_uuid)
            if rows.update(addresses=ports.told(str(mapping.instance_uuid)), updated_at=database_now()):
                topic = events.about_instance(mapping.instance_uuid, mapping.project_id)
                events.append(alias, topic, "instance.updated", {"changed": ["addresses"]})
    except DatabaseError:
        log.warning("addresses not told: instance=%s cell=%s", mapping.instance_uuid, alias)


def _guard(context: RequestContext, instance_uuid: str, deed: Deed) -> None:
    alias = cell_of(context, instance_uuid)
    instance = Instance.objects.using(alias).alive().filter(uuid=instance_uuid).first()
    if instance is None:
        raise missing(instance_uuid)
    if instance.is_locked and not context.is_admin:
        raise Conflict(f"Instance {instance.uuid} is locked")
    for what, value, is_allowed in (
        ("vm_state", instance.vm_state, instance.vm_state in STATES),
        ("task_state", instance.task_state, instance.task_state is None),
    ):
        if not is_allowed:
            raise Conflict(f"Cannot '{deed.action}' instance {instance.uuid} while it is in {what} {value}")


def _tell(context: RequestContext, instance_uuid: str, deed: Deed) -> str:
    """What the ports have is true: asking again brings the server's page there after a process died in between."""
    alias = cell_of(context, instance_uuid)
    with write_tx(alias):
        rows = Instance.objects.using(alias).alive().filter(uuid=instance_uuid)
        instance = rows.select_for_update().first()
        if instance is None:
            raise missing(instance_uuid)
        rows.update(addresses=ports.told(str(instance.uuid)), updated_at=database_now())
        run = instant_runs.record(alias, context, instance, deed)
        events.append(alias, events.about_instance(instance.uuid, instance.project_id, run.uuid), "instance.updated")
    return str(run.uuid)
