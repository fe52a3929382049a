"""Subscriptions to notifications over HTTP: who is told of what, by which way, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rest_framework.response import Response

from conductor.services.notifications import deliveries, subscriptions
from conductor.services.notifications.deliveries import DeliveryView
from conductor.services.notifications.subscriptions import Made, SubscriptionView, Wish
from portal.api.base import ApiRequest
from portal.api.idempotency import idempotent
from portal.api.own import schemas
from portal.api.own.conditions import seen_revision
from portal.api.own.openapi import MISSING, described, next_page
from portal.api.own.queries import PAGES, page_of, refuse_unknown, word_of
from portal.api.own.shapes import Part
from portal.api.own.view import OwnView, plain
from portal.api.pagination import next_links
from portal.api.validation import validate

NAMES = {"is_cloud_wide": "cloud_wide", "is_enabled": "enabled"}  # of the service → of the body, where they differ
SUBSCRIPTION = Part("Subscription", SubscriptionView, dict.fromkeys(NAMES.values(), bool), without=tuple(NAMES))
DELIVERY = Part("Delivery", DeliveryView)
WITH_SECRET = {"subscription": SUBSCRIPTION, "secret": str}
YES_NO = {"all_people": {"type": "string", "enum": ["true", "false"]}}


class Subscriptions(OwnView):
    @described({"subscriptions": [SUBSCRIPTION]}, query=YES_NO)
    def get(self, request: ApiRequest) -> Response:
        """The asker's own in the project, by name; `all_people` is for operators."""
        self.authorize("novella:subscriptions:list")
        refuse_unknown(request, set(YES_NO))
        of_everybody = word_of(request, "all_people", ("true", "false")) == "true"
        found = subscriptions.list_of(request.context, of_everybody=of_everybody)
        return Response({"subscriptions": [subscription_body(one) for one in found]})

    @described(WITH_SECRET, 201, body=schemas.SUBSCRIBE)
    @idempotent
    def post(self, request: ApiRequest) -> Response:
        """Subscribe. `secret` signs what a webhook gets, and is never shown again; nothing else has one."""
        self.authorize("novella:subscriptions:change")
        made = subscriptions.subscribe(request.context, wish_of(validate(request.data, schemas.SUBSCRIBE)))
        answer = _with_secret(made, 201)
        answer["Location"] = request.build_absolute_uri(f"/api/subscriptions/{made.view.uuid}")
        return answer


class Subscription(OwnView):
    @described({"subscription": SUBSCRIPTION})
    def get(self, request: ApiRequest, subscription_uuid: str) -> Response:
        """With the revision as the ETag."""
        self.authorize("novella:subscriptions:list")
        return _one(subscriptions.get(request.context, subscription_uuid))

    @described({"subscription": SUBSCRIPTION}, body=schemas.CHANGE_SUBSCRIPTION, takes_if_match=True)
    def patch(self, request: ApiRequest, subscription_uuid: str) -> Response:
        """Change some fields, all of them or none. Turning it on again begins at that moment."""
        self.authorize("novella:subscriptions:change")
        wish = wish_of(validate(request.data, schemas.CHANGE_SUBSCRIPTION))
        return _one(subscriptions.change(request.context, subscription_uuid, wish, seen_revision(request)))

    @described(None, 204, takes_if_match=True)
    def delete(self, request: ApiRequest, subscription_uuid: str) -> Response:
        """Unsubscribe; `If-Match` may be left out."""
        self.authorize("novella:subscriptions:change")
        subscriptions.unsubscribe(request.context, subscription_uuid, seen_revision(request, is_needed=False))
        return Response(status=204)


class NewSecret(OwnView):
    @described(WITH_SECRET, takes_if_match=True)
    @idempotent
    def post(self, request: ApiRequest, subscription_uuid: str) -> Response:
        """A new key in place of the old one; it is never shown again."""
        self.authorize("novella:subscriptions:change")
        return _with_secret(subscriptions.renew_secret(request.context, subscription_uuid, seen_revision(request)), 200)


class Test(OwnView):
    @described({"delivery": DELIVERY}, 202)
    @idempotent
    def post(self, request: ApiRequest, subscription_uuid: str) -> Response:
        """Have a message of type `subscription.test` sent; the log of deliveries says what became of it."""
        self.authorize("novella:subscriptions:change")
        return _delivery(deliveries.test(request.context, subscription_uuid))


class Deliveries(OwnView):
    @described({"deliveries": [DELIVERY], "missing_cells": MISSING, **next_page("deliveries")}, query=PAGES)
    def get(self, request: ApiRequest, subscription_uuid: str) -> Response:
        """Every attempt, the newest first."""
        self.authorize("novella:subscriptions:list")
        refuse_unknown(request, PAGES)
        limit, marker = page_of(request)
        page = deliveries.list_of(request.context, subscription_uuid, limit, marker)
        body = {"deliveries": [delivery_body(one) for one in page.items], "missing_cells": page.missing_cells}
        last = page.items[-1].id if page.items else None
        return Response(body | next_links(request, "deliveries", last_id=last, has_more=page.has_more))


class SendAgain(OwnView):
    @described({"delivery": DELIVERY}, 202)
    @idempotent
    def post(self, request: ApiRequest, subscription_uuid: str, delivery_id: str) -> Response:
        """Have a message sent once more, under its own id."""
        self.authorize("novella:subscriptions:change")
        return _delivery(deliveries.send_again(request.context, subscription_uuid, delivery_id))


def wish_of(body: Mapping[str, Any]) -> Wish:
    """What a checked body asks for."""
    named = {ours: theirs for theirs, ours in NAMES.items()}
    return Wish(**{named.get(name, name): value for name, value in body.items()})


def subscription_body(view: SubscriptionView) -> dict[str, Any]:
    return {NAMES.get(name, name): value for name, value in plain(asdict(view)).items()}


def delivery_body(view: DeliveryView) -> dict[str, Any]:
    return plain(asdict(view))


def _one(view: SubscriptionView) -> Response:
    return Response({"subscription": subscription_body(view)}, headers={"ETag": f'"{view.revision}"'})


def _with_secret(made: Made, status: int) -> Response:
    answer = _one(made.view)
    answer.status_code = status
    answer.data["secret"] = made.secret
    answer["Cache-Control"] = "no-store"
    return answer


def _delivery(view: DeliveryView) -> Response:
    return Response({"delivery": delivery_body(view)}, status=202)
