"""Second factors of users, for administrators: whether one is on, and the reset of a lost one."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.response import Response

from conductor.services.accounts import second_factors
from portal.api.base import ApiRequest
from portal.api.novella.data import envelope
from portal.api.novella.operations import describes
from portal.api.novella.viewset import NovellaViewSet


class SecondFactorSerializer(serializers.Serializer[Any]):
    """Second factor of a user: whether a code is needed beside the password, and how many recovery codes are left."""

    is_on = serializers.BooleanField()
    recovery_codes = serializers.IntegerField()


ONE = envelope(second_factor=SecondFactorSerializer)


class SecondFactorViewSet(NovellaViewSet):
    @describes(ONE)
    def retrieve(self, request: ApiRequest, user_id: str) -> Response:
        """Show whether a code is needed beside the password, and how many recovery codes are left."""
        self.authorize("novella:second_factors:show")
        return Response({"second_factor": second_factors.describe(request.context, user_id)})

    @describes(ONE)
    def destroy(self, request: ApiRequest, user_id: str) -> Response:
        """Remove the second factor of a user. The header `Novella-Reason` gives the reason for the audit log."""
        self.authorize("novella:second_factors:reset")
        second_factors.reset(request.context, user_id)
        return Response({"second_factor": second_factors.describe(request.context, user_id)})
