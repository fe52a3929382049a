"""NovellaViewSet: the base class of all viewsets of our own API."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from django.http import HttpRequest
from rest_framework import serializers
from rest_framework.authentication import BaseAuthentication
from rest_framework.decorators import MethodMapper
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ViewSetMixin

from conductor.core.context import RequestContext
from portal.api.authentication import TokenAuthentication
from portal.api.base import ApiRequest, ApiView
from portal.api.links import absolute
from portal.api.novella.data import envelope
from portal.api.novella.policies import RULES
from portal.api.pagination import fit, next_links
from portal.request_ids import request_id_of
from portal.session_callers import caller_of, user_of


class StartedWorkflowSerializer(serializers.Serializer[Any]):
    """The workflow that carries out the request."""

    uuid = serializers.CharField()
    href = serializers.CharField()


ACCEPTED = envelope(workflow=StartedWorkflowSerializer)


class SessionReading(BaseAuthentication):
    """Authenticates reads by a page's session; changes need a token."""

    def authenticate(self, request: Request | HttpRequest) -> tuple[Any, RequestContext] | None:
        http_request = request._request if isinstance(request, Request) else request
        if http_request.method not in ("GET", "HEAD", "OPTIONS"):
            return None
        caller = caller_of(http_request.session, request_id_of(http_request))
        return (user_of(http_request.session), caller) if caller is not None else None


class NovellaViewSet(ViewSetMixin, ApiView):  # type: ignore[misc]  # the request of both is an ApiRequest
    """Base of the viewsets below /api. A method authorizes, parses, calls one function of a service, and answers."""

    service = "novella"
    policies = RULES
    authentication_classes = (TokenAuthentication, SessionReading)

    @classmethod
    def get_extra_actions(cls) -> list[Any]:
        """Return the extra actions without reading `schema`, which would load the generator of the document."""
        members = (member for _, member in inspect.getmembers_static(cls))
        return [member for member in members if isinstance(getattr(member, "mapping", None), MethodMapper)]

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Add to each list the cells that did not answer, with the reasons that the caller may read."""
        data = getattr(response, "data", None)
        if isinstance(data, dict) and "missing_cells" in data:
            data["missing_cells"] = missing_body(self.request, data["missing_cells"])
        return super().finalize_response(request, response, *args, **kwargs)

    def shown(self, serializer: type[serializers.Serializer[Any]], value: Any) -> Any:
        """Return a value as JSON, or a list of them."""
        context = {"request": self.request}
        return serializer(value, many=isinstance(value, (list, tuple)), context=context).data

    def page(
        self,
        name: str,
        serializer: type[serializers.Serializer[Any]],
        found: Any,
        *,
        key: str | Callable[[Any], str] = "uuid",
        **more: Any,
    ) -> Response:
        """Return the response for a page of a list, with `more` fields and the link to the next one.

        Args:

                    found: a page from a service: `items` and `has_more`.
                    key: the attribute that markers name, or a function that returns the marker of a row.
        """
        items = list(found.items)
        shown, has_more = fit(self.shown(serializer, items), has_more=found.has_more)
        last = items[len(shown) - 1] if shown else None
        last_id = (key(last) if callable(key) else getattr(last, key)) if last is not None else None
        return Response({name: shown, **more} | next_links(self.request, name, last_id=last_id, has_more=has_more))


def missing_body(request: ApiRequest, missing: Mapping[str, str]) -> dict[str, str]:
    """Return the cells that did not answer. Only operators see the reasons, which name databases and machines."""
    return dict(missing) if request.context.is_admin else dict.fromkeys(missing, "did not answer")


def quoted(tag: object) -> dict[str, str]:
    """Return the `ETag` header of a revision."""
    return {"ETag": f'"{tag}"'}


def accepted(request: ApiRequest, run_uuid: str) -> Response:
    """202 with the workflow that carries out the request."""
    monitor = absolute(request, f"/api/workflows/{run_uuid}")
    body = {"workflow": {"uuid": run_uuid, "href": monitor}}
    return Response(body, status=202, headers={"Link": f'<{monitor}>; rel="monitor"'})
