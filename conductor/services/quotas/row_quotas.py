"""Limits of the row kinds in `conductor.row_limits`: settings and usage of projects and users.

The defaults include those of the network service, which has no request for them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from conductor import row_limits
from conductor.api_db.models import Quota
from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden, Invalid, NotFound
from conductor.core.phrases import phrase
from conductor.db.transactions import write_tx
from conductor.identity.models import Project
from conductor.network import quotas as network_quotas
from conductor.row_limits import DEFAULT_CLASS, LIMITS

OF_PROJECTS = row_limits.OF_PROJECTS  # kinds that may have a limit per project


@dataclass(frozen=True)
class RowQuota:
    """Limit of the rows of a kind per owner (`user`, `project`, `image` or `volume`). -1 is unlimited.

    `in_use` counts the rows of the project, of the caller as a user, or of the project's image or volume with the most.
    """

    limit: int
    default: int
    in_use: int
    owner: str


def defaults() -> dict[str, int]:
    """Return the default limits by kind, for projects without their own; also those of networks, ports and so on."""
    return row_limits.defaults() | network_quotas.defaults()


def limits(project_id: str) -> dict[str, int]:
    """Return the limit of each kind for a project."""
    return row_limits.limits(project_id)


def show(context: RequestContext, project_id: str) -> dict[str, RowQuota]:
    """Return each kind with its limit and usage, for a project and the caller. Raises NotFound."""
    if not context.may_see_project(project_id) or not Project.objects.filter(pk=project_id).exists():
        raise NotFound(phrase("Project %(project)s could not be found.", project=project_id[:64]))
    defaults, allowed = row_limits.defaults(), row_limits.limits(project_id)
    return {
        kind: RowQuota(
            allowed[kind],
            defaults[kind],
            row_limits.in_use(kind, project_id, context.user_id),
            limit.owner.name,
        )
        for kind, limit in LIMITS.items()
    }


def update_defaults(context: RequestContext, wanted: Mapping[str, int]) -> dict[str, int]:
    """Set the default limits. Raises Forbidden, Invalid for an unknown kind."""
    _require_operator(context)
    _require_known(wanted, (*LIMITS, *network_quotas.RESOURCES))
    with write_tx():
        _set(DEFAULT_CLASS, {kind: most for kind, most in wanted.items() if kind in LIMITS})
        network_quotas.set_defaults(context, {kind: most for kind, most in wanted.items() if kind not in LIMITS})
    return defaults()


def update(context: RequestContext, project_id: str, wanted: Mapping[str, int]) -> dict[str, RowQuota]:
    """Set limits of a project; existing rows above them stay.

    Raises Forbidden, NotFound, and Invalid for an unknown kind and for one that counts per user.
    """
    _require_operator(context)
    _require_known(wanted, OF_PROJECTS)
    show(context, project_id)
    _set(project_id, wanted)
    return show(context, project_id)


def reset(context: RequestContext, project_id: str) -> None:
    """Reset a project to the default limits. Raises Forbidden, NotFound."""
    _require_operator(context)
    show(context, project_id)
    with write_tx():
        Quota.objects.filter(project_id=project_id, resource__in=LIMITS).delete()


def _set(name: str, wanted: Mapping[str, int]) -> None:
    with write_tx():
        for resource, limit in wanted.items():
            Quota.objects.update_or_create(project_id=name, resource=resource, defaults={"limit": limit})


def _require_operator(context: RequestContext) -> None:
    if not context.is_admin:
        raise Forbidden("Limits are set by operators.")


def _require_known(wanted: Mapping[str, int], known: Collection[str]) -> None:
    for kind in wanted:
        if kind in LIMITS and kind not in known:
            text = phrase("%(kind)s has no limits of projects: it counts for a user in all projects.", kind=kind)
            raise Invalid(text, field=f"limits.{kind}")
        if kind not in known:
            raise Invalid(
                phrase("There is no limit %(name)s. Use one of %(choices)s.", name=kind[:60], choices=", ".join(known)),
                field=f"limits.{kind[:60]}",
            )
