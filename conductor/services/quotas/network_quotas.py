"""Network quotas of projects with their usage, as those of the other services."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from conductor.core.context import RequestContext
from conductor.network import quotas
from conductor.network.errors import TenantQuotaNotFound
from conductor.services.quotas.types import QuotaView


def defaults() -> dict[str, int]:
    """Return the limits of projects without their own."""
    return quotas.defaults()


def show(project_id: str) -> list[QuotaView]:
    """Return every limit of a project with its usage."""
    return [QuotaView(name, one.limit, one.used) for name, one in quotas.usages(project_id).items()]


def update(context: RequestContext, project_id: str, wanted: Mapping[str, int], *, is_checked: bool) -> None:
    """Set limits of a project. Raises Forbidden, and, if they are checked, Invalid for a limit below the usage."""
    quotas.set_limits(context, project_id, wanted, is_checked=is_checked)


def reset(project_id: str, resources: Iterable[str] = quotas.RESOURCES) -> None:
    """Reset a project to the default limits. Raises NotFound for a project without its own."""
    if not quotas.reset(project_id, resources):
        raise TenantQuotaNotFound(f"Quota for tenant {project_id} could not be found.")
