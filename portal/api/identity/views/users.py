"""Users, their passwords and projects."""

from __future__ import annotations

from rest_framework.response import Response

from conductor.core.context import RequestContext
from conductor.core.errors import NotAuthenticated, NotFound
from conductor.identity import domains, effective, groups, managers, tokens
from conductor.identity.models import User as UserRow
from conductor.identity.tokens import Granted
from conductor.services.accounts import passwords, users
from portal.api.authentication import HEADER
from portal.api.base import READS, ApiRequest
from portal.api.identity import queries
from portal.api.identity.representations import resources
from portal.api.identity.schemas.resources import CHANGE_PASSWORD, CHANGE_USER, CREATE_USER, extra_of
from portal.api.identity.view import IdentityView, require_unchanged
from portal.api.time_filters import parse_times
from portal.api.validation import validate
from portal.request_ids import remote_address_of

EXPIRY = "password_expires_at"
ABSENT = frozenset({"idp_id", "protocol_id", "unique_id", EXPIRY})  # documented filters; no user here has such a value


class UserView(IdentityView):
    """Base of views about one user: checks the rule before it reveals anything."""

    def allowed(self, rule: str, user_id: str) -> UserRow:
        """Return the user. Raises NotFound, or Forbidden where the caller may not even know whether it exists."""
        try:
            row = users.get(user_id)
        except NotFound:
            self.authorize(rule, target_user_id="", target_domain_id="")
            raise
        self.authorize(rule, target_user_id=user_id, target_domain_id=row.domain_id)
        if self.request.method not in READS:
            managers.require_actor(self.request.context, row, rule)
        return row


class Users(IdentityView):
    """/v3/users."""

    def get(self, request: ApiRequest) -> Response:
        question = self.within_domain(self.question(*queries.USERS), "identity:list_users")
        parse_times(request.query_params, (EXPIRY,))
        is_impossible = not ABSENT.isdisjoint(request.query_params)
        found, has_more = ([], False) if is_impossible else users.find(question)
        return Response(resources.listing(request, "users", found, resources.user, has_more=has_more))

    def post(self, request: ApiRequest) -> Response:
        given = validate(request.data, CREATE_USER)["user"]
        domain_id = domains.of_new(request.context, given.get("domain_id"))
        self.authorize("identity:create_user", target_domain_id=domain_id)
        created = users.create(request.context, given, extra_of(given, CREATE_USER, "user"))
        return Response({"user": resources.user(request, created)}, status=201)


class User(UserView):
    """/v3/users/{id}."""

    def get(self, request: ApiRequest, user_id: str) -> Response:
        return Response({"user": resources.user(request, self.allowed("identity:get_user", user_id))})

    def patch(self, request: ApiRequest, user_id: str) -> Response:
        row = self.allowed("identity:update_user", user_id)
        given = validate(request.data, CHANGE_USER)["user"]
        require_unchanged(given, {"domain_id": row.domain_id}, ["domain_id"])
        granted = self.granted if "password" in given else None
        changed = users.update(request.context, row, given, extra_of(given, CHANGE_USER, "user"), granted=granted)
        return Response({"user": resources.user(request, changed)})

    def delete(self, request: ApiRequest, user_id: str) -> Response:
        row = self.allowed("identity:delete_user", user_id)
        users.delete(request.context, row)
        return Response(status=204)


class UserPassword(IdentityView):
    """/v3/users/{id}/password: change one's own. The old password authenticates, except with a second factor."""

    public_methods = frozenset({"POST"})

    def post(self, request: ApiRequest, user_id: str) -> Response:
        given = validate(request.data, CHANGE_PASSWORD)["user"]
        who = RequestContext(
            user_id,
            "",
            request.request_id,
            user_name=UserRow.objects.filter(id=user_id).values_list("username", flat=True).first() or "",
            remote_address=remote_address_of(request._request),
        )
        passwords.change(who, given["original_password"], given["password"], granted=self._granted_if_any())
        return Response(status=204)

    def _granted_if_any(self) -> Granted | None:
        """Return the grants of the request's token. The token is optional, so an invalid one counts as none."""
        text = self.request.headers.get(HEADER)
        try:
            return tokens.validate(text) if text else None
        except NotAuthenticated:
            return None


class UserProjects(UserView):
    """/v3/users/{id}/projects."""

    def get(self, request: ApiRequest, user_id: str) -> Response:
        self.allowed("identity:list_user_projects", user_id)
        wanted = self.question("name", "enabled", "domain_id").filters
        held = effective.projects_of(user_id)
        columns = {"name": "name", "enabled": "is_enabled", "domain_id": "domain_id"}
        found = [row for row in held if all(getattr(row, columns[name]) == value for name, value in wanted.items())]
        return Response(resources.listing(request, "projects", found, resources.project))


class UserGroups(UserView):
    """/v3/users/{id}/groups."""

    def get(self, request: ApiRequest, user_id: str) -> Response:
        self.allowed("identity:list_groups_for_user", user_id)
        found, has_more = groups.find(self.question("name"), user_id=user_id)
        return Response(resources.listing(request, "groups", found, resources.group, has_more=has_more))
