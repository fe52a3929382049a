"""Role grants: to users and groups, on projects, domains and the system; inherited or not."""

from __future__ import annotations

from typing import ClassVar

from rest_framework.response import Response

from conductor.core.errors import Invalid, NotFound
from conductor.identity import assignments, projects
from conductor.identity.assignments import AssignmentFilter, AssignmentScope, ListedAssignment
from conductor.identity.rights import Check
from conductor.services.accounts import assignments as managed
from portal.api.base import ApiRequest
from portal.api.identity.queries import assignment_filter
from portal.api.identity.representations import resources
from portal.api.identity.representations.assignments import assignment
from portal.api.identity.view import IdentityView


class GrantView(IdentityView):
    """Base of views of grants. The path's words give the scope; the route decides whether grants are inherited."""

    is_inherited: ClassVar[bool] = False

    def place(self, **where: str) -> AssignmentScope:
        return AssignmentScope(**where, is_inherited=self.is_inherited)

    def allow(self, what: str, place: AssignmentScope, role_id: str | None = None) -> Check | None:
        """Raises Forbidden unless the caller may `list`, `check`, `create` or `revoke` there.

        Returns:

                    The check to repeat in the transaction that grants or revokes the role; only for managers.
        """
        if place.is_on_system:
            is_read = what in ("list", "check")
            self.authorize(f"identity:{'list' if is_read else 'change'}_system_grants")
            return None
        rule = f"identity:{what}_grant" + ("s" if what == "list" else "")
        context = self.request.context
        if context.is_admin or context.is_on_system:
            self.authorize(rule)
            return None
        for domain_id in place.domain_ids():
            self.authorize(rule, target_domain_id=domain_id)
        if role_id is None or what not in ("create", "revoke"):
            return None
        return managed.check_of(context, place, role_id, rule)


class Grants(GrantView):
    """…/roles: the roles that an actor was granted on a scope."""

    def get(self, request: ApiRequest, **where: str) -> Response:
        place = self.place(**where)
        self.allow("list", place)
        return Response(resources.listing(request, "roles", assignments.at(place), resources.role))


class Grant(GrantView):
    """…/roles/{id}."""

    def put(self, request: ApiRequest, role_id: str, **where: str) -> Response:
        place = self.place(**where)
        assignments.grant(place, role_id, check=self.allow("create", place, role_id))
        return Response(status=204)

    def get(self, request: ApiRequest, role_id: str, **where: str) -> Response:
        place = self.place(**where)
        self.allow("check", place)
        assignments.require(place, role_id)
        return Response(status=204)

    head = get

    def delete(self, request: ApiRequest, role_id: str, **where: str) -> Response:
        place = self.place(**where)
        assignments.take_away(place, role_id, check=self.allow("revoke", place, role_id))
        return Response(status=204)


class InheritedGrants(Grants):
    """…/roles/inherited_to_projects."""

    is_inherited = True


class InheritedGrant(Grant):
    """…/roles/{id}/inherited_to_projects."""

    is_inherited = True


class RoleAssignments(IdentityView):
    """/v3/role_assignments."""

    def get(self, request: ApiRequest) -> Response:
        wanted = self._wanted()
        self._allow(wanted)
        found = self._found(wanted)
        with_names = self.asks_for("include_names")
        shown = [assignment(request, one, with_names=with_names) for one in found]
        links = {"self": request.build_absolute_uri(), "previous": None, "next": None}
        return Response({"role_assignments": shown, "links": links})

    def _found(self, wanted: AssignmentFilter) -> list[ListedAssignment]:
        is_effective = self.asks_for("effective")
        if is_effective and (wanted.group_id is not None or wanted.is_inherited):
            raise Invalid("Combining effective with group.id or inherited_to cannot find anything.")
        try:
            return assignments.in_effect(wanted) if is_effective else list(assignments.given(wanted))
        except NotFound:
            if self.may("identity:list_role_assignments", target_user_id=""):
                raise
            return []  # a caller that sees only its own assignments must not learn whether a project exists

    def _wanted(self) -> AssignmentFilter:
        query = self.request.query_params
        inherited_to = query.get("scope.OS-INHERIT:inherited_to")
        if inherited_to not in (None, "projects"):
            raise Invalid("Invalid input for query parameter scope.OS-INHERIT:inherited_to. It must be 'projects'.")
        is_inherited = True if inherited_to else None
        return assignment_filter(query, is_inherited=is_inherited, with_subtree=self.asks_for("include_subtree"))

    def _allow(self, wanted: AssignmentFilter) -> None:
        domain_id = wanted.domain_id
        if wanted.project_id is not None and self.request.context.domain_id:
            domain_id = projects.domain_id_of(wanted.project_id)
        self.authorize(
            "identity:list_role_assignments", target_user_id=wanted.user_id or "", target_domain_id=domain_id
        )
