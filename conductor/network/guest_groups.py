"""Adds and removes security groups of all ports of a guest."""

from __future__ import annotations

from conductor.core.errors import Conflict, NotFound
from conductor.db.transactions import write_tx
from conductor.network import security_groups
from conductor.network.models import Port, SecurityGroup
from conductor.network.revisions import touch


def add(instance_uuid: str, project_id: str, ref: str) -> str:
    """Add the group (a name or id) to every port of the guest, and return its name; idempotent.

    Raises NotFound for a group that the project does not have, Conflict for a guest without ports.
    """
    with write_tx():
        ports = _ports(instance_uuid)
        (group,) = security_groups.resolve(project_id, [ref])
        for port in ports:
            if not port.security_groups.filter(pk=group.pk).exists():
                port.security_groups.add(group)
                touch(Port.objects.filter(pk=port.pk))
    return group.name


def remove(instance_uuid: str, project_id: str, ref: str) -> str:
    """Remove the group from every port of the guest, and return its name. Raises NotFound where no port has it."""
    with write_tx():
        ports = _ports(instance_uuid)
        (group,) = security_groups.resolve(project_id, [ref])
        members = [port for port in ports if port.security_groups.filter(pk=group.pk).exists()]
        if not members:
            raise NotFound(f"Security group {ref} is not associated with the instance {instance_uuid}")
        for port in members:
            port.security_groups.remove(group)
            touch(Port.objects.filter(pk=port.pk))
    return group.name


def groups_of(instance_uuid: str) -> list[SecurityGroup]:
    """Return the groups of the guest's ports with their rules, each once, by name."""
    rows = SecurityGroup.objects.filter(ports__device_id=instance_uuid, ports__is_plugged=True).distinct()
    return list(rows.prefetch_related("rules__remote_group").order_by("name", "pk"))


def _ports(instance_uuid: str) -> list[Port]:
    ports = list(Port.objects.filter(device_id=instance_uuid, is_plugged=True).select_for_update())
    if not ports:
        raise Conflict(f"Instance {instance_uuid} has no ports that a security group could be for.")
    return ports
