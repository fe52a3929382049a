"""Groups and their members."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from rest_framework.response import Response

from conductor.core.errors import NotFound
from conductor.identity import domains, groups, managers, users
from conductor.identity.models import Group as GroupRow
from conductor.identity.rights import Check
from portal.api.base import READS, ApiRequest
from portal.api.identity.representations import resources
from portal.api.identity.schemas.resources import CHANGE_GROUP, CREATE_GROUP, extra_of
from portal.api.identity.view import IdentityView, require_unchanged
from portal.api.validation import validate


def fields_of(given: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changeable fields in a body, by column."""
    fields: dict[str, Any] = {"name": given["name"]} if "name" in given else {}
    if "description" in given:
        fields["description"] = given["description"] or ""
    return {**fields, "extra": extra} if extra else fields


class GroupView(IdentityView):
    """Base of views about one group: checks the rule before it reveals anything."""

    def allowed(self, rule: str, group_id: str) -> GroupRow:
        """Return the group. Raises NotFound, or Forbidden where the caller may not even know whether it exists."""
        try:
            row = groups.get(group_id)
        except NotFound:
            self.authorize(rule, target_domain_id="")
            raise
        self.authorize(rule, target_domain_id=row.domain_id)
        if self.request.method not in READS:
            managers.require_actor(self.request.context, row, rule)
        return row

    def still_allowed(self, rule: str, row: GroupRow) -> Check:
        """Return the same check, to repeat in the transaction that changes the group."""
        return partial(managers.require_actor, self.request.context, row, rule)


class Groups(IdentityView):
    """/v3/groups."""

    def get(self, request: ApiRequest) -> Response:
        question = self.within_domain(self.question("name", "domain_id"), "identity:list_groups")
        found, has_more = groups.find(question)
        return Response(resources.listing(request, "groups", found, resources.group, has_more=has_more))

    def post(self, request: ApiRequest) -> Response:
        given = validate(request.data, CREATE_GROUP)["group"]
        domain_id = domains.of_new(request.context, given.get("domain_id"))
        self.authorize("identity:create_group", target_domain_id=domain_id)
        fields = fields_of(given, extra_of(given, CREATE_GROUP, "group"))
        created = groups.create(fields.pop("name"), domain_id=domain_id, **fields)
        return Response({"group": resources.group(request, created)}, status=201)


class Group(GroupView):
    """/v3/groups/{id}."""

    def get(self, request: ApiRequest, group_id: str) -> Response:
        return Response({"group": resources.group(request, self.allowed("identity:get_group", group_id))})

    def patch(self, request: ApiRequest, group_id: str) -> Response:
        row = self.allowed("identity:update_group", group_id)
        given = validate(request.data, CHANGE_GROUP)["group"]
        require_unchanged(given, {"domain_id": row.domain_id}, ["domain_id"])
        fields = fields_of(given, extra_of(given, CHANGE_GROUP, "group"))
        changed = groups.change(group_id, fields, check=self.still_allowed("identity:update_group", row))
        return Response({"group": resources.group(request, changed)})

    def delete(self, request: ApiRequest, group_id: str) -> Response:
        row = self.allowed("identity:delete_group", group_id)
        groups.delete(group_id, check=self.still_allowed("identity:delete_group", row))
        return Response(status=204)


class GroupUsers(GroupView):
    """/v3/groups/{id}/users."""

    def get(self, request: ApiRequest, group_id: str) -> Response:
        self.allowed("identity:list_users_in_group", group_id)
        found, has_more = users.find(self.question("name", "enabled"), group_id=group_id)
        return Response(resources.listing(request, "users", found, resources.user, has_more=has_more))


class GroupUser(GroupView):
    """/v3/groups/{g}/users/{u}."""

    def _member(self, rule: str, group_id: str, user_id: str) -> Check:
        """Check that a manager combines only a user and group of the own domain, neither with roles above the
        manager's.

        Returns:

                    The same check, to repeat in the transaction that changes the group.
        """
        group = self.allowed(rule, group_id)
        context = self.request.context
        if context.is_admin or context.is_on_system:
            return self.still_allowed(rule, group)
        self.authorize(rule, target_domain_id=users.domain_id_of(user_id))
        if self.request.method in READS:
            return self.still_allowed(rule, group)
        user = users.get(user_id)

        def check() -> None:
            for actor in (group, user):
                managers.require_actor(context, actor, rule)

        check()
        return check

    def put(self, request: ApiRequest, group_id: str, user_id: str) -> Response:
        check = self._member("identity:add_user_to_group", group_id, user_id)
        groups.add(group_id, user_id, check=check)
        return Response(status=204)

    def get(self, request: ApiRequest, group_id: str, user_id: str) -> Response:
        self._member("identity:check_user_in_group", group_id, user_id)
        groups.require_member(group_id, user_id)
        return Response(status=204)

    head = get

    def delete(self, request: ApiRequest, group_id: str, user_id: str) -> Response:
        check = self._member("identity:remove_user_from_group", group_id, user_id)
        groups.remove(group_id, user_id, check=check)
        return Response(status=204)
