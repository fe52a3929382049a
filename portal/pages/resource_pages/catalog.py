"""Every kind of resource on the shared pages."""

from __future__ import annotations

from collections.abc import Mapping

from conductor.core.context import RequestContext
from portal.pages import policies
from portal.pages.access import keypairs, projects, security, users
from portal.pages.hosts import aggregates, service_resources
from portal.pages.images import images
from portal.pages.networking import load_balancers, networks, routers, security_groups
from portal.pages.operations import announcements
from portal.pages.projects import limits
from portal.pages.resource_pages import server_resources
from portal.pages.resources.model import Resource, ResourceAction
from portal.pages.storage import backups, messages, snapshot_schedules, snapshots, volumes

RESOURCES: tuple[Resource, ...] = (
    images.IMAGES,
    images.FLAVORS,
    security.SERVER_GROUPS,
    volumes.VOLUMES_KIND,
    snapshots.SNAPSHOTS,
    snapshot_schedules.SCHEDULES,
    backups.BACKUPS,
    messages.MESSAGES,
    *networks.KINDS,
    routers.ROUTERS,
    routers.FLOATING_IPS,
    *load_balancers.KINDS,
    *security_groups.SECURITY,
    keypairs.KEY_PAIRS,
    security.CREDENTIALS,
    aggregates.AGGREGATES,
    service_resources.SERVICES,
    projects.PROJECTS,
    users.USERS,
    users.ROLES,
    projects.ASSIGNMENTS,
    limits.PROJECT_QUOTAS,
    announcements.ANNOUNCEMENTS,
)
# Servers have pages of their own, and use the shared forms.
BY_ID: Mapping[str, Resource] = {resource.id: resource for resource in (*RESOURCES, server_resources.SERVER)}


def may_do(caller: RequestContext, resource: Resource, action: ResourceAction) -> bool:
    """Whether to offer an action, and to show its form."""
    return policies.may(caller, action.service or resource.service, action.rule)
