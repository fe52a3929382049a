"""QoS policies that a caller may see, and the choice of one for a port or network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Q, QuerySet

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden
from conductor.network import filters
from conductor.network.errors import QosPolicyNotFound
from conductor.network.models import QosPolicy


def visible_policies(context: RequestContext) -> QuerySet[QosPolicy]:
    rows = QosPolicy.objects.prefetch_related("limits")
    return rows if context.is_admin else rows.filter(Q(project_id=context.project_id) | Q(is_shared=True))


def get_policy(context: RequestContext, policy_id: str) -> QosPolicy:
    """Return a policy with its rules. Raises QosPolicyNotFound, also for one that the caller may not see."""
    return filters.find_one(
        visible_policies(context), policy_id, QosPolicyNotFound(f"QoS policy {policy_id} could not be found.")
    )


def chosen(context: RequestContext, values: Mapping[str, Any], present: QosPolicy | None = None) -> dict[str, Any]:
    """Return the values of a port or network, with the policy in place of its id under `qos_policy`.

    Raises QosPolicyNotFound; Forbidden if it replaces a policy that an administrator set and the caller may not use.
    """
    if "qos_policy" not in values:
        return dict(values)
    wanted = values["qos_policy"]
    if present is not None and str(present.uuid) != wanted and not _is_usable(context, present):
        raise Forbidden("An administrator has set this QoS policy.", type="PolicyRemoveAuthorizationError")
    return {**values, "qos_policy": get_policy(context, wanted) if wanted else None}


def _is_usable(context: RequestContext, policy: QosPolicy) -> bool:
    return policy.is_shared or context.may_see_project(policy.project_id)
