"""How much a project may have, how much it has, and whether a wish fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import Count, Sum
from django.db.models.functions import Coalesce

from conductor.api_db.models import InstanceGroup, InstanceMapping, Quota
from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, QuotaExceeded
from conductor.core.request_spec import FlavorSpec
from conductor.identity.models import Project
from conductor.services.values import QuotaView
from conductor.transactions import one_at_a_time, write_tx

UNLIMITED = -1
DEFAULTS: Mapping[str, int] = {
    "instances": 100,
    "cores": 200,
    "ram": 512_000,
    "key_pairs": 100,
    "metadata_items": 128,
    "server_groups": 100,
    "server_group_members": 100,
    # Nothing counts against these here; old clients set them and read them back.
    "fixed_ips": UNLIMITED,
    "floating_ips": UNLIMITED,
    "security_groups": UNLIMITED,
    "security_group_rules": UNLIMITED,
    "injected_files": 0,
    "injected_file_content_bytes": 0,
    "injected_file_path_bytes": 0,
}


@dataclass(frozen=True)
class Usage:
    """What a project's instances take, whether built or still asked for."""

    instances: int
    cores: int
    ram: int


def limits(project_id: str) -> dict[str, int]:
    """Every limit of a project by resource."""
    own = Quota.objects.filter(project_id=project_id, resource__in=DEFAULTS).values_list("resource", "limit")
    return {**DEFAULTS, **dict(own)}


def usage(project_id: str) -> Usage:
    """Counted in the API database from the rows that every instance has, so that no cell has to answer."""
    taken = InstanceMapping.objects.filter(project_id=project_id, is_deleted=False).aggregate(
        instances=Count("pk"), cores=Coalesce(Sum("vcpus"), 0), ram=Coalesce(Sum("memory_mb"), 0)
    )
    return Usage(**taken)


def show(context: RequestContext, project_id: str) -> list[QuotaView]:
    """Every limit of a project with what counts against it."""
    taken = usage(project_id)
    in_use = {
        "instances": taken.instances,
        "cores": taken.cores,
        "ram": taken.ram,
        "server_groups": InstanceGroup.objects.filter(project_id=project_id).count(),
    }
    return [QuotaView(name, limit, in_use.get(name, 0)) for name, limit in limits(project_id).items()]


def update(
    context: RequestContext, project_id: str, wanted: Mapping[str, int], *, is_forced: bool = False
) -> list[QuotaView]:
    """Set limits of a project. Raises Invalid for an unknown project, and for a limit below what is in use."""
    if not Project.objects.filter(pk=project_id).exists():
        raise Invalid(f"Project ID {project_id} is not a valid project.", field="project_id")
    with write_tx():
        one_at_a_time(API_ALIAS, project_name(project_id))
        if not is_forced:
            _require_above_usage(show(context, project_id), wanted)
        for resource, limit in wanted.items():
            Quota.objects.update_or_create(project_id=project_id, resource=resource, defaults={"limit": limit})
    return show(context, project_id)


def reset(context: RequestContext, project_id: str) -> None:
    """Give a project the default limits again."""
    with write_tx():
        Quota.objects.filter(project_id=project_id, resource__in=DEFAULTS).delete()


def room_for(project_id: str, flavor: FlavorSpec, *, at_least: int, at_most: int) -> int:
    """How many instances of a size fit, `at_most` at most. Raises QuotaExceeded when fewer than `at_least` do.

    Call it in the write transaction that adds the instances, first: then nobody else can take the room meanwhile.
    """
    one_at_a_time(API_ALIAS, project_name(project_id))
    return room_now(project_id, flavor, at_least=at_least, at_most=at_most)


def room_now(project_id: str, flavor: FlavorSpec, *, at_least: int, at_most: int) -> int:
    """The same at this moment: nobody is kept from taking the room the moment after."""
    allowed = limits(project_id)
    taken = usage(project_id)
    per_instance = {"instances": 1, "cores": flavor.vcpus, "ram": flavor.memory_mb}
    fits = at_most
    for resource, amount in per_instance.items():
        if allowed[resource] != UNLIMITED and amount:
            fits = min(fits, max(0, allowed[resource] - getattr(taken, resource)) // amount)
    if fits < at_least:
        wanted = {resource: amount * at_least for resource, amount in per_instance.items()}
        raise _exceeded(wanted, taken, allowed)
    return fits


def project_name(project_id: str) -> str:
    """The name under which what counts against a project's limits is done one at a time."""
    return f"project:{project_id}"


def require_room(project_id: str, resource: str, *, in_use: int, wanted: int = 1) -> None:
    """Raises QuotaExceeded when `wanted` more do not fit.

    In the write transaction that adds them, which has asked for `project_name` before it counted what is in use.
    """
    limit = limits(project_id)[resource]
    if limit != UNLIMITED and in_use + wanted > limit:
        words = resource.replace("_", " ")
        raise QuotaExceeded(
            f"Quota exceeded, too many {words}: {in_use} of {limit} are there, {wanted} more asked for."
        )


def _exceeded(wanted: Mapping[str, int], taken: Usage, allowed: Mapping[str, int]) -> QuotaExceeded:
    over = [
        name
        for name, amount in wanted.items()
        if allowed[name] != UNLIMITED and getattr(taken, name) + amount > allowed[name]
    ]
    names = ", ".join(over)
    asked = ", ".join(str(wanted[name]) for name in over)
    used = ", ".join(str(getattr(taken, name)) for name in over)
    most = ", ".join(str(allowed[name]) for name in over)
    return QuotaExceeded(f"Quota exceeded for {names}: Requested {asked}, but already used {used} of {most} {names}")


def _require_above_usage(now: list[QuotaView], wanted: Mapping[str, int]) -> None:
    for quota in now:
        limit = wanted.get(quota.resource, UNLIMITED)
        if limit != UNLIMITED and limit < quota.in_use:
            raise Invalid(
                f"Quota limit {limit} for {quota.resource} must be greater than or equal to already used "
                f"{quota.in_use}. Use force to set it all the same.",
                field=quota.resource,
            )
