"""Subscriptions to notifications, and the log of their deliveries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.response import Response

from conductor.services.notifications import deliveries, subscriptions
from conductor.services.notifications.deliveries import DeliveryView
from conductor.services.notifications.subscriptions import CreatedSubscription, SubscriptionRequest, SubscriptionView
from portal.api.base import ApiRequest
from portal.api.idempotency import idempotent
from portal.api.novella.bodies import BodySerializer
from portal.api.novella.conditions import seen_revision
from portal.api.novella.data import DataSerializer, envelope, missing_cells, page
from portal.api.novella.fields import ChoiceField, FlagField, ListField, TextField, UuidField
from portal.api.novella.filters import FlagFilter, PageFilter, QuerySerializer
from portal.api.novella.operations import describes
from portal.api.novella.viewset import NovellaViewSet, quoted

_NAMES = {"cloud_wide": "is_cloud_wide", "enabled": "is_enabled"}  # of the body → of the service, where they differ


class SubscriptionSerializer(DataSerializer):
    """A subscription to notifications."""

    cloud_wide = serializers.BooleanField(source="is_cloud_wide")
    enabled = serializers.BooleanField(source="is_enabled")

    class Meta:
        dataclass = SubscriptionView
        exclude = tuple(_NAMES.values())


class DeliverySerializer(DataSerializer):
    """A message: queued, delivered or failed."""

    class Meta:
        dataclass = DeliveryView


class SubscriptionFilter(QuerySerializer):
    all_people = FlagFilter()


class SubscriptionUpdate(BodySerializer):
    needs_a_field = True

    name = TextField(required=False, min_length=1, max_length=60, pattern=r"\S", message="1 to 60 characters.")
    url = TextField(required=False, min_length=1, max_length=1000)
    events = ListField(
        TextField(min_length=1, max_length=128, pattern=r"\A[a-z_.*]+\Z"), required=False, min_length=1, max_length=50
    )
    servers = ListField(UuidField(), required=False, max_length=50)
    cloud_wide = FlagField(required=False)
    enabled = FlagField(required=False)


class SubscriptionCreate(SubscriptionUpdate):
    needs_a_field = False

    name = TextField(min_length=1, max_length=60, pattern=r"\S", message="1 to 60 characters.")
    channel = ChoiceField(("webhook", "chat", "email", "bell"), required=False)


ONE = envelope(subscription=SubscriptionSerializer)
WITH_SECRET = envelope(subscription=SubscriptionSerializer, secret=serializers.CharField)
DELIVERY = envelope(delivery=DeliverySerializer)


class SubscriptionViewSet(NovellaViewSet):
    lookup_url_kwarg = "subscription_uuid"

    @describes(envelope(subscriptions=SubscriptionSerializer(many=True)), query=SubscriptionFilter)
    def list(self, request: ApiRequest) -> Response:
        """List the caller's subscriptions in the project, by name; `all_people` is for operators."""
        self.authorize("novella:subscriptions:list")
        of_all = SubscriptionFilter.parse(request)["all_people"]
        found = subscriptions.list_of(request.context, of_all=of_all)
        return Response({"subscriptions": self.shown(SubscriptionSerializer, list(found))})

    @describes(WITH_SECRET, 201, body=SubscriptionCreate)
    @idempotent
    def create(self, request: ApiRequest) -> Response:
        """Subscribe. `secret` signs webhook requests, and is never shown again; other channels have none."""
        self.authorize("novella:subscriptions:change")
        made = subscriptions.subscribe(request.context, requested(SubscriptionCreate.parse(request.data)))
        answer = self._with_secret(made, 201)
        answer["Location"] = request.build_absolute_uri(f"/api/subscriptions/{made.view.uuid}")
        return answer

    @describes(ONE)
    def retrieve(self, request: ApiRequest, subscription_uuid: str) -> Response:
        """Show one subscription; `ETag` is the revision."""
        self.authorize("novella:subscriptions:list")
        return self._one(subscriptions.get(request.context, subscription_uuid))

    @describes(ONE, body=SubscriptionUpdate, takes_if_match=True)
    def partial_update(self, request: ApiRequest, subscription_uuid: str) -> Response:
        """Change some fields, all of them or none. A subscription that is enabled again starts at that moment."""
        self.authorize("novella:subscriptions:change")
        values = requested(SubscriptionUpdate.parse(request.data))
        return self._one(subscriptions.change(request.context, subscription_uuid, values, seen_revision(request)))

    @describes(None, 204, takes_if_match=True)
    def destroy(self, request: ApiRequest, subscription_uuid: str) -> Response:
        """Unsubscribe; `If-Match` may be left out."""
        self.authorize("novella:subscriptions:change")
        subscriptions.unsubscribe(request.context, subscription_uuid, seen_revision(request, is_needed=False))
        return Response(status=204)

    @describes(WITH_SECRET, takes_if_match=True)
    @action(detail=True, methods=["post"])
    @idempotent
    def secret(self, request: ApiRequest, subscription_uuid: str) -> Response:
        """Replace the secret; the new one is never shown again."""
        self.authorize("novella:subscriptions:change")
        renewed = subscriptions.renew_secret(request.context, subscription_uuid, seen_revision(request))
        return self._with_secret(renewed, 200)

    @describes(DELIVERY, 202)
    @action(detail=True, methods=["post"])
    @idempotent
    def test(self, request: ApiRequest, subscription_uuid: str) -> Response:
        """Send a message of type `subscription.test`; the log of deliveries shows its outcome."""
        self.authorize("novella:subscriptions:change")
        return self._delivery(deliveries.test(request.context, subscription_uuid))

    @describes(page("deliveries", DeliverySerializer, missing_cells=missing_cells()), query=PageFilter)
    @action(detail=True)
    def deliveries(self, request: ApiRequest, subscription_uuid: str) -> Response:
        """List every attempt, the newest first."""
        self.authorize("novella:subscriptions:list")
        query = PageFilter.parse(request)
        found = deliveries.list_of(request.context, subscription_uuid, query["limit"], query["marker"])
        return self.page("deliveries", DeliverySerializer, found, key="id", missing_cells=found.missing_cells)

    @describes(DELIVERY, 202)
    @action(detail=True, methods=["post"], url_path="deliveries/<str:delivery_id>/again")
    @idempotent
    def send_again(self, request: ApiRequest, subscription_uuid: str, delivery_id: str) -> Response:
        """Send a message again under its original id."""
        self.authorize("novella:subscriptions:change")
        return self._delivery(deliveries.send_again(request.context, subscription_uuid, delivery_id))

    def _one(self, found: SubscriptionView) -> Response:
        body = {"subscription": self.shown(SubscriptionSerializer, found)}
        return Response(body, headers=quoted(found.revision))

    def _with_secret(self, made: CreatedSubscription, status: int) -> Response:
        answer = self._one(made.view)
        answer.status_code = status
        answer.data["secret"] = made.secret
        answer["Cache-Control"] = "no-store"
        return answer

    def _delivery(self, found: DeliveryView) -> Response:
        return Response({"delivery": self.shown(DeliverySerializer, found)}, status=202)


def requested(body: Mapping[str, Any]) -> SubscriptionRequest:
    """Return the values of a checked body, by the service's names."""
    return SubscriptionRequest(**{_NAMES.get(name, name): value for name, value in body.items()})
