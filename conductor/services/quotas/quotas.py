"""Compute quotas: limits of projects and users, usage, and checks whether a request fits."""

from __future__ import annotations

import base64
import functools
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Sum
from django.db.models.functions import Coalesce

from conductor.api_db.models import InstanceGroup, KeyPair, Quota, UsageEntry, UserQuota
from conductor.cells.lookup import API_ALIAS
from conductor.core.compute_driver import GuestFile
from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, QuotaExceeded
from conductor.core.extensions import QuotaSource
from conductor.core.messages import message
from conductor.core.request_spec import FlavorSpec
from conductor.db.ledgers import MOST_ENTRIES, compact
from conductor.db.transactions import one_at_a_time, write_tx
from conductor.identity.models import Project, User
from conductor.scheduler.active_plugins import ExtensionFailed, InUse, in_use
from conductor.services.quotas.types import QuotaView

UNLIMITED = -1
DEFAULTS: Mapping[str, int] = {
    "instances": 100,
    "cores": 200,
    "ram": 512_000,
    "key_pairs": 100,
    "metadata_items": 128,
    "server_groups": 100,
    "server_group_members": 100,
    # Not counted here; old clients set and read them.
    "fixed_ips": UNLIMITED,
    "floating_ips": UNLIMITED,
    "security_groups": UNLIMITED,
    "security_group_rules": UNLIMITED,
    # Limits per request.
    "injected_files": 5,
    "injected_file_content_bytes": 10_240,
    "injected_file_path_bytes": 255,
}


# Rows with this name instead of a project's hold a quota class; only the class `default` has an effect.
CLASS = "class:{}"
LONGEST_CLASS = 58
IN_LEDGER = ("instances", "cores", "ram")
# Counted per user, across projects.
ALWAYS_PER_USER = "key_pairs"


@dataclass(frozen=True)
class Usage:
    """Usage of a project's instances, built or requested."""

    instances: int
    cores: int
    ram: int


def limits(project_id: str) -> dict[str, int]:
    """Return every limit of a project by resource."""
    names = (CLASS.format("default"), project_id)
    rows = Quota.objects.filter(project_id__in=names, resource__in=DEFAULTS)
    by_name: dict[str, dict[str, int]] = {name: {} for name in names}
    for name, resource, limit in rows.values_list("project_id", "resource", "limit"):
        by_name[name][resource] = limit
    return tightened(project_id, {**DEFAULTS, **by_name[names[0]], **by_name[project_id]})


def class_limits(name: str) -> dict[str, int]:
    """Return every limit of a class; `default` applies to projects without limits of their own."""
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
    """Return the usage from the ledger in the API database: no cell has to respond, and no instance is counted."""
    entries = UsageEntry.objects.filter(project_id=project_id)
    mine = entries.filter(user_id=user_id) if user_id else entries
    sums = {resource: Coalesce(Sum(resource), 0) for resource in IN_LEDGER}
    found = mine.aggregate(entries=Count("pk"), **sums)
    if found.pop("entries") > MOST_ENTRIES:
        compact(mine, ("project_id", "user_id"), IN_LEDGER)
    return Usage(**found)


def show(context: RequestContext, project_id: str, user_id: str = "") -> list[QuotaView]:
    """Return every limit of a project, or of one of its users, with its usage."""
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
    """Raise Invalid for a project that does not exist."""
    if not Project.objects.filter(pk=project_id).exists():
        raise Invalid(f"Project ID {project_id[:64]} is not a valid project.", field="project_id")


def update(
    context: RequestContext, project_id: str, wanted: Mapping[str, int], *, is_forced: bool = False
) -> list[QuotaView]:
    """Set limits of a project.

    Raises Invalid for an unknown project, and, unless forced, for a limit below usage or below the sum given to its
    users.
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
    """Set the limits of one user within a project.

    Raises Invalid for an unknown project or user, and, unless forced, for a limit below the user's usage, or above what
    the project has left for the user.
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
    """Return the limits that one user has within a project."""
    rows = UserQuota.objects.filter(project_id=project_id, user_id=user_id, resource__in=DEFAULTS)
    return dict(rows.values_list("resource", "limit"))


def reset(context: RequestContext, project_id: str, user_id: str = "") -> None:
    """Reset a project to the default limits, and its users to the project's. With a user, reset only that user."""
    with write_tx():
        users = UserQuota.objects.filter(project_id=project_id)
        if user_id:
            users.filter(user_id=user_id).delete()
            return
        users.delete()
        Quota.objects.filter(project_id=project_id, resource__in=DEFAULTS).delete()


def check_launch(project_id: str, flavor: FlavorSpec, *, at_least: int, at_most: int, user_id: str = "") -> int:
    """Check the quota of a launch. Return how many servers of a flavor fit, up to `at_most`.

    Call it first in the write transaction that adds the instances, as it serializes requests of the project. Raises
    QuotaExceeded when fewer than `at_least` fit.
    """
    one_at_a_time(API_ALIAS, project_name(project_id))
    return preview_launch(project_id, flavor, at_least=at_least, at_most=at_most, user_id=user_id)


def preview_launch(project_id: str, flavor: FlavorSpec, *, at_least: int, at_most: int, user_id: str = "") -> int:
    """Check the quota as `check_launch` does, without serializing: concurrent requests may use it right after."""
    fits = _fitting(limits(project_id), usage(project_id), flavor, at_least=at_least, at_most=at_most)
    own = user_limits(project_id, user_id) if user_id else {}
    if own:
        fits = _fitting(own, usage(project_id, user_id), flavor, at_least=at_least, at_most=fits)
    return fits


def _fitting(allowed: Mapping[str, int], taken: Usage, flavor: FlavorSpec, *, at_least: int, at_most: int) -> int:
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
    """Raise QuotaExceeded for more files, or longer paths or contents, than a request may have. The message is Nova's.

    Contents count with their size in the guest, not as base64.
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
    """Return the name of the lock that serializes changes of a project's usage."""
    return f"project:{project_id}"


def check_quota(project_id: str, resource: str, *, in_use: int, wanted: int = 1) -> None:
    """Raise QuotaExceeded when `wanted` more do not fit.

    Call it in the write transaction that adds them, after taking the lock `project_name` and counting the usage.
    """
    check_limit(limits(project_id), resource, in_use=in_use, wanted=wanted)


def check_limit(allowed: Mapping[str, int], resource: str, *, in_use: int, wanted: int = 1) -> None:
    """Raise QuotaExceeded for limits that were read already. A missing one is unlimited."""
    limit = allowed.get(resource, UNLIMITED)
    if limit != UNLIMITED and in_use + wanted > limit:
        words = resource.replace("_", " ")
        raise QuotaExceeded(message("quota.too_many", what=words, used=in_use, most=limit, wanted=wanted))


def _exceeded(wanted: Mapping[str, int], taken: Usage, allowed: Mapping[str, int]) -> QuotaExceeded:
    over = [
        name
        for name, amount in wanted.items()
        if allowed.get(name, UNLIMITED) != UNLIMITED and getattr(taken, name) + amount > allowed[name]
    ]
    names = ", ".join(over)
    requested = ", ".join(str(wanted[name]) for name in over)
    used = ", ".join(str(getattr(taken, name)) for name in over)
    most = ", ".join(str(allowed[name]) for name in over)
    return QuotaExceeded(message("quota.exceeded", names=names, wanted=requested, used=used, most=most))


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


KEPT_SECONDS = 60.0
MOST_KEPT = 10_000
_lock = threading.Lock()
_answers: dict[tuple[int, str], tuple[float, Mapping[str, int]]] = {}  # source and project → time, limits


def tightened(project_id: str, stored: Mapping[str, int]) -> dict[str, int]:
    """Return the limits after the reductions of quota sources.

    A failed source counts with its last answer. Without one it does not count.
    """
    limits = dict(stored)
    for one in in_use(QuotaSource.kind):
        for resource, reported in _usage_of(one, project_id, stored).items():
            limits[resource] = _lower(limits[resource], reported)
    return limits


def _usage_of(one: InUse, project_id: str, stored: Mapping[str, int]) -> Mapping[str, int]:
    key, now = (id(one), project_id), time.monotonic()
    at, answer = _answers.get(key, (0.0, {}))
    if at and now - at < KEPT_SECONDS:
        return answer
    with suppress(ExtensionFailed):
        answer = dict(one.ask(project_id, check=functools.partial(_wrong, stored)))
    with _lock:
        if len(_answers) >= MOST_KEPT:
            _answers.clear()
        _answers[key] = now, answer
    return answer


def _wrong(known: Collection[str], answer: Any) -> str:
    if not isinstance(answer, Mapping):
        return f"returned {type(answer).__name__} instead of limits by resource"
    for resource, limit in answer.items():
        if resource not in known:
            return f"returned a limit of {str(resource)[:40]}, which is no resource"
        if type(limit) is not int or limit < UNLIMITED:
            return f"returned a limit of {resource} that is no whole number from -1"
    return ""


def _lower(one: int, other: int) -> int:
    if UNLIMITED in (one, other):
        return max(one, other)
    return min(one, other)
