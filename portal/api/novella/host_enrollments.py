"""Enrolment of a new host: it submits its public key with a one-time token, and has no other account."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rest_framework import serializers
from rest_framework.response import Response

from conductor.core.context import system_context
from conductor.services.hosts import keys
from portal.api import rate_limits
from portal.api.base import ApiRequest
from portal.api.novella.bodies import BodySerializer
from portal.api.novella.data import envelope, strings
from portal.api.novella.fields import TextField
from portal.api.novella.operations import describes
from portal.api.novella.viewset import NovellaViewSet
from portal.request_ids import remote_address_of, request_id_of

MOST_PER_MINUTE = 30  # from one address


class HostEnrollmentSerializer(serializers.Serializer[Any]):
    """An enrolled host, with the public keys of its conductors."""

    host = serializers.CharField()
    cell = serializers.CharField()
    conductor_keys = strings()


class HostEnrollmentCreate(BodySerializer):
    token = TextField(min_length=1, max_length=128)
    public_key = TextField(min_length=1, max_length=64)


class HostEnrollmentBody(BodySerializer):
    host_enrollment = HostEnrollmentCreate()


class HostEnrollmentViewSet(NovellaViewSet):
    public_methods = frozenset({"POST"})

    @describes(envelope(host_enrollment=HostEnrollmentSerializer), 201, body=HostEnrollmentBody)
    def create(self, request: ApiRequest) -> Response:
        """Submit the public key of a host with the token from an operator; the response has the conductors' keys."""
        address = remote_address_of(request._request)
        rate_limits.charge_at(f"enrolments address:{address}", MOST_PER_MINUTE, "enrolments")
        body = HostEnrollmentBody.parse(request.data)["host_enrollment"]
        context = replace(system_context(request_id_of(request._request)), remote_address=address)
        enrolled = keys.redeem(context, body["token"], body["public_key"])
        return Response({"host_enrollment": HostEnrollmentSerializer(enrolled).data}, status=201)
