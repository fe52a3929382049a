"""Server groups: instances to place together or apart."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from django.db.models import QuerySet

from conductor.api_db.models import InstanceGroup, InstanceMapping
from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.db.transactions import one_at_a_time, write_tx
from conductor.services.quotas import quotas
from conductor.services.servers.types import GroupView

POLICIES = ("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity")


def list_groups(
    context: RequestContext, *, all_projects: bool = False, limit: int = 1000, offset: int = 0
) -> list[GroupView]:
    """Return the groups of the caller's project, oldest first; of all projects for an administrator on request."""
    rows = InstanceGroup.objects.prefetch_related("members").order_by("pk")
    if not (all_projects and context.is_admin):
        rows = rows.filter(project_id=context.project_id)
    return _views(list(rows[offset : offset + limit]))


def get(context: RequestContext, group_uuid: str) -> GroupView:
    """Return a group. Raises NotFound, also for another project's group."""
    return _views([_visible(context, group_uuid)])[0]


def create(context: RequestContext, name: str, policy: str, rules: Mapping[str, int]) -> GroupView:
    """Create a group. Raises Invalid for an unknown policy or rule, QuotaExceeded for too many groups."""
    if policy not in POLICIES:
        raise Invalid(f"Policy {policy} is not one of {', '.join(POLICIES)}.", field="server_group.policy")
    if rules and policy != "anti-affinity":
        raise Invalid("Only anti-affinity policy supports rules.", field="server_group.rules")
    with write_tx():
        one_at_a_time(API_ALIAS, quotas.project_name(context.project_id))
        there = InstanceGroup.objects.filter(project_id=context.project_id)
        quotas.check_quota(context.project_id, "server_groups", in_use=there.count())
        own = quotas.user_limits(context.project_id, context.user_id)
        quotas.check_limit(own, "server_groups", in_use=there.filter(user_id=context.user_id).count())
        row = InstanceGroup.objects.create(
            project_id=context.project_id, user_id=context.user_id, name=name, policy=policy, rules=dict(rules)
        )
    return _views([row])[0]


def delete(context: RequestContext, group_uuid: str) -> None:
    """Delete a group; its members stay on their hosts."""
    with write_tx():
        _visible(context, group_uuid).delete()


def _visible(context: RequestContext, group_uuid: str) -> InstanceGroup:
    wanted = uuid_or_none(group_uuid)
    row = InstanceGroup.objects.prefetch_related("members").filter(uuid=wanted).first() if wanted else None
    if row is None or not context.may_see_project(row.project_id):
        raise NotFound(f"Instance group {group_uuid} could not be found.")
    return row


def _views(rows: list[InstanceGroup]) -> list[GroupView]:
    alive = _alive({member.instance_uuid for row in rows for member in row.members.all()})
    return [
        GroupView(
            uuid=str(row.uuid),
            name=row.name,
            project_id=row.project_id,
            user_id=row.user_id,
            policy=row.policy,
            rules=dict(row.rules),
            member_uuids=tuple(
                str(member.instance_uuid)
                for member in sorted(row.members.all(), key=lambda member: member.pk)
                if member.instance_uuid in alive
            ),
        )
        for row in rows
    ]


def _alive(instance_uuids: set[UUID]) -> set[UUID]:
    mappings: QuerySet[InstanceMapping] = InstanceMapping.objects.filter(
        instance_uuid__in=instance_uuids, is_deleted=False
    )
    return set(mappings.values_list("instance_uuid", flat=True))
