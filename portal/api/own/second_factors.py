"""Second factors of other people, for administrators: whether there is one, and giving up a lost one."""

from __future__ import annotations

from rest_framework.response import Response

from conductor.services import second_factors
from portal.api.base import ApiRequest
from portal.api.own.openapi import described
from portal.api.own.view import OwnView

SECOND_FACTOR = {"second_factor": {"is_on": bool, "recovery_codes": int}}


class SecondFactor(OwnView):
    @described(SECOND_FACTOR)
    def get(self, request: ApiRequest, user_id: str) -> Response:
        """Whether a code is asked for beside the password, and how many recovery codes are left."""
        self.authorize("novella:second_factors:show")
        return Response({"second_factor": second_factors.told(request.context, user_id)})

    @described(SECOND_FACTOR)
    def delete(self, request: ApiRequest, user_id: str) -> Response:
        """A password is enough again. Say why in the header `Novella-Reason`: it is put on record."""
        self.authorize("novella:second_factors:reset")
        second_factors.reset(request.context, user_id)
        return Response({"second_factor": second_factors.told(request.context, user_id)})
