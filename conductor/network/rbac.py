"""RBAC policies: networks shared with some projects, not with all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError
from django.db.models import QuerySet
from django.utils import timezone

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden
from conductor.db.transactions import write_tx
from conductor.network import filters, quotas
from conductor.network.errors import DuplicateRbacPolicy, RbacPolicyInUse, RbacPolicyNotFound
from conductor.network.filters import NetworkListQuery
from conductor.network.models import Network, RbacPolicy
from conductor.network.operations import ALL_PROJECTS, EXTERNAL, SHARED, own_network
from conductor.network.revisions import touch

ACTIONS = (SHARED, EXTERNAL)


@dataclass(frozen=True, slots=True)
class RbacPolicyCreate:
    """Let `target_project` ("*" for all) do `action` with the network."""

    network_id: str
    action: str
    target_project: str
    project_id: str = ""


def visible_policies(context: RequestContext) -> QuerySet[RbacPolicy]:
    rows = RbacPolicy.objects.select_related("network")
    return rows if context.is_admin else rows.filter(project_id=context.project_id)


def list_policies(context: RequestContext, query: NetworkListQuery) -> list[RbacPolicy]:
    return filters.select(visible_policies(context), query, filters.RBAC_POLICIES)


def get_policy(context: RequestContext, policy_id: str) -> RbacPolicy:
    return filters.find_one(
        visible_policies(context),
        policy_id,
        RbacPolicyNotFound(f"RBAC policy of type network with ID {policy_id} not found"),
    )


def create_policy(context: RequestContext, requested: RbacPolicyCreate) -> RbacPolicy:
    """Create a policy.

    Raises Forbidden for another project's network, for sharing with all and for external ones, DuplicateRbacPolicy.
    """
    _refuse_wide(context, requested.target_project, requested.action)
    try:
        with write_tx():
            network = own_network(context, requested.network_id)
            project_id = requested.project_id or context.project_id
            quotas.require(project_id, "rbac_policy")
            policy = RbacPolicy.objects.create(
                network=network,
                action=requested.action,
                target_project=requested.target_project,
                project_id=project_id,
                updated_at=timezone.now(),
            )
    except IntegrityError:
        raise DuplicateRbacPolicy("An RBAC policy already exists with those values.") from None
    return get_policy(context, str(policy.uuid))


def update_policy(context: RequestContext, policy_id: str, changes: Mapping[str, Any]) -> RbacPolicy:
    """Change the target project. Raises RbacPolicyInUse as delete_policy does."""
    try:
        with write_tx():
            policy = get_policy(context, policy_id)
            target = changes.get("target_project", policy.target_project)
            _refuse_wide(context, target, policy.action)
            if target != policy.target_project:
                _refuse_in_use(policy)
            touch(RbacPolicy.objects.filter(pk=policy.pk), **changes)
    except IntegrityError:
        raise DuplicateRbacPolicy("An RBAC policy already exists with those values.") from None
    return get_policy(context, policy_id)


def delete_policy(context: RequestContext, policy_id: str) -> None:
    """Delete a policy. Raises RbacPolicyInUse while a project that it admits has ports there."""
    with write_tx():
        policy = get_policy(context, policy_id)
        Network.objects.select_for_update().get(pk=policy.network_id)
        _refuse_in_use(policy)
        policy.delete()


def _refuse_wide(context: RequestContext, target: str, action: str) -> None:
    if not context.is_admin and (target == ALL_PROJECTS or action == EXTERNAL):
        raise Forbidden("Only an administrator may share a network with all, or as external.", type="RuleNotAuthorized")


def _refuse_in_use(policy: RbacPolicy) -> None:
    network = policy.network
    if network.is_shared:
        return
    ports = network.ports.exclude(project_id__in=["", network.project_id])
    if policy.target_project != ALL_PROJECTS:
        ports = ports.filter(project_id=policy.target_project)
    if policy.action == SHARED and ports.exists():
        raise RbacPolicyInUse(
            f"RBAC policy on object {network.uuid} cannot be removed because other objects depend on it: ports of "
            "other projects are on the network."
        )
