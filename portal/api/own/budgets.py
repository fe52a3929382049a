"""Monthly budgets of projects over HTTP."""

from __future__ import annotations

from dataclasses import asdict
from decimal import Decimal

from rest_framework.response import Response

from conductor.services import budgets
from conductor.services.budgets import USUAL_THRESHOLDS, BudgetView
from portal.api.base import ApiRequest
from portal.api.own import schemas
from portal.api.own.conditions import seen_revision
from portal.api.own.openapi import described, next_page
from portal.api.own.queries import PAGES, page_of, refuse_unknown, word_of
from portal.api.own.shapes import Part
from portal.api.own.view import OwnView, plain
from portal.api.pagination import next_links
from portal.api.validation import validate

BUDGET = Part("Budget", BudgetView)
ONE = {"budget": BUDGET}
KNOWN = PAGES | {"state"}


class Budgets(OwnView):
    @described({"budgets": [BUDGET], **next_page("budgets")}, query=KNOWN)
    def get(self, request: ApiRequest) -> Response:
        """Those of all projects, by name; `state` is `spent`, `will_be_spent` or `within`."""
        self.authorize("novella:budgets:list")
        refuse_unknown(request, KNOWN)
        limit, marker = page_of(request)
        state = word_of(request, "state", tuple(budgets.STATES))
        page = budgets.list_of(request.context, state=state, limit=limit, marker=marker)
        body = {"budgets": [plain(asdict(one)) for one in page.items]}
        last = page.items[-1].project_id if page.items else None
        return Response(body | next_links(request, "budgets", last_id=last, has_more=page.has_more))


class Budget(OwnView):
    @described(ONE)
    def get(self, request: ApiRequest, project_id: str) -> Response:
        """The budget with what was spent of it this month; the revision is the ETag."""
        self.authorize("novella:budgets:show")
        return _one(budgets.get(request.context, project_id))

    @described(ONE, body=schemas.SET_BUDGET, takes_if_match=True)
    def put(self, request: ApiRequest, project_id: str) -> Response:
        """Set it; `If-Match: "0"` where there was none. It warns as its thresholds are crossed, and stops nothing."""
        self.authorize("novella:budgets:change")
        body = validate(request.data, schemas.SET_BUDGET)
        thresholds = body.get("thresholds", USUAL_THRESHOLDS)
        seen = seen_revision(request)
        return _one(budgets.put(request.context, project_id, Decimal(body["amount"]), thresholds, seen))

    @described(None, 204, takes_if_match=True)
    def delete(self, request: ApiRequest, project_id: str) -> Response:
        """Remove it; `If-Match` may be left out."""
        self.authorize("novella:budgets:change")
        budgets.remove(request.context, project_id, seen_revision(request, is_needed=False))
        return Response(status=204)


def _one(view: BudgetView) -> Response:
    return Response({"budget": plain(asdict(view))}, headers={"ETag": f'"{view.revision}"'})
