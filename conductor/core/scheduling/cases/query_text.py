"""Query string of an allocation candidates query, as it is sent over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

from conductor.core.placement.query import CandidateQuery, RequestGroup


def query_text(query: CandidateQuery) -> str:
    pairs = [("limit", str(query.limit))] if query.limit else []
    if query.group_policy:
        pairs.append(("group_policy", query.group_policy))
    root = [*sorted(query.root_required), *(f"!{name}" for name in sorted(query.root_forbidden))]
    if root:
        pairs.append(("root_required", ",".join(root)))
    for suffix, group in query.groups.items():
        pairs += _group(suffix, group)
    return urlencode(sorted(pairs), safe=":,!")


def _group(suffix: str, group: RequestGroup) -> Iterator[tuple[str, str]]:
    yield f"resources{suffix}", ",".join(f"{name}:{amount}" for name, amount in sorted(group.resources.items()))
    plain = [name for names in group.required if len(names) == 1 for name in names]
    wanted = [*sorted(plain), *(f"!{name}" for name in sorted(group.forbidden))]
    if wanted:
        yield f"required{suffix}", ",".join(wanted)
    for names in group.required:
        if len(names) > 1:
            yield f"required{suffix}", "in:" + ",".join(sorted(names))
    for names in group.member_of:
        yield f"member_of{suffix}", "in:" + ",".join(sorted(names))
    if group.forbidden_aggregates:
        yield f"member_of{suffix}", "!in:" + ",".join(sorted(group.forbidden_aggregates))
    if group.in_tree:
        yield f"in_tree{suffix}", group.in_tree
