"""Monthly budgets of projects."""

from __future__ import annotations

from decimal import Decimal

from rest_framework.response import Response

from conductor.services.billing import budgets
from conductor.services.billing.budgets import DEFAULT_THRESHOLDS, HIGHEST_THRESHOLD, MOST_THRESHOLDS, BudgetView
from portal.api.base import ApiRequest
from portal.api.novella.bodies import BodySerializer
from portal.api.novella.conditions import seen_revision
from portal.api.novella.data import DataSerializer, envelope, page
from portal.api.novella.fields import IntegerField, ListField, TextField
from portal.api.novella.filters import ChoiceFilter, PageFilter
from portal.api.novella.operations import describes
from portal.api.novella.viewset import NovellaViewSet, quoted


class BudgetSerializer(DataSerializer):
    """A project's monthly budget, and the amount spent."""

    class Meta:
        dataclass = BudgetView


class BudgetFilter(PageFilter):
    state = ChoiceFilter(budgets.STATES)


class BudgetBody(BodySerializer):
    amount = TextField(pattern=r"\A\d{1,12}(\.\d{1,2})?\Z", message='It must be an amount as text, such as "500.00".')
    thresholds = ListField(
        IntegerField(min_value=1, max_value=HIGHEST_THRESHOLD), required=False, max_length=MOST_THRESHOLDS
    )


ONE = envelope(budget=BudgetSerializer)


class BudgetViewSet(NovellaViewSet):
    lookup_url_kwarg = "project_id"

    @describes(page("budgets", BudgetSerializer), query=BudgetFilter)
    def list(self, request: ApiRequest) -> Response:
        """List the budgets of all projects, by name; `state` is `spent`, `will_be_spent` or `within`."""
        self.authorize("novella:budgets:list")
        found = budgets.list_of(request.context, **BudgetFilter.parse(request))
        return self.page("budgets", BudgetSerializer, found, key="project_id")

    @describes(ONE)
    def retrieve(self, request: ApiRequest, project_id: str) -> Response:
        """Show a budget with the amount spent this month; `ETag` is the revision."""
        self.authorize("novella:budgets:show")
        return self._one(budgets.get(request.context, project_id))

    @describes(ONE, body=BudgetBody, takes_if_match=True)
    def update(self, request: ApiRequest, project_id: str) -> Response:
        """Set a budget; `If-Match: "0"` creates one. It warns at its thresholds and stops nothing."""
        self.authorize("novella:budgets:change")
        body = BudgetBody.parse(request.data)
        thresholds = body.get("thresholds", DEFAULT_THRESHOLDS)
        revision = seen_revision(request)
        return self._one(budgets.put(request.context, project_id, Decimal(body["amount"]), thresholds, revision))

    @describes(None, 204, takes_if_match=True)
    def destroy(self, request: ApiRequest, project_id: str) -> Response:
        """Remove a budget; `If-Match` may be left out."""
        self.authorize("novella:budgets:change")
        budgets.remove(request.context, project_id, seen_revision(request, is_needed=False))
        return Response(status=204)

    def _one(self, budget: BudgetView) -> Response:
        return Response({"budget": self.shown(BudgetSerializer, budget)}, headers=quoted(budget.revision))
