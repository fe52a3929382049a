"""QoS policies: bandwidth limits for ports. All projects may use a shared policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError
from django.db.models import QuerySet
from django.utils import timezone

from conductor import row_limits
from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden
from conductor.core.identifiers import uuid_or_none
from conductor.db.transactions import savepoint, write_tx
from conductor.network import filters
from conductor.network.errors import OverQuota, QosPolicyInUse, QosRuleNotFound, QosRulesConflict
from conductor.network.filters import NetworkListQuery
from conductor.network.models import Network, Port, QosBandwidthLimit, QosPolicy
from conductor.network.operations import refuse_for_admins, refuse_other_project
from conductor.network.qos_choice import get_policy, visible_policies
from conductor.network.revisions import touch

_FOR_ADMINS = {"is_shared": "share a QoS policy"}


def list_policies(context: RequestContext, query: NetworkListQuery) -> list[QosPolicy]:
    return filters.select(visible_policies(context), query, filters.QOS_POLICIES)


def create_policy(context: RequestContext, wanted: Mapping[str, Any]) -> QosPolicy:
    """Create a policy without rules; `wanted` maps field names to values."""
    refuse_for_admins(context, wanted, _FOR_ADMINS)
    refuse_other_project(context, wanted)
    values = {"project_id": context.project_id, **wanted}
    with write_tx():
        row_limits.require("qos_policies", values["project_id"], type=OverQuota.__name__)
        now = timezone.now()
        policy = QosPolicy.objects.create(**values, created_at=now, updated_at=now)
    return get_policy(context, str(policy.uuid))


def update_policy(context: RequestContext, policy_id: str, changes: Mapping[str, Any]) -> QosPolicy:
    """Update a policy. Raises QosPolicyInUse if other projects use a policy that would no longer be shared."""
    refuse_for_admins(context, changes, _FOR_ADMINS)
    with write_tx():
        policy = _own(context, policy_id)
        is_narrowed = policy.is_shared and changes.get("is_shared") is False
        if is_narrowed and any(rows.exclude(project_id=policy.project_id).exists() for rows in _users(policy)):
            raise QosPolicyInUse(f"QoS policy {policy_id} cannot be unshared: other projects use it.")
        touch(QosPolicy.objects.filter(pk=policy.pk), **changes)
    return get_policy(context, policy_id)


def delete_policy(context: RequestContext, policy_id: str) -> None:
    """Delete a policy with its rules. Raises QosPolicyInUse while a port or network has it."""
    with write_tx():
        policy = _own(context, policy_id)
        if any(rows.exists() for rows in _users(policy)):
            raise QosPolicyInUse(f"QoS policy {policy_id} is used by ports or networks.")
        policy.delete()


def get_limit(context: RequestContext, policy_id: str, rule_id: str) -> QosBandwidthLimit:
    """Return a rule. Raises QosPolicyNotFound, QosRuleNotFound."""
    wanted = uuid_or_none(rule_id)
    for limit in get_policy(context, policy_id).limits.all():
        if limit.uuid == wanted:
            return limit
    raise QosRuleNotFound(f"QoS rule {rule_id} for policy {policy_id} could not be found.")


def create_limit(context: RequestContext, policy_id: str, wanted: Mapping[str, Any]) -> QosBandwidthLimit:
    """Create a rule. Raises QosRulesConflict if the policy already has a rule of this direction."""
    with write_tx():
        policy = _own(context, policy_id)
        limit = QosBandwidthLimit(policy=policy, **wanted)
        _save(limit)
    return limit


def update_limit(
    context: RequestContext, policy_id: str, rule_id: str, changes: Mapping[str, Any]
) -> QosBandwidthLimit:
    """Update a rule. Raises QosRulesConflict as create_limit does."""
    with write_tx():
        _own(context, policy_id)
        limit = get_limit(context, policy_id, rule_id)
        for name, value in changes.items():
            setattr(limit, name, value)
        _save(limit)
    return limit


def delete_limit(context: RequestContext, policy_id: str, rule_id: str) -> None:
    with write_tx():
        policy = _own(context, policy_id)
        get_limit(context, policy_id, rule_id).delete()
        touch(QosPolicy.objects.filter(pk=policy.pk))


def _own(context: RequestContext, policy_id: str) -> QosPolicy:
    policy = get_policy(context, policy_id)
    if not context.may_see_project(policy.project_id):
        raise Forbidden(f"QoS policy {policy_id} belongs to another project.", type="PolicyNotAuthorized")
    return QosPolicy.objects.select_for_update().get(pk=policy.pk)


def _users(policy: QosPolicy) -> tuple[QuerySet[Any], QuerySet[Any]]:
    return Port.objects.filter(qos_policy=policy), Network.objects.filter(qos_policy=policy)


def _save(limit: QosBandwidthLimit) -> None:
    """Write a rule, and raise the revision of its policy."""
    try:
        with savepoint("default"):
            limit.save()
    except IntegrityError:
        raise QosRulesConflict(
            f"Rule bandwidth_limit already exists in policy {limit.policy.uuid} for direction {limit.direction}."
        ) from None
    touch(QosPolicy.objects.filter(pk=limit.policy_id))
