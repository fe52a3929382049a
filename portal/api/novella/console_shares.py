"""Console shares: links by which other members of a server's project watch one of its consoles for a while."""

from __future__ import annotations

from rest_framework import serializers
from rest_framework.response import Response

from conductor.core.consoles import ConsoleKind
from conductor.services.consoles import shares
from conductor.services.consoles.shares import MINUTES, ShareView
from conductor.services.servers import instances
from portal.api.base import ApiRequest
from portal.api.links import absolute
from portal.api.novella.bodies import BodySerializer
from portal.api.novella.data import DataSerializer, envelope
from portal.api.novella.fields import ChoiceField
from portal.api.novella.filters import QuerySerializer
from portal.api.novella.operations import describes
from portal.api.novella.viewset import NovellaViewSet


class ConsoleShareSerializer(DataSerializer):
    """A link to watch a console."""

    class Meta:
        dataclass = ShareView


class NewConsoleShareSerializer(ConsoleShareSerializer):
    """A new link, with its address."""

    url = serializers.CharField()

    def represent_url(self, share: ShareView) -> str:
        return absolute(self.context["request"], f"/watch/{self.context['token']}")


class ConsoleShareFilter(QuerySerializer):
    """No filters."""


class ConsoleShareCreate(BodySerializer):
    kind = ChoiceField([one.value for one in ConsoleKind])
    minutes = ChoiceField(MINUTES)


class ConsoleShareViewSet(NovellaViewSet):
    lookup_url_kwarg = "share_uuid"

    @describes(envelope(console_shares=ConsoleShareSerializer(many=True)))
    def list(self, request: ApiRequest, server_id: str) -> Response:
        """List the caller's active links, for operators all; the first to expire comes first."""
        self.authorize("novella:console_shares:list")
        ConsoleShareFilter.parse(request)
        instances.get(request.context, server_id)  # 404 for an unknown server, instead of an empty list
        found = shares.list_shares(request.context, server_id)
        return Response({"console_shares": self.shown(ConsoleShareSerializer, list(found))})

    @describes(envelope(console_share=NewConsoleShareSerializer), 201, body=ConsoleShareCreate)
    def create(self, request: ApiRequest, server_id: str) -> Response:
        """Let other members of the project watch.

        `url` is shown this once and not stored: a repeated request creates another link.
        """
        self.authorize("novella:console_shares:change")
        body = ConsoleShareCreate.parse(request.data)
        token, made = shares.share(request.context, server_id, ConsoleKind(body["kind"]), body["minutes"])
        share = NewConsoleShareSerializer(made, context={"request": request, "token": token}).data
        return Response({"console_share": share}, status=201, headers={"Cache-Control": "no-store"})

    @describes(None, 204)
    def destroy(self, request: ApiRequest, server_id: str, share_uuid: str) -> Response:
        """End a link: its viewers are disconnected within seconds."""
        self.authorize("novella:console_shares:change")
        shares.revoke(request.context, server_id, share_uuid)
        return Response(status=204)
