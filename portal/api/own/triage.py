"""What needs an operator now, over HTTP: the list, putting a line off, and doing what a line advises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.services import triage
from conductor.services.triage import TriageItem
from portal.api.base import ApiRequest
from portal.api.idempotency import idempotent
from portal.api.own import schemas
from portal.api.own.openapi import MISSING, described, next_page
from portal.api.own.queries import PAGES, page_of, refuse_unknown, word_of
from portal.api.own.shapes import Part
from portal.api.own.view import OwnView, plain
from portal.api.pagination import next_links
from portal.api.validation import validate

ITEM = Part("TriageItem", TriageItem)
KNOWN = PAGES | {"snoozed"}
WORDS = ("true", "false")


class Triage(OwnView):
    @described(
        {
            "triage": [ITEM],
            "counts": Mapping[str, int],
            "total": int,
            "snoozed": int,
            "missing_cells": MISSING,
            **next_page("triage"),
        },
        query=KNOWN,
    )
    def get(self, request: ApiRequest) -> Response:
        """What needs an operator, the most harmful first; with `snoozed=true` what is put off instead."""
        self.authorize("novella:triage:list")
        refuse_unknown(request, KNOWN)
        limit, marker = page_of(request)
        is_snoozed = word_of(request, "snoozed", WORDS) == "true"
        found = triage.survey(request.context, is_snoozed=is_snoozed, limit=limit, marker=marker)
        body = {
            "triage": [item_body(one) for one in found.items],
            "counts": {str(level): number for level, number in found.counts.items()},
            "total": found.total,
            "snoozed": found.snoozed,
            "missing_cells": found.missing_cells,
        }
        last = found.items[-1].key if found.items else None
        return Response(body | next_links(request, "triage", last_id=last, has_more=found.has_more))


class Snooze(OwnView):
    @described({"item": ITEM}, body=schemas.TRIAGE_SNOOZE)
    @idempotent
    def post(self, request: ApiRequest) -> Response:
        """Put a line off; it comes back when the time is over or it gets worse."""
        self.authorize("novella:triage:change")
        body = validate(request.data, schemas.TRIAGE_SNOOZE)
        item = triage.snooze(request.context, body["key"], reason=body["reason"], until=_moment(body["until"]))
        return Response({"item": item_body(item)})


class Wake(OwnView):
    @described({"key": str}, body=schemas.TRIAGE_WAKE)
    @idempotent
    def post(self, request: ApiRequest) -> Response:
        """Have a line back at once."""
        self.authorize("novella:triage:change")
        body = validate(request.data, schemas.TRIAGE_WAKE)
        triage.wake(request.context, body["key"])
        return Response({"key": body["key"]})


class Apply(OwnView):
    @described({"done": str}, 202, body=schemas.TRIAGE_APPLY)
    @idempotent
    def post(self, request: ApiRequest) -> Response:
        """Do what a line advises, where a reason is all that it needs."""
        self.authorize("novella:triage:change")
        body = validate(request.data, schemas.TRIAGE_APPLY)
        said = triage.apply(request.context, body["key"], body["action"], reason=body["reason"])
        return Response({"done": said}, status=202)


def item_body(item: TriageItem) -> dict[str, Any]:
    body = plain(asdict(item))
    body["snooze"] = plain(asdict(item.snooze)) if item.snooze else None
    return body


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise Invalid(f"until is not a time such as 2026-01-31T12:00:00Z: {text[:60]}.", field="until") from None
