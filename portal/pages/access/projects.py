"""Projects and their role assignments, for administrators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.utils.translation import gettext

from conductor.core.context import RequestContext
from conductor.core.errors import NotFound
from conductor.core.page import Page
from conductor.services.accounts import assignments, credentials, projects
from portal.api.identity.queries import assignment_filter
from portal.api.identity.representations import resources
from portal.api.identity.representations.assignments import assignment_fields, assignment_path
from portal.api.identity.schemas.resources import CHANGE_PROJECT, CREATE_PROJECT
from portal.pages import policies
from portal.pages.access.identity_lists import PROJECTS as PROJECT_CHOICES
from portal.pages.access.identity_lists import ROLES, USERS, list_projects
from portal.pages.access.users import ENABLED, ENABLED_CHOICES, ROOT, only_while
from portal.pages.resources import columns
from portal.pages.resources.fields import DESCRIPTION, NAME, OWN_DESCRIPTION, OWN_NAME, REASON, filled, named, options
from portal.pages.resources.model import (
    Call,
    Cell,
    Column,
    Field,
    Item,
    ItemReader,
    Names,
    Query,
    RelatedTable,
    Resource,
    ResourceAction,
    SubmittedForm,
)


def _call(form: SubmittedForm, **changes: Any) -> Call:
    return Call("PATCH", f"{ROOT}/projects/{form.item.get('id', 'ID')}", {"project": changes})


def _get(caller: RequestContext, ident: str) -> Item:
    return resources.project_fields(projects.get(ident))


def _make(caller: RequestContext, form: SubmittedForm) -> Item:
    return resources.project_fields(projects.create(caller, form.body["project"]))


def _change(caller: RequestContext, form: SubmittedForm) -> Item:
    return resources.project_fields(projects.update(caller, projects.get(form.item["id"]), form.body["project"]))


def _delete(caller: RequestContext, form: SubmittedForm) -> None:
    projects.delete(caller, projects.get(form.item["id"]))


def _quotas(item: Item, names: Names) -> Cell:
    return Cell("link", "Limits and what is used", url=f"/project-quotas/of/{item['id']}")


def _parent(item: Item, names: Names) -> Cell:
    parent = item.get("parent_id")
    if not parent or parent == item.get("domain_id"):
        return columns.NOTHING
    return columns.link_to(str(parent), "projects", names)


PROJECTS = Resource(
    id="projects",
    noun="project",
    title="Projects",
    icon="project",
    service="identity",
    one="project",
    rule="identity:list_projects",
    reader=ItemReader(list_projects, _get),
    search="name__icontains",
    is_for_operators=True,
    empty="Servers, volumes and networks belong to projects. Create a project, then assign roles in it.",
    names=("projects",),
    filters=(Field("enabled", "State", "choice", nothing="All states", choices=ENABLED_CHOICES),),
    columns=(
        Column("Name", columns.text("name")),
        Column("State", columns.state(ENABLED, "enabled")),
        Column("Description", columns.text("description")),
        Column("Parent", _parent),
        Column("Quota", _quotas, is_in_list=False),
        Column("Tags", lambda item, names: Cell("text", ", ".join(item.get("tags") or ()) or "–"), is_in_list=False),
        Column("Domain", columns.mono("domain_id"), is_in_list=False),
    ),
    parts=(
        RelatedTable(
            "Roles", "role-assignments", lambda item: {"scope.project.id": str(item["id"])}, "create", "project_id"
        ),
    ),
    actions=(
        ResourceAction(
            id="create",
            title="Create project",
            does="The project has the default limits. Assign roles to give users access.",
            rule="identity:create_project",
            is_creation=True,
            icon="plus",
            fields=(
                NAME,
                DESCRIPTION,
                Field("parent_id", "Parent", "choice", choices=PROJECT_CHOICES, nothing="No parent project"),
            ),
            call=lambda form: Call(
                "POST", f"{ROOT}/projects", {"project": filled(form.values, "name", "description", "parent_id")}
            ),
            schema=CREATE_PROJECT,
            execute=_make,
            cli=lambda form: [
                "openstack project create",
                *options(form.values, description="description", parent_id="parent"),
                form.values.get("name") or "NAME",
            ],
        ),
        ResourceAction(
            id="edit",
            title="Edit",
            does="Changes the name or description.",
            rule="identity:update_project",
            fields=(OWN_NAME, OWN_DESCRIPTION),
            call=lambda form: _call(form, name=form.values["name"], description=form.values["description"]),
            schema=CHANGE_PROJECT,
            execute=_change,
            cli=lambda form: [
                "openstack project set",
                *options(form.values, name="name", description="description"),
                str(form.item.get("id", "ID")),
            ],
        ),
        ResourceAction(
            id="disable",
            title="Disable",
            does="Users can't sign in to the project. Its resources stay and keep running.",
            rule="identity:update_project",
            is_bulk=True,
            why_not=only_while("enabled", True, "The project is already disabled."),
            fields=(REASON,),
            call=lambda form: _call(form, enabled=False),
            schema=CHANGE_PROJECT,
            execute=_change,
            cli=lambda form: ["openstack project set --disable", named(form.item)],
        ),
        ResourceAction(
            id="enable",
            title="Enable",
            does="Users with a role in the project can use it again.",
            rule="identity:update_project",
            is_bulk=True,
            why_not=only_while("enabled", False, "The project is enabled."),
            call=lambda form: _call(form, enabled=True),
            schema=CHANGE_PROJECT,
            execute=_change,
            cli=lambda form: ["openstack project set --enable", named(form.item)],
        ),
        ResourceAction(
            id="delete",
            title="Delete",
            does=(
                "Deletes the project and its role assignments. Delete its resources first: they would be "
                "left without an owner."
            ),
            rule="identity:delete_project",
            is_danger=True,
            icon="trash",
            fields=(REASON,),
            call=lambda form: Call("DELETE", f"{ROOT}/projects/{form.item['id']}"),
            execute=_delete,
            cli=lambda form: ["openstack project delete", named(form.item)],
        ),
    ),
)


def _assignments(caller: RequestContext, query: Query) -> Page[Item]:
    wanted = assignment_filter(query)
    policies.require(caller, "identity", "identity:list_role_assignments", target_user_id=wanted.user_id or "")
    return Page([_assignment(one) for one in assignments.given(wanted)])


def _assignment(shown: Any) -> Item:
    return {**assignment_fields(shown, with_names=True), "path": assignment_path(shown)}


def _no_assignment(caller: RequestContext, ident: str) -> Item:
    raise NotFound()


def _assign(caller: RequestContext, form: SubmittedForm) -> None:
    values = form.values
    where = {name: values[name] for name in ("user_id", "project_id")}
    assignments.grant(caller, values["role_id"], **where, is_inherited=bool(values.get("is_inherited")))


def _remove(caller: RequestContext, form: SubmittedForm) -> None:
    item = form.item
    where = {f"{kind}_id": item[kind]["id"] for kind in ("user", "group") if kind in item}
    where |= {f"{kind}_id": item["scope"][kind]["id"] for kind in ("project", "domain") if kind in item["scope"]}
    assignments.take_away(caller, item["role"]["id"], **where, is_inherited=_is_inherited(item))


def _who(item: Item, names: Names) -> Cell:
    if "group" in item:
        return Cell("text", gettext("group %(name)s") % {"name": item["group"]["name"]})
    return Cell("link", str(item["user"]["name"]), url=f"/users/of/{item['user']['id']}")


def _where(item: Item, names: Names) -> Cell:
    scope = item["scope"]
    if "project" in scope:
        return Cell("link", str(scope["project"]["name"]), url=f"/projects/of/{scope['project']['id']}")
    if "domain" in scope:
        return Cell("text", gettext("domain %(name)s") % {"name": scope["domain"]["name"]})
    return Cell("text", gettext("the whole system"))


def _name(item: Item) -> str:
    """Return an assignment in words; empty for a new one, of which the API returns no names."""
    if "role" not in item:
        return ""
    details = {"role": item["role"]["name"], "who": _who(item, {}).text, "where": _where(item, {}).text}
    return gettext("%(role)s for %(who)s on %(where)s") % details


def _is_inherited(item: Item) -> bool:
    return "OS-INHERIT:inherited_to" in item["scope"]


def _grant(form: SubmittedForm) -> Call:
    values = form.values
    place = (
        f"projects/{values['project_id'] or 'PROJECT'}/users/{values['user_id'] or 'USER'}"
        f"/roles/{values['role_id'] or 'ROLE'}"
    )
    if values.get("is_inherited"):
        return Call("PUT", f"{ROOT}/OS-INHERIT/{place}/inherited_to_projects")
    return Call("PUT", f"{ROOT}/{place}")


def _cli(verb: str, role: str, user: str, project: str) -> list[str]:
    return [f"openstack role {verb}", "--user", user or "USER", "--project", project or "PROJECT", role or "ROLE"]


def _cli_remove(form: SubmittedForm) -> list[str]:
    item = form.item
    words = ["openstack role remove"]
    for kind in ("user", "group"):
        words += [f"--{kind}", str(item[kind]["id"])] if kind in item else []
    for kind in ("project", "domain"):
        words += [f"--{kind}", str(item["scope"][kind]["id"])] if kind in item["scope"] else []
    words += ["--system", "all"] if "system" in item["scope"] else []
    return [*words, *(["--inherited"] if _is_inherited(item) else []), str(item["role"]["name"])]


def _own_name(caller: RequestContext, items: Sequence[Item]) -> tuple[Field, ...]:
    """Ask for the caller's own name when the caller's own role is removed: it may not be possible to restore it."""
    mine = {caller.user_id, *credentials.groups_of(caller.user_id)}
    if not any(one.get(kind, {}).get("id") in mine for one in items for kind in ("user", "group")):
        return ()
    name = caller.user_name
    return (
        Field(
            "confirm",
            "Your user name",
            help="You are removing your own role and may not be able to restore it. Type your user name to confirm.",
            is_required=True,
            fault=lambda typed: "" if typed in ("", name) else gettext("Type %(name)s to confirm.") % {"name": name},
        ),
    )


ASSIGNMENTS = Resource(
    id="role-assignments",
    noun="role assignment",
    title="Role assignments",
    icon="key",
    service="identity",
    one="role_assignment",
    rule="identity:list_role_assignments",
    reader=ItemReader(_assignments, _no_assignment),
    is_paged=False,
    is_for_operators=True,
    is_only_listed=True,
    empty="No role assignments. A role gives a user permissions in a project.",
    id_of=lambda item: str(item["path"]).replace("/", "~"),
    name_of=_name,
    columns=(
        Column("Assignment", lambda item, names: Cell("text", _name(item))),
        Column("Assigned to", _who),
        Column("Role", lambda item, names: Cell("link", item["role"]["name"], url=f"/roles/of/{item['role']['id']}")),
        Column("Where", _where),
        Column("Inherited", lambda item, names: columns.word("the projects below" if _is_inherited(item) else "–")),
    ),
    actions=(
        ResourceAction(
            id="create",
            title="Assign role",
            does="Takes effect immediately, also for existing sessions and tokens.",
            rule="identity:create_grant",
            is_creation=True,
            icon="plus",
            fields=(
                Field("user_id", "User", "choice", choices=USERS, is_required=True),
                Field("role_id", "Role", "choice", choices=ROLES, is_required=True),
                Field("project_id", "Project", "choice", choices=PROJECT_CHOICES, is_required=True),
                Field("is_inherited", "Only in the projects below it", "check"),
            ),
            call=_grant,
            execute=_assign,
            cli=lambda form: [
                *_cli("add", form.values["role_id"], form.values["user_id"], form.values["project_id"]),
                *(["--inherited"] if form.values.get("is_inherited") else []),
            ],
        ),
        ResourceAction(
            id="remove",
            title="Remove role",
            does="The role's permissions end immediately.",
            rule="identity:revoke_grant",
            is_danger=True,
            is_bulk=True,
            icon="trash",
            fields=(REASON,),
            fields_for=_own_name,
            call=lambda form: Call("DELETE", f"{ROOT}/{form.item['path']}"),
            execute=_remove,
            cli=_cli_remove,
        ),
    ),
)
