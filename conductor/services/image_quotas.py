"""How many images a project may have and how large they may be together, in the terms of Glance's unified limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from conductor.cells.lookup import API_ALIAS
from conductor.core.errors import QuotaExceeded
from conductor.identity.models import Limit, RegisteredLimit
from conductor.image.operations import usage
from conductor.transactions import one_at_a_time

UNLIMITED = -1
COUNT, SIZE, STAGE, UPLOADING = "image_count_total", "image_size_total", "image_stage_total", "image_count_uploading"
# Sizes in MiB. The limits of a cloud are registered limits of these names, those of a project its limits.
DEFAULTS: Mapping[str, int] = {COUNT: 100, SIZE: 512_000, STAGE: 512_000, UPLOADING: 20}
MIB = 1 << 20


def limits(project_id: str) -> dict[str, int]:
    """Every limit of a project by resource; -1 is none."""
    registered = RegisteredLimit.objects.filter(resource_name__in=DEFAULTS)
    own = Limit.objects.filter(project_id=project_id, registered__resource_name__in=DEFAULTS)
    return {
        **DEFAULTS,
        **dict(registered.values_list("resource_name", "default_limit")),
        **dict(own.values_list("registered__resource_name", "resource_limit")),
    }


def require_count(project_id: str) -> None:
    """In the write transaction that adds an image. Raises QuotaExceeded when the project may have no more images."""
    one_at_a_time(API_ALIAS, f"images of project:{project_id}")
    _require(limits(project_id), usage(project_id), COUNT)
    _require(limits(project_id), usage(project_id), SIZE, wanted=0)


def require_upload(project_id: str) -> None:
    """Raises QuotaExceeded when the project may not begin another upload now."""
    _require(limits(project_id), usage(project_id), UPLOADING)


def bounded(project_id: str, chunks: Iterable[bytes], *, is_staged: bool = False) -> Iterator[bytes]:
    """The chunks, as long as they fit into what the project may keep. Raises QuotaExceeded at the first that does not.

    What is left is looked at before the first and after the last chunk: uploads run at once.
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
    """Bytes that a project may still keep."""
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
