"""Image quotas of projects: number and total size, with the names of Glance's unified limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from conductor.cells.lookup import API_ALIAS
from conductor.core.errors import QuotaExceeded
from conductor.db.transactions import one_at_a_time
from conductor.identity.models import Limit, RegisteredLimit
from conductor.image.operations import usage
from conductor.services.quotas.types import QuotaView

UNLIMITED = -1
COUNT, SIZE, STAGE, UPLOADING = "image_count_total", "image_size_total", "image_stage_total", "image_count_uploading"
# Sizes in MiB. Registered limits of these names are the cloud's defaults. A project's own limits override them.
DEFAULTS: Mapping[str, int] = {COUNT: 100, SIZE: 512_000, STAGE: 512_000, UPLOADING: 20}
MIB = 1 << 20


def limits(project_id: str) -> dict[str, int]:
    """Return all limits of a project by resource; -1 means unlimited."""
    registered = RegisteredLimit.objects.filter(resource_name__in=DEFAULTS)
    own = Limit.objects.filter(project_id=project_id, registered__resource_name__in=DEFAULTS)
    return {
        **DEFAULTS,
        **dict(registered.values_list("resource_name", "default_limit")),
        **dict(own.values_list("registered__resource_name", "resource_limit")),
    }


def show(project_id: str) -> list[QuotaView]:
    """Return all limits of a project with their usage."""
    allowed = limits(project_id)
    return [QuotaView(name, allowed[name], used) for name, used in usage(project_id).items()]


def require_count(project_id: str) -> None:
    """Raise QuotaExceeded if the project can have no more images. Call it in the transaction that adds an image."""
    one_at_a_time(API_ALIAS, f"images of project:{project_id}")
    _require(limits(project_id), usage(project_id), COUNT)
    _require(limits(project_id), usage(project_id), SIZE, wanted=0)


def require_upload(project_id: str) -> None:
    """Raise QuotaExceeded if the project may not start another upload now."""
    _require(limits(project_id), usage(project_id), UPLOADING)


def bounded(project_id: str, chunks: Iterable[bytes], *, is_staged: bool = False) -> Iterator[bytes]:
    """Yield the chunks while they fit into the project's quota. Raises QuotaExceeded at the first chunk beyond it.

    The remaining quota is read before the first and after the last chunk, as uploads run concurrently.
    """
    name = STAGE if is_staged else SIZE
    size, left = 0, 0.0
    for part in chunks:
        if not size:
            left = _left(project_id, name)
        size += len(part)
        if size > left:
            raise _exceeded(name, limits(project_id)[name])
        yield part
    if size > _left(project_id, name):
        raise _exceeded(name, limits(project_id)[name])


def _left(project_id: str, name: str) -> float:
    """Return the bytes that a project may still store."""
    limit = limits(project_id)[name]
    return float("inf") if limit == UNLIMITED else max(0, limit - usage(project_id)[name]) * MIB


def _require(allowed: Mapping[str, int], taken: Mapping[str, int], name: str, wanted: int = 1) -> None:
    limit = allowed[name]
    if limit != UNLIMITED and taken[name] + wanted > limit:
        raise _exceeded(name, limit)


def _exceeded(name: str, limit: int) -> QuotaExceeded:
    return QuotaExceeded(
        f"Quota exceeded for {name}: your project may have {limit}. Delete images that you do not need."
    )
