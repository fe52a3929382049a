"""The enrolment of a new host: it hands in its public key with a one-time token, and has no other account."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rest_framework.response import Response

from conductor.core.context import system_context
from conductor.services import host_keys
from portal.api import rate_limits
from portal.api.base import ApiRequest
from portal.api.own import schemas
from portal.api.own.openapi import described
from portal.api.own.view import OwnView
from portal.api.validation import validate
from portal.request_ids import remote_address_of, request_id_of

MOST_PER_MINUTE = 30  # from one address
ENROLLED = {"host_enrollment": {"host": str, "cell": str, "conductor_keys": Mapping[str, str]}}


class HostEnrollments(OwnView):
    public_methods = frozenset({"POST"})

    @described(ENROLLED, 201, body=schemas.ENROLL_HOST)
    def post(self, request: ApiRequest) -> Response:
        """Hand in the key of a host, with the token that an operator made for it; the conductors' keys come back."""
        address = remote_address_of(request._request)
        rate_limits.charge_at(f"enrolments address:{address}", MOST_PER_MINUTE, "enrolments")
        wanted = validate(request.data, schemas.ENROLL_HOST)["host_enrollment"]
        context = replace(system_context(request_id_of(request._request)), remote_address=address)
        enrolled = host_keys.redeem(context, wanted["token"], wanted["public_key"])
        body = {"host": enrolled.host, "cell": enrolled.cell, "conductor_keys": dict(enrolled.conductor_keys)}
        return Response({"host_enrollment": body}, status=201)
