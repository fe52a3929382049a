"""Security groups of servers: added to and removed from all ports, and recorded as actions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from conductor import events
from conductor.cell_db.models import Instance
from conductor.core.context import RequestContext
from conductor.db.transactions import database_now, write_tx
from conductor.network import guest_groups
from conductor.network.models import SecurityGroup, SecurityGroupRule
from conductor.services.servers.actions import cell_of
from conductor.services.servers.queries import mapping_of, missing
from conductor.services.workflows import immediate_runs
from conductor.services.workflows.immediate_runs import InstantAction

ADD = InstantAction(action="addSecurityGroup", event="api_add_security_group", title="Add a security group")
REMOVE = InstantAction(action="removeSecurityGroup", event="api_remove_security_group", title="Remove a security group")


@dataclass(frozen=True)
class RuleOfGroup:
    """An ingress rule of a group. Without a remote group it applies to `cidr`; protocol and ports None mean any."""

    rule_id: str
    protocol: str | None
    first_port: int | None
    last_port: int | None
    cidr: str
    remote_group: str = ""


@dataclass(frozen=True)
class GroupOfServer:
    """A security group of a server's port."""

    group_id: str
    name: str
    description: str
    project_id: str
    rules: tuple[RuleOfGroup, ...] = ()


def list_of(context: RequestContext, instance_uuid: str) -> list[GroupOfServer]:
    """Return the groups of the server's ports, each once, by name. Raises NotFound."""
    mapping = mapping_of(context, instance_uuid)
    rows = guest_groups.groups_of(str(mapping.instance_uuid))
    return [view_of_group(row) for row in rows]


def add(context: RequestContext, instance_uuid: str, ref: str) -> str:
    """Add a group, by name or id, to the server's ports; returns the uuid of the record.

    Raises NotFound for a group that its project does not have, Conflict for a server without ports.
    """
    mapping = mapping_of(context, instance_uuid)
    alias = cell_of(context, instance_uuid)
    name = guest_groups.add(str(mapping.instance_uuid), mapping.project_id, ref)
    return _record(alias, context, instance_uuid, ADD, lambda names: [*dict.fromkeys([*names, name])])


def remove(context: RequestContext, instance_uuid: str, ref: str) -> str:
    """Remove the group from the server's ports; returns the uuid of the record.

    Raises NotFound where they don't have it.
    """
    mapping = mapping_of(context, instance_uuid)
    alias = cell_of(context, instance_uuid)
    name = guest_groups.remove(str(mapping.instance_uuid), mapping.project_id, ref)
    return _record(alias, context, instance_uuid, REMOVE, lambda names: [one for one in names if one != name])


def _record(
    alias: str,
    context: RequestContext,
    instance_uuid: str,
    action: InstantAction,
    change: Callable[[list[str]], list[str]],
) -> str:
    """Store the server's group names and record the action, after its ports; a repeat completes both."""
    with write_tx(alias):
        rows = Instance.objects.using(alias).alive().filter(uuid=instance_uuid)
        instance = rows.select_for_update().first()
        if instance is None:
            raise missing(instance_uuid)
        rows.update(security_groups=change(list(instance.security_groups)), updated_at=database_now())
        run = immediate_runs.record(alias, context, instance, action)
        events.append(alias, events.about_instance(instance.uuid, instance.project_id, run.uuid), "instance.updated")
    return str(run.uuid)


def view_of_group(row: SecurityGroup) -> GroupOfServer:
    """Return a group with its ingress rules."""
    rules = sorted((rule for rule in row.rules.all() if rule.direction == "ingress"), key=lambda rule: rule.pk)
    return GroupOfServer(str(row.uuid), row.name, row.description, row.project_id, tuple(_rule(rule) for rule in rules))


def _rule(rule: SecurityGroupRule) -> RuleOfGroup:
    everywhere = "0.0.0.0/0" if rule.ethertype == "IPv4" else "::/0"
    return RuleOfGroup(
        rule_id=str(rule.uuid),
        protocol=rule.protocol,
        first_port=rule.port_range_min,
        last_port=rule.port_range_max,
        cidr=rule.remote_ip_prefix or everywhere,
        remote_group=rule.remote_group.name if rule.remote_group else "",
    )
