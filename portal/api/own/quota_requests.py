"""Asking for more than the quota over HTTP: what was asked for, and the operator's answer."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rest_framework.response import Response

from conductor.services import quota_requests
from conductor.services.quota_requests import QuotaRequestView
from portal.api.base import ApiRequest
from portal.api.idempotency import idempotent
from portal.api.own import schemas
from portal.api.own.openapi import described, next_page
from portal.api.own.queries import PAGES, page_of, refuse_unknown, word_of
from portal.api.own.shapes import Part
from portal.api.own.view import OwnView, plain
from portal.api.pagination import next_links
from portal.api.validation import validate

REQUEST = Part("QuotaRequest", QuotaRequestView)
ONE = {"quota_request": REQUEST}
KNOWN = PAGES | {"state", "all_projects"}


class QuotaRequests(OwnView):
    @described({"quota_requests": [REQUEST], **next_page("quota_requests")}, query=KNOWN)
    def get(self, request: ApiRequest) -> Response:
        """The project's, the newest first; `all_projects` is for operators."""
        self.authorize("novella:quota_requests:list")
        refuse_unknown(request, KNOWN)
        limit, marker = page_of(request)
        page = quota_requests.list_of(
            request.context,
            state=word_of(request, "state", quota_requests.STATES),
            of_everybody=word_of(request, "all_projects", ("true", "false")) == "true",
            limit=limit,
            marker=marker,
        )
        body = {"quota_requests": [request_body(one) for one in page.items]}
        last = page.items[-1].uuid if page.items else None
        return Response(body | next_links(request, "quota_requests", last_id=last, has_more=page.has_more))

    @described(ONE, 201, body=schemas.ASK_FOR_QUOTA)
    @idempotent
    def post(self, request: ApiRequest) -> Response:
        """Ask for higher limits of the project; `wanted` names each with what it should be."""
        self.authorize("novella:quota_requests:ask")
        body = validate(request.data, schemas.ASK_FOR_QUOTA)
        made = quota_requests.ask(request.context, body["wanted"], body["reason"])
        location = request.build_absolute_uri(f"/api/quota-requests/{made.uuid}")
        return Response({"quota_request": request_body(made)}, status=201, headers={"Location": location})


class QuotaRequest(OwnView):
    @described(ONE)
    def get(self, request: ApiRequest, request_uuid: str) -> Response:
        """One of them, with what became of it."""
        self.authorize("novella:quota_requests:list")
        return _one(quota_requests.get(request.context, request_uuid))


class Approve(OwnView):
    @described(ONE, body=schemas.APPROVE_QUOTA, is_body_optional=True)
    @idempotent
    def post(self, request: ApiRequest, request_uuid: str) -> Response:
        """Set the limits that were asked for, all or none."""
        self.authorize("novella:quota_requests:decide")
        body = validate(request.data or {}, schemas.APPROVE_QUOTA)
        return _one(quota_requests.approve(request.context, request_uuid, body.get("answer", "")))


class Refuse(OwnView):
    @described(ONE, body=schemas.REFUSE_QUOTA)
    @idempotent
    def post(self, request: ApiRequest, request_uuid: str) -> Response:
        """Leave the limits as they are; `answer` says why."""
        self.authorize("novella:quota_requests:decide")
        body = validate(request.data, schemas.REFUSE_QUOTA)
        return _one(quota_requests.refuse(request.context, request_uuid, body["answer"]))


class Withdraw(OwnView):
    @described(ONE, body=schemas.NOTHING, is_body_optional=True)
    @idempotent
    def post(self, request: ApiRequest, request_uuid: str) -> Response:
        """Take back what oneself has asked for."""
        self.authorize("novella:quota_requests:ask")
        validate(request.data or {}, schemas.NOTHING)
        return _one(quota_requests.withdraw(request.context, request_uuid))


def request_body(view: QuotaRequestView) -> dict[str, Any]:
    return plain(asdict(view))


def _one(view: QuotaRequestView) -> Response:
    return Response({"quota_request": request_body(view)})
