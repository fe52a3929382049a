"""ApiView: the base class of all API views.

A service's own base view defines what all of its views have in common:

    class ComputeView(ApiView):
        service = "compute"          # the format of faults
        policies = RULES             # portal/api/compute/policies.py
        versions = VERSIONS          # portal/api/compute/microversions.py; leave out for an API without microversions

and a view parses, calls one service function, and answers:

    class Servers(ComputeView):
        def post(self, request: ApiRequest) -> Response:
            self.authorize("os_compute_api:servers:create")
            body = validate(request.data, schemas.CREATE)
            ...

`request.context` is the RequestContext of a valid token; without one the answer is 401 before the method runs, except
for methods in `public_methods`. The view or the service raises NotFound for a resource of another project. Faults,
request ids, version headers and 405 for missing methods need no code in the view.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden, NotAuthenticated, NotFound
from conductor.services.audit.targets import AuditTarget
from portal import callers
from portal.api import audited, authorization, member_changes, microversions, rate_limits
from portal.api.authentication import TokenAuthentication
from portal.api.microversions import Microversion, VersionTable
from portal.api.parsing import JsonParser
from portal.api.rendering import JsonRenderer
from portal.request_ids import remote_address_of, request_id_of

READS = frozenset({"GET", "HEAD", "OPTIONS"})
NEEDS_PROJECT = "This API is asked on behalf of a project: log in with a project as the scope."


class ApiRequest(Request):
    """A request with its caller and, where the API has them, the microversion in use."""

    context: RequestContext
    microversion: Microversion
    before: Sequence[AuditTarget] = ()  # targets that it may delete, named before they are gone
    is_replayed: bool = False  # replayed from a stored response: nothing is executed
    once: str = ""  # with an idempotency key: the uuid for the new object, the same for every repetition

    @property
    def request_id(self) -> str:
        return request_id_of(self._request)


class IgnoreAccept(BaseContentNegotiation):
    """Ignores the Accept header and answers JSON: clients send all kinds of Accept and read JSON anyway."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser | None:
        sent = (request.content_type or "").split(";")[0].strip().lower()
        return next((parser for parser in parsers if parser.media_type in (sent, "*/*")), None)

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        first = next(iter(renderers))
        return first, first.media_type


class ApiView(APIView):
    """Base of all API views; see the module's docstring."""

    service: ClassVar[str] = "novella"
    policies: ClassVar[authorization.RuleTable] = {}
    versions: ClassVar[VersionTable | None] = None
    public_methods: ClassVar[frozenset[str]] = frozenset()
    takes_any_scope: ClassVar[bool] = False  # accepts tokens scoped to a domain or the system too
    min_microversion: ClassVar[str | None] = None
    max_microversion: ClassVar[str | None] = None

    authentication_classes: Sequence[type[BaseAuthentication]] = (TokenAuthentication,)
    permission_classes = ()
    throttle_classes = ()
    parser_classes: Sequence[type[BaseParser]] = (JsonParser,)
    renderer_classes: Sequence[type[BaseRenderer]] = (JsonRenderer,)
    content_negotiation_class = IgnoreAccept
    metadata_class = None
    request: ApiRequest

    @property
    def is_public(self) -> bool:
        """Whether this request needs no token; a stale token does no harm then."""
        return self.request.method in self.public_methods

    def authorize(self, rule: str, **targets: str | None) -> None:
        """Raises Forbidden unless the caller may use `rule` on the target (default: the own project and user).

        `targets` are those of `authorization.is_allowed`: target_project_id, target_user_id, target_domain_id.
        """
        context, is_read = self.request.context, self.request.method in READS
        is_for_project = not (self.takes_any_scope or is_read or authorization.takes_system(self.policies[rule]))
        if context.is_on_system and is_for_project:
            raise Forbidden(NEEDS_PROJECT)
        authorization.require(self.policies, rule, context, **targets)

    def may(self, rule: str, **targets: str | None) -> bool:
        """Return whether the caller may use `rule`, to decide about fields; `targets` as in `authorize`."""
        return authorization.is_allowed(self.policies[rule], self.request.context, **targets)

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> ApiRequest:
        return ApiRequest(
            request,
            parsers=self.get_parsers(),
            authenticators=self.get_authenticators(),
            negotiator=self.get_content_negotiator(),
            parser_context=self.get_parser_context(request),
        )

    def get_authenticators(self) -> list[BaseAuthentication]:
        return [] if self.is_public else super().get_authenticators()

    def initial(self, request: ApiRequest, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        self.format_kwarg = None
        request.accepted_renderer, request.accepted_media_type = self.perform_content_negotiation(request)
        if self.versions is not None:
            request.microversion = self.versions.negotiate(request.headers)
        if not self.is_public:
            self._authenticate(request)
        elif request.method not in READS:
            rate_limits.charge(request._request, f"address:{remote_address_of(request._request)}")
        if self.versions is not None and (self.min_microversion or self.max_microversion):
            first = self.min_microversion or str(self.versions.minimum)
            microversions.require(request.microversion, first, self.max_microversion)

    def _authenticate(self, request: ApiRequest) -> None:
        context = request.auth
        if not isinstance(context, RequestContext):
            raise NotAuthenticated()
        is_elsewhere = context.domain_id or (context.is_on_system and not context.is_admin)
        if is_elsewhere and not self.takes_any_scope:
            raise Forbidden(NEEDS_PROJECT)
        callers.report(request._request, context.project_id, context.user_id)
        rate_limits.charge(request._request, callers.share_of(context.project_id, context.user_id))
        request.context = replace(context, remote_address=remote_address_of(request._request))
        request.before = member_changes.before(request.context, str(request.method), request.path)

    def options(self, request: Request, *args: Any, **kwargs: Any) -> Response:  # type: ignore[override]
        """Answer 204; `Allow` lists the methods, as in every response."""
        return Response(status=204)

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        answered = super().finalize_response(request, response, *args, **kwargs)
        if request.method not in READS:
            audited.keep(request, response)
        if self.versions is not None:
            used = getattr(request, "microversion", None)
            for name, value in self.versions.answer_headers(used).items():
                answered[name] = value
        return answered


class UnknownRoute(ApiView):
    """404 with a JSON body, for paths that an API does not have."""

    @property
    def default_response_headers(self) -> dict[str, str]:
        return {}  # without `Allow`: this path has no methods

    def initial(self, request: ApiRequest, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        raise NotFound()


def unknown_route(service: str, versions: VersionTable | None = None) -> Any:
    """Return the view for the last pattern of a service's routes."""
    attributes: Mapping[str, Any] = {"service": service, "versions": versions}
    view: type[UnknownRoute] = type("UnknownRoute", (UnknownRoute,), dict(attributes))
    return view.as_view()
