"""Links by which others of a server's project watch one of its consoles for a while."""

from __future__ import annotations

from dataclasses import asdict

from rest_framework.response import Response

from conductor.core.consoles import ConsoleKind
from conductor.services import console_shares, instances
from conductor.services.console_shares import ShareView
from portal.api.base import ApiRequest
from portal.api.links import absolute
from portal.api.own import schemas
from portal.api.own.openapi import described
from portal.api.own.queries import refuse_unknown
from portal.api.own.shapes import Part
from portal.api.own.view import OwnView, plain
from portal.api.validation import validate

SHARE = Part("ConsoleShare", ShareView)
NEW_SHARE = Part("NewConsoleShare", ShareView, {"url": str})


class ConsoleShares(OwnView):
    @described({"console_shares": [SHARE]})
    def get(self, request: ApiRequest, server_id: str) -> Response:
        """Those that hold: the asker's own, for operators all; the first to end comes first."""
        self.authorize("novella:console_shares:list")
        refuse_unknown(request, frozenset())
        instances.get(request.context, server_id)  # one that is not there is said, and not that nobody watches it
        found = console_shares.list_shares(request.context, server_id)
        return Response({"console_shares": [plain(asdict(one)) for one in found]})

    @described({"console_share": NEW_SHARE}, 201, body=schemas.SHARE_CONSOLE)
    def post(self, request: ApiRequest, server_id: str) -> Response:
        """Let others of the project watch; the link in `url` is told this once.

        It is kept nowhere, so a request that is repeated makes another.
        """
        self.authorize("novella:console_shares:change")
        body = validate(request.data, schemas.SHARE_CONSOLE)
        kind, minutes = ConsoleKind(body["kind"]), body["minutes"]
        token, made = console_shares.share(request.context, server_id, kind, minutes)
        told = {**plain(asdict(made)), "url": absolute(request, f"/watch/{token}")}
        return Response({"console_share": told}, status=201, headers={"Cache-Control": "no-store"})


class ConsoleShare(OwnView):
    @described(None, 204)
    def delete(self, request: ApiRequest, server_id: str, share_uuid: str) -> Response:
        """End it: whoever watches by it is shown out within seconds."""
        self.authorize("novella:console_shares:change")
        console_shares.revoke(request.context, server_id, share_uuid)
        return Response(status=204)
