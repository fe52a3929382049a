"""Query parameters of lists: known by name, times and words checked."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

from conductor.core.errors import Invalid
from portal.api.base import ApiRequest
from portal.api.pagination import parse_page

USUAL_LIMIT = 100
PAGES = frozenset({"limit", "marker"})


def refuse_unknown(request: ApiRequest, known: Collection[str]) -> None:
    """Raises Invalid naming a parameter that this list does not have."""
    unknown = sorted(set(request.query_params) - set(known))
    if unknown:
        raise Invalid(f"There is no filter {unknown[0][:60]}; there are {', '.join(sorted(known))}.", field="query")


def page_of(request: ApiRequest) -> tuple[int, str]:
    """Limit and marker; without a limit USUAL_LIMIT, as our lists are of large things."""
    page = parse_page(request)
    return (page.limit if "limit" in request.query_params else USUAL_LIMIT), page.marker


def time_of(request: ApiRequest, name: str) -> datetime | None:
    """A moment; one without a zone is in UTC. Raises Invalid."""
    text = request.query_params.get(name, "")
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise Invalid(f"{name} is not a time such as 2026-01-31T12:00:00Z: {text[:60]}.", field=name) from None


def word_of(request: ApiRequest, name: str, allowed: Collection[str] | None = None, *, longest: int = 255) -> str:
    """One word. Raises Invalid for one that is too long, that no database could look for, or that is not allowed."""
    text = request.query_params.get(name, "")
    _check(text, name, allowed, longest)
    return text


def words_of(request: ApiRequest, name: str, allowed: Collection[str] | None = None) -> tuple[str, ...]:
    """A parameter that may be given several times."""
    texts = request.query_params.getlist(name)
    for text in texts:
        _check(text, name, allowed, 255)
    return tuple(texts)


def _check(text: str, name: str, allowed: Collection[str] | None, longest: int) -> None:
    if len(text) > longest or "\0" in text:
        raise Invalid(f"{name} holds at most {longest} characters, and no NUL among them.", field=name)
    if text and allowed is not None and text not in allowed:
        raise Invalid(f"Unknown {name} {text[:60]}; it is one of {', '.join(allowed)}.", field=name)
