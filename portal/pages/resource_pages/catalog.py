"""Every kind of resource on the shared pages, and the policies of the APIs that they use."""

from __future__ import annotations

from collections.abc import Mapping

from conductor.core.context import RequestContext
from portal.api import authorization
from portal.api.compute import policies as compute
from portal.api.identity import policies as identity
from portal.api.image import policies as image
from portal.api.network import policies as network
from portal.api.novella import policies as novella
from portal.api.volume import policies as volume
from portal.pages.access import keypairs, projects, security, users
from portal.pages.hosts import aggregates, service_resources
from portal.pages.images import images
from portal.pages.networking import networks, routers
from portal.pages.operations import announcements
from portal.pages.projects import limits
from portal.pages.resource_pages import server_resources
from portal.pages.resources.model import Resource, ResourceAction
from portal.pages.storage import backups, messages, snapshot_schedules, snapshots, volumes

RULES: Mapping[str, authorization.RuleTable] = {
    "compute": compute.RULES,
    "identity": identity.RULES,
    "image": image.RULES,
    "network": network.RULES,
    "novella": novella.RULES,
    "volume": volume.RULES,
}
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
    *security.SECURITY,
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
    return may(caller, action.service or resource.service, action.rule)


def may(caller: RequestContext, service: str, rule: str) -> bool:
    """Whether a policy of an API allows the caller: decides what pages offer; the API itself enforces it."""
    return authorization.is_allowed(RULES[service][rule], caller)
