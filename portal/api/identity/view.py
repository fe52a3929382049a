"""Base view of the identity API."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from conductor.core.errors import Forbidden, Invalid
from conductor.identity import tokens
from conductor.identity.listing import IdentityListQuery
from conductor.identity.tokens import Granted
from portal.api.authentication import HEADER
from portal.api.base import ApiView
from portal.api.identity.policies import RULES
from portal.api.identity.queries import list_query
from portal.api.pagination import parse_page


class IdentityView(ApiView):
    """Base view: Identity's fault format and policies, tokens of every scope."""

    service = "identity"
    policies = RULES
    takes_any_scope = True

    @property
    def granted(self) -> Granted:
        """The caller's token."""
        return tokens.validate(self.request.headers[HEADER])

    def question(self, *names: str) -> IdentityListQuery:
        """Return the filters among `names` and the page of a list's query. Raises Invalid."""
        query = self.request.query_params
        page = parse_page(self.request)
        return list_query(query, names, page.limit if "limit" in query else None, page.marker)

    def asks_for(self, flag: str) -> bool:
        """Whether a flag such as `effective` is set: `?effective`, `?effective=1`, but not `?effective=0`."""
        value = self.request.query_params.get(flag)
        return value is not None and value.strip().lower() not in ("0", "false")

    def require_self(self, rule: str, user_id: str) -> None:
        """Raises Forbidden for any other user, even to an administrator."""
        if user_id != self.request.context.user_id:
            raise Forbidden(f"Policy doesn't allow {rule} to be performed.", rule=rule)
        self.authorize(rule, target_user_id=user_id)

    def within_domain(self, question: IdentityListQuery, rule: str) -> IdentityListQuery:
        """Limit the query to the caller's domain, unless the caller may see all domains. Raises Forbidden."""
        context = self.request.context
        target = question.filters.get("domain_id") or context.domain_id or None
        self.authorize(rule, target_domain_id=target)
        if context.domain_id and not context.is_admin:
            return IdentityListQuery(
                {**question.filters, "domain_id": context.domain_id}, question.limit, question.marker
            )
        return question


def require_unchanged(given: Any, current: Any, names: Collection[str]) -> None:
    """Raises Invalid for a change of a field that is immutable after creation."""
    for name in names:
        wanted = given.get(name)
        if name in given and wanted is not None and wanted != current[name]:
            raise Invalid(f"Invalid input for field/attribute {name}. It cannot be other than {current[name]}.")
