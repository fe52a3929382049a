"""Security groups and their rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any

from django.db import DEFAULT_DB_ALIAS, IntegrityError, connections
from django.db.models import Q, QuerySet
from django.utils import timezone

from conductor.core.context import RequestContext
from conductor.core.identifiers import uuid_or_none
from conductor.db.rows import Rows
from conductor.db.transactions import write_tx
from conductor.network import filters, quotas
from conductor.network.errors import (
    InvalidInput,
    SecurityGroupCannotRemoveDefault,
    SecurityGroupInUse,
    SecurityGroupNotFound,
    SecurityGroupRuleExists,
    SecurityGroupRuleNotFound,
)
from conductor.network.filters import NetworkListQuery
from conductor.network.models import SecurityGroup, SecurityGroupRule
from conductor.network.operations import refuse_other_project
from conductor.network.ranges import normalized_range
from conductor.network.revisions import touch

DEFAULT_NAME = "default"
ETHERTYPES = ("IPv4", "IPv6")
WITH_PORTS = ("tcp", "udp", "udplite", "sctp", "dccp", "6", "17", "33", "132", "136")
LAST_PORT, LAST_ICMP = 65535, 255
WITH_ICMP = ("icmp", "icmpv6", "ipv6-icmp", "1", "58")
GROUPS = Rows(SecurityGroup, "project_id", "name")


@dataclass(frozen=True, slots=True)
class SecurityGroupRuleCreate:
    """A rule to create; None means any. ICMP has its type and code in the fields of ports."""

    direction: str
    ethertype: str = "IPv4"
    protocol: str | None = None
    port_range_min: int | None = None
    port_range_max: int | None = None
    remote_ip_prefix: str | None = None
    remote_group_id: str | None = None
    description: str = ""
    group_id: str = ""


def ensure_default(project_id: str) -> SecurityGroup:
    """Return the project's group `default`, created at its first use."""
    found = GROUPS.find(connections[DEFAULT_DB_ALIAS], project_id, DEFAULT_NAME)
    if found is not None:
        return found
    try:
        with write_tx():
            group = _new_group(project_id, name=DEFAULT_NAME, description="Default security group")
            for ethertype in ETHERTYPES:
                _add_rule(
                    group,
                    SecurityGroupRuleCreate("ingress", ethertype, remote_group_id=str(group.uuid)),
                    remote_group=group,
                )
            return group
    except IntegrityError:
        return SecurityGroup.objects.get(project_id=project_id, name=DEFAULT_NAME)


def list_groups(context: RequestContext, query: NetworkListQuery) -> list[SecurityGroup]:
    """Return groups with their rules, in a constant number of queries."""
    ensure_default(context.project_id)
    return filters.select(_with_rules(_visible(context)), query, filters.SECURITY_GROUPS)


def get_group(context: RequestContext, group_id: str) -> SecurityGroup:
    return filters.find_one(
        _with_rules(_visible(context)), group_id, SecurityGroupNotFound(f"Security group {group_id} does not exist")
    )


def create_group(context: RequestContext, wanted: Mapping[str, Any]) -> SecurityGroup:
    """Create a group that allows all egress and no ingress. `wanted` maps field names to values.

    Raises SecurityGroupInUse for the name `default`.
    """
    values = {"project_id": context.project_id, **wanted}
    refuse_other_project(context, values)
    ensure_default(values["project_id"])
    _refuse_default_name(values["name"])
    with write_tx():
        quotas.require(values["project_id"], "security_group")
        group = _new_group(**values)
    return get_group(context, str(group.uuid))


def update_group(context: RequestContext, group_id: str, changes: Mapping[str, Any]) -> SecurityGroup:
    with write_tx():
        group = get_group(context, group_id)
        if "name" in changes and changes["name"] != group.name:
            _refuse_default_name(changes["name"])
            if group.name == DEFAULT_NAME:
                raise SecurityGroupCannotRemoveDefault("Updating default security group not allowed.")
        touch(SecurityGroup.objects.filter(pk=group.pk), **changes)
    return get_group(context, group_id)


def delete_group(context: RequestContext, group_id: str) -> None:
    """Delete a group. Raises SecurityGroupInUse while ports have it, SecurityGroupCannotRemoveDefault for `default`."""
    with write_tx():
        group = get_group(context, group_id)
        if group.name == DEFAULT_NAME and not context.is_admin:
            raise SecurityGroupCannotRemoveDefault("Insufficient rights for removing default security group.")
        SecurityGroup.objects.select_for_update().get(pk=group.pk)
        if group.ports.exists():
            raise SecurityGroupInUse(f"Security Group {group_id} in use.")
        group.delete()


def list_rules(context: RequestContext, query: NetworkListQuery) -> list[SecurityGroupRule]:
    ensure_default(context.project_id)
    return filters.select(_visible_rules(context), query, filters.SECURITY_GROUP_RULES)


def get_rule(context: RequestContext, rule_id: str) -> SecurityGroupRule:
    return filters.find_one(
        _visible_rules(context), rule_id, SecurityGroupRuleNotFound(f"Security group rule {rule_id} does not exist")
    )


def create_rule(context: RequestContext, requested: SecurityGroupRuleCreate) -> SecurityGroupRule:
    """Create a rule. Raises SecurityGroupRuleExists for an equal one, InvalidInput when its fields contradict."""
    group = get_group(context, requested.group_id)
    remote_group = get_group(context, requested.remote_group_id) if requested.remote_group_id else None
    _check_rule(requested)
    try:
        with write_tx():
            quotas.require(group.project_id, "security_group_rule")
            rule = _add_rule(group, requested, remote_group=remote_group)
            touch(SecurityGroup.objects.filter(pk=group.pk))
    except IntegrityError:
        raise SecurityGroupRuleExists(f"Security group rule already exists in security group {group.uuid}.") from None
    return get_rule(context, str(rule.uuid))


def delete_rule(context: RequestContext, rule_id: str) -> None:
    with write_tx():
        rule = get_rule(context, rule_id)
        touch(SecurityGroup.objects.filter(pk=rule.group_id))
        rule.delete()


def resolve(project_id: str, refs: Iterable[str]) -> list[SecurityGroup]:
    """Return the project's groups by id or name, each once. Raises SecurityGroupNotFound, InvalidInput."""
    default = ensure_default(project_id)
    found: dict[int, SecurityGroup] = {}
    for ref in refs:
        matches = _matching(project_id, ref, default)
        if not matches:
            raise SecurityGroupNotFound(f"Security group {ref} does not exist")
        if len(matches) > 1:
            raise InvalidInput(f"Multiple security groups are named '{ref}'. Use an ID to be more specific.")
        found[matches[0].pk] = matches[0]
    return list(found.values())


def _matching(project_id: str, ref: str, default: SecurityGroup) -> list[SecurityGroup]:
    if ref == DEFAULT_NAME:
        return [default]
    wanted = uuid_or_none(ref)
    named = Q(uuid=wanted) if wanted else Q(name=ref)
    return list(SecurityGroup.objects.filter(named, project_id=project_id)[:2])


def _visible(context: RequestContext) -> QuerySet[SecurityGroup]:
    rows = SecurityGroup.objects.all()
    return rows if context.is_admin else rows.filter(project_id=context.project_id)


def _with_rules(rows: QuerySet[SecurityGroup]) -> QuerySet[SecurityGroup]:
    return rows.prefetch_related("rules__remote_group", "rules__group")


def _visible_rules(context: RequestContext) -> QuerySet[SecurityGroupRule]:
    rows = SecurityGroupRule.objects.select_related("group", "remote_group")
    return rows if context.is_admin else rows.filter(group__project_id=context.project_id)


def _new_group(project_id: str, **values: Any) -> SecurityGroup:
    now = timezone.now()
    group = SecurityGroup.objects.create(project_id=project_id, created_at=now, updated_at=now, **values)
    for ethertype in ETHERTYPES:
        _add_rule(group, SecurityGroupRuleCreate("egress", ethertype))
    return group


def _add_rule(
    group: SecurityGroup, requested: SecurityGroupRuleCreate, *, remote_group: SecurityGroup | None = None
) -> SecurityGroupRule:
    now = timezone.now()
    return SecurityGroupRule.objects.create(
        group=group,
        remote_group=remote_group,
        direction=requested.direction,
        ethertype=requested.ethertype,
        protocol=requested.protocol,
        port_range_min=requested.port_range_min,
        port_range_max=requested.port_range_max,
        remote_ip_prefix=requested.remote_ip_prefix,
        description=requested.description,
        rule_key=_rule_key(requested),
        created_at=now,
        updated_at=now,
    )


def _rule_key(requested: SecurityGroupRuleCreate) -> str:
    parts = (
        requested.direction,
        requested.ethertype,
        requested.protocol,
        requested.port_range_min,
        requested.port_range_max,
    )
    prefix = normalized_range(requested.remote_ip_prefix) if requested.remote_ip_prefix else None
    return "|".join("" if part is None else str(part) for part in (*parts, prefix, requested.remote_group_id))


def _check_rule(requested: SecurityGroupRuleCreate) -> None:
    if requested.remote_ip_prefix and requested.remote_group_id:
        raise InvalidInput("Only remote_ip_prefix or remote_group_id may be provided.")
    if requested.remote_ip_prefix:
        version = ip_network(requested.remote_ip_prefix, strict=False).version
        if f"IPv{version}" != requested.ethertype:
            raise InvalidInput(
                f"Conflicting value ethertype {requested.ethertype} for CIDR {requested.remote_ip_prefix}."
            )
    low, high = requested.port_range_min, requested.port_range_max
    if low is None and high is None:
        return
    if requested.protocol in WITH_ICMP:
        _check_icmp(low, high)
    elif requested.protocol not in WITH_PORTS:
        raise InvalidInput("Must also specify a protocol that has ports if a port range is given.")
    else:
        _check_ports(low, high)


def _check_ports(low: int | None, high: int | None) -> None:
    for name, port in (("port_range_min", low), ("port_range_max", high)):
        if port is not None and not 1 <= port <= LAST_PORT:
            raise InvalidInput(f"Invalid value for port {port} in {name}: ports are 1 to {LAST_PORT}.")
    if low is None or high is None or low > high:
        raise InvalidInput("For TCP/UDP protocols, port_range_min must be <= port_range_max")


def _check_icmp(kind: int | None, code: int | None) -> None:
    if kind is None:
        raise InvalidInput("ICMP code (port-range-max) is provided but ICMP type (port-range-min) is missing.")
    for value, name, field in ((kind, "type", "port_range_min"), (code, "code", "port_range_max")):
        if value is not None and not 0 <= value <= LAST_ICMP:
            raise InvalidInput(f"Invalid value for ICMP {name} ({field}) {value}: it is 0 to {LAST_ICMP}.")


def _refuse_default_name(name: str) -> None:
    if name == DEFAULT_NAME:
        raise SecurityGroupInUse("Default security group already exists.")
