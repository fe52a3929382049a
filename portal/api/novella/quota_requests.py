"""Requests for more than the quota, and the operators' answers."""

from __future__ import annotations

from rest_framework.decorators import action
from rest_framework.response import Response

from conductor.services.quotas import requests
from conductor.services.quotas.requests import QuotaRequestView
from portal.api.base import ApiRequest
from portal.api.idempotency import idempotent
from portal.api.novella.bodies import BodySerializer, EmptyBody
from portal.api.novella.data import DataSerializer, envelope, page
from portal.api.novella.fields import CountField, MapField, ReasonField, TextField
from portal.api.novella.filters import ChoiceFilter, FlagFilter, PageFilter
from portal.api.novella.operations import describes
from portal.api.novella.viewset import NovellaViewSet


class QuotaRequestSerializer(DataSerializer):
    """A request for higher limits."""

    class Meta:
        dataclass = QuotaRequestView


class QuotaRequestFilter(PageFilter):
    state = ChoiceFilter(requests.STATES)
    all_projects = FlagFilter()


class QuotaRequestCreate(BodySerializer):
    wanted = MapField(CountField(min_value=1), least=1, most=50, longest_name=64)
    reason = ReasonField()


class QuotaApproval(BodySerializer):
    answer = TextField(required=False, max_length=255)


class QuotaRefusal(BodySerializer):
    answer = ReasonField()


ONE = envelope(quota_request=QuotaRequestSerializer)


class QuotaRequestViewSet(NovellaViewSet):
    lookup_url_kwarg = "request_uuid"

    @describes(page("quota_requests", QuotaRequestSerializer), query=QuotaRequestFilter)
    def list(self, request: ApiRequest) -> Response:
        """List the project's requests, the newest first; `all_projects` is for operators."""
        self.authorize("novella:quota_requests:list")
        query = QuotaRequestFilter.parse(request)
        found = requests.list_of(request.context, of_all=query.pop("all_projects"), **query)
        return self.page("quota_requests", QuotaRequestSerializer, found)

    @describes(ONE, 201, body=QuotaRequestCreate)
    @idempotent
    def create(self, request: ApiRequest) -> Response:
        """Request higher limits for the project; `wanted` names each with its new value."""
        self.authorize("novella:quota_requests:ask")
        body = QuotaRequestCreate.parse(request.data)
        made = requests.ask(request.context, body["wanted"], body["reason"])
        answer = self._one(made, 201)
        answer["Location"] = request.build_absolute_uri(f"/api/quota-requests/{made.uuid}")
        return answer

    @describes(ONE)
    def retrieve(self, request: ApiRequest, request_uuid: str) -> Response:
        """Show one request, with its outcome."""
        self.authorize("novella:quota_requests:list")
        return self._one(requests.get(request.context, request_uuid))

    @describes(ONE, body=QuotaApproval)
    @action(detail=True, methods=["post"])
    @idempotent
    def approve(self, request: ApiRequest, request_uuid: str) -> Response:
        """Set the limits that were requested, all or none."""
        self.authorize("novella:quota_requests:decide")
        body = QuotaApproval.parse(request.data or {})
        return self._one(requests.approve(request.context, request_uuid, body.get("answer", "")))

    @describes(ONE, body=QuotaRefusal)
    @action(detail=True, methods=["post"])
    @idempotent
    def refuse(self, request: ApiRequest, request_uuid: str) -> Response:
        """Refuse a request: the limits stay; `answer` gives the reason."""
        self.authorize("novella:quota_requests:decide")
        body = QuotaRefusal.parse(request.data)
        return self._one(requests.refuse(request.context, request_uuid, body["answer"]))

    @describes(ONE, body=EmptyBody)
    @action(detail=True, methods=["post"])
    @idempotent
    def withdraw(self, request: ApiRequest, request_uuid: str) -> Response:
        """Withdraw a request of one's own."""
        self.authorize("novella:quota_requests:ask")
        EmptyBody.parse(request.data or {})
        return self._one(requests.withdraw(request.context, request_uuid))

    def _one(self, found: QuotaRequestView, status: int = 200) -> Response:
        return Response({"quota_request": self.shown(QuotaRequestSerializer, found)}, status=status)
