"""How much a project may have, how much it has, and whether a wish fits."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Count, Sum
from django.db.models.functions import Coalesce

from conductor.api_db.models import InstanceGroup, InstanceMapping, KeyPair, Quota, UserQuota
from conductor.cells.lookup import API_ALIAS
from conductor.core.compute_driver import GuestFile
from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, QuotaExceeded
from conductor.core.request_spec import FlavorSpec
from conductor.identity.models import Project, User
from conductor.services import quota_sources
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
    # Of one request.
    "injected_files": 5,
    "injected_file_content_bytes": 10_240,
    "injected_file_path_bytes": 255,
}


# Rows under this name instead of a project's hold a class of limits; only the class `default` means anything.
CLASS = "class:{}"
LONGEST_CLASS = 58
# Counted for a user, whatever the project.
ALWAYS_PER_USER = "key_pairs"


@dataclass(frozen=True)
class Usage:
    """What a project's instances take, whether built or still asked for."""

    instances: int
    cores: int
    ram: int


def limits(project_id: str) -> dict[str, int]:
    """Every limit of a project by resource."""
    names = (CLASS.format("default"), project_id)
    rows = Quota.objects.filter(project_id__in=names, resource__in=DEFAULTS)
    by_name: dict[str, dict[str, int]] = {name: {} for name in names}
    for name, resource, limit in rows.values_list("project_id", "resource", "limit"):
        by_name[name][resource] = limit
    return quota_sources.tightened(project_id, {**DEFAULTS, **by_name[names[0]], **by_name[project_id]})


def class_limits(name: str) -> dict[str, int]:
    """Every limit of a class: `default` is what projects without limits of their own have."""
    own = Quota.objects.filter(project_id=CLASS.format(name), resource__in=DEFAULTS).values_list("resource", "limit")
    return {**DEFAULTS, **dict(own)}


def update_class(context: RequestContext, name: str, wanted: Mapping[str, int]) -> dict[str, int]:
    """Set limits of a class. Raises Invalid for a name that is too long."""
    if not 1 <= len(name) <= LONGEST_CLASS:
        raise Invalid(f"A quota class has a name of 1 to {LONGEST_CLASS} characters.", field="id")
    with write_tx():
        for resource, limit in wanted.items():
            Quota.objects.update_or_create(project_id=CLASS.format(name), resource=resource, defaults={"limit": limit})
    return class_limits(name)


def usage(project_id: str, user_id: str = "") -> Usage:
    """Counted in the API database from the rows that every instance has, so that no cell has to answer."""
    mine = InstanceMapping.objects.filter(project_id=project_id, is_deleted=False)
    if user_id:
        mine = mine.filter(user_id=user_id)
    taken = mine.aggregate(instances=Count("pk"), cores=Coalesce(Sum("vcpus"), 0), ram=Coalesce(Sum("memory_mb"), 0))
    return Usage(**taken)


def show(context: RequestContext, project_id: str, user_id: str = "") -> list[QuotaView]:
    """Every limit of a project, or of one of its users, with what counts against it."""
    taken = usage(project_id, user_id)
    groups = InstanceGroup.objects.filter(project_id=project_id)
    in_use = {
        "instances": taken.instances,
        "cores": taken.cores,
        "ram": taken.ram,
        "server_groups": (groups.filter(user_id=user_id) if user_id else groups).count(),
    }
    allowed = limits(project_id)
    if user_id:
        allowed |= user_limits(project_id, user_id)
        in_use[ALWAYS_PER_USER] = KeyPair.objects.filter(user_id=user_id).count()
    return [QuotaView(name, limit, in_use.get(name, 0)) for name, limit in allowed.items()]


def require_project(project_id: str) -> None:
    """Raises Invalid for a project that does not exist."""
    if not Project.objects.filter(pk=project_id).exists():
        raise Invalid(f"Project ID {project_id[:64]} is not a valid project.", field="project_id")


def update(
    context: RequestContext, project_id: str, wanted: Mapping[str, int], *, is_forced: bool = False
) -> list[QuotaView]:
    """Set limits of a project.

    Raises Invalid for an unknown project, and for a limit below what is in use or was given to its users.
    """
    require_project(project_id)
    with write_tx():
        one_at_a_time(API_ALIAS, project_name(project_id))
        if not is_forced:
            _require_above_usage(show(context, project_id), wanted)
            _require_above_users(project_id, wanted)
        for resource, limit in wanted.items():
            Quota.objects.update_or_create(project_id=project_id, resource=resource, defaults={"limit": limit})
    return show(context, project_id)


def update_user(
    context: RequestContext, project_id: str, user_id: str, wanted: Mapping[str, int], *, is_forced: bool = False
) -> list[QuotaView]:
    """Set how much of a project's limits one user may take.

    Raises Invalid for an unknown project or user, and, unless forced, for a limit below what the user has in use, or
    above what the project has left for the user.
    """
    require_project(project_id)
    if not User.objects.filter(pk=user_id).exists():
        raise Invalid(f"User ID {user_id[:64]} is not a valid user.", field="user_id")
    with write_tx():
        one_at_a_time(API_ALIAS, project_name(project_id))
        if not is_forced:
            _require_above_usage(show(context, project_id, user_id), wanted)
            _require_within_project(project_id, user_id, wanted)
        for resource, limit in wanted.items():
            UserQuota.objects.update_or_create(
                project_id=project_id, user_id=user_id, resource=resource, defaults={"limit": limit}
            )
    return show(context, project_id, user_id)


def user_limits(project_id: str, user_id: str) -> dict[str, int]:
    """The limits that one user of a project has besides the project's."""
    rows = UserQuota.objects.filter(project_id=project_id, user_id=user_id, resource__in=DEFAULTS)
    return dict(rows.values_list("resource", "limit"))


def reset(context: RequestContext, project_id: str, user_id: str = "") -> None:
    """Give a project the default limits again, and its users the project's; or one user alone."""
    with write_tx():
        users = UserQuota.objects.filter(project_id=project_id)
        if user_id:
            users.filter(user_id=user_id).delete()
            return
        users.delete()
        Quota.objects.filter(project_id=project_id, resource__in=DEFAULTS).delete()


def room_for(project_id: str, flavor: FlavorSpec, *, at_least: int, at_most: int, user_id: str = "") -> int:
    """How many instances of a size fit, `at_most` at most. Raises QuotaExceeded when fewer than `at_least` do.

    Call it in the write transaction that adds the instances, first: then nobody else can take the room meanwhile.
    """
    one_at_a_time(API_ALIAS, project_name(project_id))
    return room_now(project_id, flavor, at_least=at_least, at_most=at_most, user_id=user_id)


def room_now(project_id: str, flavor: FlavorSpec, *, at_least: int, at_most: int, user_id: str = "") -> int:
    """The same at this moment: nobody is kept from taking the room the moment after."""
    fits = _room(limits(project_id), usage(project_id), flavor, at_least=at_least, at_most=at_most)
    own = user_limits(project_id, user_id) if user_id else {}
    if own:
        fits = _room(own, usage(project_id, user_id), flavor, at_least=at_least, at_most=fits)
    return fits


def _room(allowed: Mapping[str, int], taken: Usage, flavor: FlavorSpec, *, at_least: int, at_most: int) -> int:
    per_instance = {"instances": 1, "cores": flavor.vcpus, "ram": flavor.memory_mb}
    fits = at_most
    for resource, amount in per_instance.items():
        if allowed.get(resource, UNLIMITED) != UNLIMITED and amount:
            fits = min(fits, max(0, allowed[resource] - getattr(taken, resource)) // amount)
    if fits < at_least:
        wanted = {resource: amount * at_least for resource, amount in per_instance.items()}
        raise _exceeded(wanted, taken, allowed)
    return fits


def check_files(project_id: str, files: Sequence[GuestFile]) -> None:
    """Raises QuotaExceeded for more files, or longer paths or contents, than a request may bring; as Nova words it.

    Contents count as they are in the guest, not as base64.
    """
    if not files:
        return
    allowed = limits(project_id)
    found = {
        "injected_files": ("limit exceeded", len(files)),
        "injected_file_path_bytes": ("path exceeds maximum {}", max(len(file.path.encode()) for file in files)),
        "injected_file_content_bytes": (
            "content exceeds maximum {}",
            max(len(base64.b64decode(file.contents)) for file in files),
        ),
    }
    for resource, (words, amount) in found.items():
        limit = allowed[resource]
        if limit != UNLIMITED and amount > limit:
            raise QuotaExceeded(f"Personality file {words.format(limit)}")


def project_name(project_id: str) -> str:
    """The name under which what counts against a project's limits is done one at a time."""
    return f"project:{project_id}"


def require_room(project_id: str, resource: str, *, in_use: int, wanted: int = 1) -> None:
    """Raises QuotaExceeded when `wanted` more do not fit.

    In the write transaction that adds them, which has asked for `project_name` before it counted what is in use.
    """
    require_below(limits(project_id), resource, in_use=in_use, wanted=wanted)


def require_below(allowed: Mapping[str, int], resource: str, *, in_use: int, wanted: int = 1) -> None:
    """The same for limits that were read already; one that is not there is none."""
    limit = allowed.get(resource, UNLIMITED)
    if limit != UNLIMITED and in_use + wanted > limit:
        words = resource.replace("_", " ")
        raise QuotaExceeded(
            f"Quota exceeded, too many {words}: {in_use} of {limit} are there, {wanted} more asked for."
        )


def _exceeded(wanted: Mapping[str, int], taken: Usage, allowed: Mapping[str, int]) -> QuotaExceeded:
    over = [
        name
        for name, amount in wanted.items()
        if allowed.get(name, UNLIMITED) != UNLIMITED and getattr(taken, name) + amount > allowed[name]
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


def _require_above_users(project_id: str, wanted: Mapping[str, int]) -> None:
    rows = UserQuota.objects.filter(project_id=project_id, resource__in=list(wanted), limit__gt=0)
    for resource, given in rows.values_list("resource").annotate(Sum("limit")):
        if UNLIMITED < wanted[resource] < given:
            raise Invalid(
                f"Quota limit {wanted[resource]} for {resource} must be greater than or equal to the {given} that "
                "users of the project were given. Use force to set it all the same.",
                field=resource,
            )


def _require_within_project(project_id: str, user_id: str, wanted: Mapping[str, int]) -> None:
    allowed = limits(project_id)
    others = UserQuota.objects.filter(project_id=project_id, limit__gt=0).exclude(user_id=user_id)
    given = dict(others.values_list("resource").annotate(Sum("limit")))
    for resource, limit in wanted.items():
        most = allowed[resource]
        if most == UNLIMITED:
            continue
        left = max(0, most - given.get(resource, 0))
        if limit == UNLIMITED or limit > left:
            raise Invalid(
                f"Quota limit {limit} for {resource} must be less than or equal to {left}: the project has no more "
                "to give. Use force to set it all the same.",
                field=resource,
            )
