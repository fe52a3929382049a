"""Base view of the Compute API."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from rest_framework.exceptions import MethodNotAllowed

from conductor.core.errors import Forbidden, Invalid
from portal.api import microversions
from portal.api.base import ApiRequest, ApiView
from portal.api.compute.microversions import VERSIONS
from portal.api.compute.policies import RULES, full_name
from portal.api.compute.table import ComputeOperation

# Sent by clients as a matter of course; ignored where they mean nothing.
ALWAYS_KNOWN = frozenset({"limit", "marker"})
BARE_SINCE = "2.102"  # from here on, a GET without query parameters rejects any
PROJECT_IN_PATH = re.compile(r"\A/compute/v2\.1/([0-9a-f]{32})/")


class ComputeView(ApiView):
    """Base view: Compute's fault format, policies and versions.

    `operations` is the route's row of the table. Its version range and rule are checked before the method runs. From
    `bare_since` on a GET takes no query parameters.
    """

    service = "compute"
    policies = RULES
    versions = VERSIONS
    operations: ClassVar[Mapping[str, ComputeOperation]] = {}
    bare_since: ClassVar[str | None] = None

    def initial(self, request: ApiRequest, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        super().initial(request, *args, **kwargs)
        self._require_project(request)
        operation = self.operations.get("GET" if request.method == "HEAD" else str(request.method))
        if operation is None:
            if str(request.method) not in self.allowed_methods:
                raise MethodNotAllowed(str(request.method))
            return
        microversions.require(request.microversion, operation.since, operation.until)
        if operation.rule and not operation.is_targeted:
            self.allow(operation.rule)
        if self.bare_since and request.method in ("GET", "HEAD") and request.microversion.covers(self.bare_since):
            _refuse(request.query_params)

    @property
    def allowed_methods(self) -> list[str]:
        """The methods of this route, which may be fewer than those of the view."""
        methods: list[str] = super().allowed_methods
        if not self.operations:
            return methods
        return [name for name in methods if name == "OPTIONS" or name.replace("HEAD", "GET") in self.operations]

    def _require_project(self, request: ApiRequest) -> None:
        """Require a project-scoped or system-scoped token. `authorize` decides what a system-scoped token may do."""
        if not request.context.project_id and not request.context.is_on_system:
            raise Forbidden("The compute API needs a token for a project: ask for one with a project as its scope.")
        named = PROJECT_IN_PATH.match(request.path)
        if named and named[1] != request.context.project_id:
            raise Invalid("Malformed request URL: its project is not that of the token.", field="project_id")

    def allow(self, rule: str, *, target_project_id: str | None = None, target_user_id: str | None = None) -> None:
        """`authorize` with the prefix that all rules of this API have."""
        self.authorize(full_name(rule), target_project_id=target_project_id, target_user_id=target_user_id)

    def allows(self, rule: str, *, target_project_id: str | None = None) -> bool:
        """`may` with the prefix that all rules of this API have."""
        return self.may(full_name(rule), target_project_id=target_project_id)

    def refuse_unknown_query(self, known: Iterable[str], *, since: str = "2.75") -> None:
        """Raises Invalid for a query parameter that is not `known`; older versions ignore it."""
        if not self.request.microversion.covers(since):
            return
        _refuse(set(self.request.query_params) - set(known) - ALWAYS_KNOWN)


def _refuse(unknown: Iterable[str]) -> None:
    names = sorted(unknown)
    if names:
        raise Invalid(
            f"Invalid input for query parameters {', '.join(name[:60] for name in names)}. "
            "Additional properties are not allowed.",
            field=names[0][:60],
        )
