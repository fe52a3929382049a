"""Who holds what, since when, and who waits for it; read-only."""

from __future__ import annotations

from dataclasses import asdict

from rest_framework.response import Response

from conductor.services import locks
from conductor.services.locks import LockQuery, LockView
from portal.api.base import ApiRequest
from portal.api.own.openapi import MISSING, described, next_page
from portal.api.own.queries import PAGES, page_of, refuse_unknown, word_of
from portal.api.own.view import OwnView, plain
from portal.api.pagination import next_links

FILTERS = frozenset({"resource", "kind", "cell", "run_uuid"})


class Locks(OwnView):
    @described({"locks": [LockView], "missing_cells": MISSING, **next_page("locks")}, query=FILTERS | PAGES)
    def get(self, request: ApiRequest) -> Response:
        """By resource; the project's own, an administrator sees all."""
        self.authorize("novella:locks:list")
        refuse_unknown(request, FILTERS | PAGES)
        limit, marker = page_of(request)
        narrowed = {name: word_of(request, name) for name in FILTERS}
        found = locks.list_locks(request.context, LockQuery(limit=limit, marker=marker, **narrowed))
        body = {"locks": [lock_body(one) for one in found.items], "missing_cells": found.missing_cells}
        last = "@".join(found.items[-1].place) if found.items else None
        return Response(body | next_links(request, "locks", last_id=last, has_more=found.has_more))


def lock_body(lock: LockView) -> dict[str, object]:
    return {**plain(asdict(lock)), "waiters": [plain(asdict(waiter)) for waiter in lock.waiters]}
