"""Projects, project trees and tags."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Invalid, NotFound
from conductor.identity import domains, managers, project_tags, projects
from conductor.identity.listing import IdentityListQuery
from conductor.identity.models import Project as ProjectRow
from conductor.services.accounts import projects as managed
from portal.api.base import READS, ApiRequest
from portal.api.identity import queries
from portal.api.identity.representations import resources
from portal.api.identity.schemas.resources import CHANGE_PROJECT, CHANGE_TAGS, CREATE_PROJECT, TAG, extra_of
from portal.api.identity.view import IdentityView, require_unchanged
from portal.api.validation import as_boolean, validate


class ProjectView(IdentityView):
    """Base of views about one project: checks the rule before it reveals anything."""

    def allowed(self, rule: str, project_id: str) -> ProjectRow:
        """Return the project. Raises NotFound, or Forbidden where the caller may not even know whether it exists."""
        try:
            row = projects.get(project_id)
        except NotFound:
            self.authorize(rule, target_project_id="", target_domain_id="")
            raise
        self.authorize(rule, target_project_id=project_id, target_domain_id=row.domain_id)
        if self.request.method not in READS:
            managers.require_project(self.request.context, row.name, row.domain_id, rule)
        return row


class Projects(IdentityView):
    """/v3/projects."""

    def get(self, request: ApiRequest) -> Response:
        question = self.within_domain(self.question(*queries.PROJECTS), "identity:list_projects")
        if self.asks_for("is_domain"):
            return self._domains(request, question)
        found, has_more = projects.find(question)
        return Response(resources.listing(request, "projects", found, resources.project, has_more=has_more))

    def _domains(self, request: ApiRequest, question: IdentityListQuery) -> Response:
        found, has_more = domains.find(question)
        shown = resources.listing(request, "projects", found, resources.domain_as_project, has_more=has_more)
        return Response(shown)

    def post(self, request: ApiRequest) -> Response:
        given = validate(request.data, CREATE_PROJECT)["project"]
        extra = extra_of(given, CREATE_PROJECT, "project")
        if given.get("is_domain"):
            return self._create_domain(request, given, domains.fields_of(given, extra))
        domain_id = managed.domain_of_new(request.context, given)
        self.authorize("identity:create_project", target_domain_id=domain_id)
        created = managed.create(request.context, {**given, "domain_id": domain_id}, extra)
        return Response({"project": resources.project(request, created)}, status=201)

    def _create_domain(self, request: ApiRequest, given: dict[str, Any], fields: dict[str, Any]) -> Response:
        self.authorize("identity:create_domain")
        for name in ("domain_id", "parent_id"):
            if given.get(name) is not None:
                raise Invalid(f"Invalid input for field/attribute {name}. A domain stands under nothing.")
        created = domains.create(fields.pop("name"), **fields)
        return Response({"project": resources.domain_as_project(request, created)}, status=201)


class Project(ProjectView):
    """/v3/projects/{id}: also for a domain, which acts as a project."""

    def _domain(self, rule: str, project_id: str) -> Any:
        """Return the domain with that id, if it is no project and the caller may use `rule`; else None."""
        if not self.may(rule) or projects.exists(project_id):
            return None
        try:
            return domains.get(project_id)
        except NotFound:
            return None

    def get(self, request: ApiRequest, project_id: str) -> Response:
        domain = self._domain("identity:list_domains", project_id)
        if domain is not None:
            return Response({"project": resources.domain_as_project(request, domain)})
        row = self.allowed("identity:get_project", project_id)
        shown = resources.project(request, row)
        return Response({"project": {**shown, **self._relatives(request, row)}})

    def _relatives(self, request: ApiRequest, row: ProjectRow) -> dict[str, Any]:
        if self.asks_for("parents_as_list") and self.asks_for("parents_as_ids"):
            raise Invalid("Ask for parents_as_list or for parents_as_ids, not for both.")
        if self.asks_for("subtree_as_list") and self.asks_for("subtree_as_ids"):
            raise Invalid("Ask for subtree_as_list or for subtree_as_ids, not for both.")
        values: dict[str, Any] = {}
        if self.asks_for("parents_as_list"):
            values["parents"] = [{"project": resources.project(request, above)} for above in projects.parents_of(row)]
        if self.asks_for("parents_as_ids"):
            above: dict[str, Any] | None = {row.domain_id: None}
            for project_id in row.ancestor_ids:
                above = {project_id: above}
            values["parents"] = above
        if self.asks_for("subtree_as_list"):
            values["subtree"] = [{"project": resources.project(request, below)} for below in projects.subtree_of(row)]
        if self.asks_for("subtree_as_ids"):
            values["subtree"] = _nested(row.id, projects.subtree_of(row))
        return values

    def patch(self, request: ApiRequest, project_id: str) -> Response:
        given = validate(request.data, CHANGE_PROJECT)["project"]
        extra = extra_of(given, CHANGE_PROJECT, "project")
        if self._domain("identity:update_domain", project_id) is not None:
            require_unchanged(given, {"is_domain": True}, ["is_domain"])
            changed = domains.change(project_id, domains.fields_of(given, extra))
            return Response({"project": resources.domain_as_project(request, changed)})
        row = self.allowed("identity:update_project", project_id)
        current = {"domain_id": row.domain_id, "parent_id": row.parent_or_domain_id, "is_domain": False}
        require_unchanged(given, current, current)
        return Response({"project": resources.project(request, managed.update(request.context, row, given, extra))})

    def delete(self, request: ApiRequest, project_id: str) -> Response:
        if self._domain("identity:delete_domain", project_id) is not None:
            domains.delete(project_id)
            return Response(status=204)
        managed.delete(request.context, self.allowed("identity:delete_project", project_id))
        return Response(status=204)


def _nested(project_id: str, below: list[ProjectRow]) -> dict[str, Any] | None:
    children = {row.id: _nested(row.id, below) for row in below if row.parent_id == project_id}
    return children or None


class ProjectCascade(ProjectView):
    """/v3/projects/{id}/cascade: a project with its whole subtree."""

    def allowed(self, rule: str, project_id: str) -> ProjectRow:
        row = super().allowed(rule, project_id)
        for below in projects.subtree_of(row):
            managers.require_project(self.request.context, below.name, below.domain_id, rule)
        return row

    def patch(self, request: ApiRequest, project_id: str) -> Response:
        self.allowed("identity:update_project", project_id)
        given = validate(request.data, CHANGE_PROJECT)["project"]
        if given.keys() != {"enabled"}:
            raise Invalid("Only the field enabled can be changed for a whole tree.")
        changed = projects.change(project_id, {"is_enabled": as_boolean(given["enabled"], "enabled")}, cascade=True)
        return Response({"project": resources.project(request, changed)})

    def delete(self, request: ApiRequest, project_id: str) -> Response:
        self.allowed("identity:delete_project", project_id)
        projects.delete(project_id, cascade=True)
        return Response(status=204)


def _tags(row: ProjectRow) -> list[str]:
    return [tag.name for tag in row.tags.all()]


class ProjectTags(ProjectView):
    """/v3/projects/{id}/tags."""

    def get(self, request: ApiRequest, project_id: str) -> Response:
        row = self.allowed("identity:list_project_tags", project_id)
        return Response({"tags": _tags(row), "links": {"self": request.build_absolute_uri()}})

    def put(self, request: ApiRequest, project_id: str) -> Response:
        row = self.allowed("identity:update_project_tags", project_id)
        project_tags.replace(row, validate(request.data, CHANGE_TAGS)["tags"])
        tags = _tags(projects.get(project_id))
        return Response({"tags": tags, "links": {"self": request.build_absolute_uri()}})

    def delete(self, request: ApiRequest, project_id: str) -> Response:
        project_tags.replace(self.allowed("identity:update_project_tags", project_id), [])
        return Response(status=204)


class ProjectTag(ProjectView):
    """/v3/projects/{id}/tags/{tag}."""

    def get(self, request: ApiRequest, project_id: str, tag: str) -> Response:
        if tag not in _tags(self.allowed("identity:list_project_tags", project_id)):
            raise NotFound(f"Could not find project tag: {tag[:64]}.")
        return Response(status=204)

    head = get

    def put(self, request: ApiRequest, project_id: str, tag: str) -> Response:
        row = self.allowed("identity:update_project_tags", project_id)
        project_tags.add(row, validate({"tag": tag}, TAG)["tag"])
        return Response(status=201, headers={"Location": request.build_absolute_uri()})

    def delete(self, request: ApiRequest, project_id: str, tag: str) -> Response:
        project_tags.remove(self.allowed("identity:update_project_tags", project_id), tag)
        return Response(status=204)
