"""Every kind of resource that the portal shows in its shared pages, and the rules of the APIs that they stand on."""

from __future__ import annotations

from collections.abc import Mapping

from conductor.core.context import RequestContext
from portal.api import authorization
from portal.api.compute import policies as compute
from portal.api.identity import policies as identity
from portal.api.image import policies as image
from portal.api.network import policies as network
from portal.api.own import view as own
from portal.api.volume import policies as volume
from portal.pages.resources import (
    access,
    aggregates,
    backups,
    images,
    keys,
    limits,
    networks,
    news,
    people,
    rights,
    routers,
    schedules,
    servers,
    services,
    snapshots,
    volumes,
)
from portal.pages.resources.model import Deed, Resource

RULES: Mapping[str, authorization.RuleTable] = {
    "compute": compute.RULES,
    "identity": identity.RULES,
    "image": image.RULES,
    "network": network.RULES,
    "own": own.RULES,
    "volume": volume.RULES,
}
RESOURCES: tuple[Resource, ...] = (
    images.IMAGES,
    images.FLAVORS,
    access.SERVER_GROUPS,
    volumes.VOLUMES_KIND,
    snapshots.SNAPSHOTS,
    schedules.SCHEDULES,
    backups.BACKUPS,
    *networks.KINDS,
    routers.ROUTERS,
    routers.FLOATING_IPS,
    *access.SECURITY,
    keys.KEY_PAIRS,
    access.CREDENTIALS,
    aggregates.AGGREGATES,
    services.SERVICES,
    rights.PROJECTS,
    people.USERS,
    people.ROLES,
    rights.ASSIGNMENTS,
    limits.PROJECT_QUOTAS,
    news.ANNOUNCEMENTS,
)
# Servers have pages of their own; their forms are the shared ones.
BY_ID: Mapping[str, Resource] = {resource.id: resource for resource in (*RESOURCES, servers.SERVER)}


def may_do(asker: RequestContext, resource: Resource, deed: Deed) -> bool:
    """Whether a deed is offered, and its form shown to who types its address."""
    return may(asker, deed.service or resource.service, deed.rule)


def may(asker: RequestContext, service: str, rule: str) -> bool:
    """Whether a rule of an API lets the asker: decides what is offered; the API itself decides what is done."""
    return authorization.is_allowed(RULES[service][rule], asker)
