"""Giving a server a security group, and taking it away: its ports' business, kept on record as the server's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from conductor import events
from conductor.cell_db.models import Instance
from conductor.core.context import RequestContext
from conductor.network import guest_groups
from conductor.network.models import SecurityGroup, SecurityGroupRule
from conductor.services import instant_runs
from conductor.services.instance_queries import mapping_of, missing
from conductor.services.instant_runs import Deed
from conductor.services.server_actions import cell_of
from conductor.transactions import database_now, write_tx

ADD = Deed(action="addSecurityGroup", event="api_add_security_group", title="Add a security group")
REMOVE = Deed(action="removeSecurityGroup", event="api_remove_security_group", title="Remove a security group")


@dataclass(frozen=True)
class RuleOfGroup:
    """What a group lets in. Without a remote group it is from `cidr`; protocol and ports None mean any."""

    rule_id: str
    protocol: str | None
    first_port: int | None
    last_port: int | None
    cidr: str
    remote_group: str = ""


@dataclass(frozen=True)
class GroupOfServer:
    """A security group that a port of the server has."""

    group_id: str
    name: str
    description: str
    project_id: str
    rules: tuple[RuleOfGroup, ...] = ()


def list_of(context: RequestContext, instance_uuid: str) -> list[GroupOfServer]:
    """The groups of the server's ports, each once, by name. Raises NotFound."""
    mapping = mapping_of(context, instance_uuid)
    rows = guest_groups.groups_of(str(mapping.instance_uuid))
    return [view_of_group(row) for row in rows]


def add(context: RequestContext, instance_uuid: str, ref: str) -> str:
    """Give the server's ports a group, by name or id; the uuid of the record.

    Raises NotFound for a group that its project has not, Conflict for a server without ports.
    """
    mapping = mapping_of(context, instance_uuid)
    alias = cell_of(context, instance_uuid)
    name = guest_groups.add(str(mapping.instance_uuid), mapping.project_id, ref)
    return _record(alias, context, instance_uuid, ADD, lambda names: [*dict.fromkeys([*names, name])])


def remove(context: RequestContext, instance_uuid: str, ref: str) -> str:
    """Take the group from the server's ports; the uuid of the record. Raises NotFound where they have it not."""
    mapping = mapping_of(context, instance_uuid)
    alias = cell_of(context, instance_uuid)
    name = guest_groups.remove(str(mapping.instance_uuid), mapping.project_id, ref)
    return _record(alias, context, instance_uuid, REMOVE, lambda names: [one for one in names if one != name])


def _record(
    alias: str, context: RequestContext, instance_uuid: str, deed: Deed, change: Callable[[list[str]], list[str]]
) -> str:
    """The names that the server shows; the ports were changed before, and asking again brings both together."""
    with write_tx(alias):
        rows = Instance.objects.using(alias).alive().filter(uuid=instance_uuid)
        instance = rows.select_for_update().first()
        if instance is None:
            raise missing(instance_uuid)
        rows.update(security_groups=change(list(instance.security_groups)), updated_at=database_now())
        run = instant_runs.record(alias, context, instance, deed)
        events.append(alias, events.about_instance(instance.uuid, instance.project_id, run.uuid), "instance.updated")
    return str(run.uuid)


def view_of_group(row: SecurityGroup) -> GroupOfServer:
    """A group with what it lets in."""
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
