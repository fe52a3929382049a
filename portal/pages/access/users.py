"""Users and roles, for administrators. `projects` has the role assignments."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext

from conductor.core.context import RequestContext
from conductor.services.accounts import roles, second_factors, users
from portal.api.identity.representations import resources
from portal.api.identity.schemas.resources import CHANGE_ROLE, CHANGE_USER, CREATE_ROLE, CREATE_USER
from portal.pages.access.identity_lists import PROJECTS, list_roles, list_users
from portal.pages.resources import columns
from portal.pages.resources.fields import (
    DESCRIPTION,
    NAME,
    OWN_DESCRIPTION,
    OWN_NAME,
    REASON,
    filled,
    named,
    options,
    own,
)
from portal.pages.resources.model import (
    Call,
    Cell,
    Column,
    Field,
    FieldOption,
    Item,
    ItemReader,
    Names,
    RelatedRequest,
    RelatedTable,
    Resource,
    ResourceAction,
    SubmittedForm,
)
from portal.pages.status_badges import StatusBadge

ROOT = "/identity/v3"
ENABLED = {True: StatusBadge("good", "enabled"), False: StatusBadge("none", "disabled")}
ENABLED_CHOICES = (FieldOption("true", "Enabled"), FieldOption("false", "Disabled"))
_PASSWORD = Field("password", "Password", "secret", help="Leave empty to prevent sign-in until you set a password.")
_PROJECT = Field(
    "default_project_id",
    "Default project",
    "choice",
    choices=PROJECTS,
    nothing="None",
    start=lambda item: str(item.get("default_project_id") or ""),
    help="Project after sign-in. This doesn't assign a role in it.",
)


def _call(form: SubmittedForm, **changes: Any) -> Call:
    return Call(
        "PATCH", f"{ROOT}/users/{form.item.get('id', 'ID')}", {"user": changes}, secrets=frozenset({"password"})
    )


def _create(form: SubmittedForm) -> Call:
    body = filled(form.values, "name", "email", "description", "default_project_id", "password")
    return Call("POST", f"{ROOT}/users", {"user": body}, secrets=frozenset({"password"}))


def _edit(form: SubmittedForm) -> Call:
    values = form.values
    return _call(
        form,
        name=values["name"],
        email=values["email"] or None,
        description=values["description"],
        default_project_id=values["default_project_id"] or None,
    )


def _get(caller: RequestContext, ident: str) -> Item:
    return resources.user_fields(users.get(ident))


def _make(caller: RequestContext, form: SubmittedForm) -> Item:
    return resources.user_fields(users.create(caller, form.body["user"]))


def _change(caller: RequestContext, form: SubmittedForm) -> Item:
    return resources.user_fields(users.update(caller, users.get(form.item["id"]), form.body["user"]))


def _delete(caller: RequestContext, form: SubmittedForm) -> None:
    users.delete(caller, users.get(form.item["id"]))


def _reset_second_factor(caller: RequestContext, form: SubmittedForm) -> None:
    second_factors.reset(caller, form.item["id"])


def _second_factor(item: Item, names: Names) -> Cell:
    reported = item.get("second_factor")
    if not isinstance(reported, dict):
        return columns.NOTHING
    if not reported.get("is_on"):
        return columns.word("off")
    details = {"count": reported.get("recovery_codes")}
    return Cell("text", gettext("on, %(count)s recovery codes left") % details)


def _has_second_factor(item: Item) -> str:
    reported = item.get("second_factor")
    return "" if isinstance(reported, dict) and reported.get("is_on") else "Two-factor authentication is off."


def only_while(name: str, value: bool, words: str) -> Any:
    """Return a check that disables an action which would change nothing, with the reason."""
    return lambda item: "" if item.get(name) is value else words


USERS = Resource(
    id="users",
    noun="user",
    title="Users",
    icon="user",
    service="identity",
    one="user",
    rule="identity:list_users",
    search="name__icontains",
    is_for_operators=True,
    empty="A user can sign in. Create a user, then assign a role in a project.",
    names=("projects",),
    reader=ItemReader(list_users, _get),
    more=(
        RelatedRequest(
            "second_factor", rule="novella:second_factors:show", service="novella", read=second_factors.describe
        ),
    ),
    filters=(Field("enabled", "State", "choice", nothing="All states", choices=ENABLED_CHOICES),),
    columns=(
        Column("Name", columns.text("name")),
        Column("State", columns.state(ENABLED, "enabled")),
        Column("Email", columns.text("email")),
        Column("Default project", columns.link("default_project_id", "projects")),
        Column("Description", columns.text("description")),
        Column("Two-factor authentication", _second_factor, is_in_list=False),
        Column("Domain", columns.mono("domain_id"), is_in_list=False),
    ),
    parts=(RelatedTable("Roles", "role-assignments", lambda item: {"user.id": str(item["id"])}, "create", "user_id"),),
    actions=(
        ResourceAction(
            id="create",
            title="Create user",
            does="The user can sign in. Assign a role in a project so that they can use it.",
            rule="identity:create_user",
            is_creation=True,
            icon="plus",
            fields=(NAME, _PASSWORD, Field("email", "Email"), _PROJECT, DESCRIPTION),
            call=_create,
            schema=CREATE_USER,
            execute=_make,
            cli=lambda form: [
                "openstack user create",
                *options(form.values, email="email", default_project_id="project", description="description"),
                *(["--password-prompt"] if form.values.get("password") else []),
                form.values.get("name") or "NAME",
            ],
        ),
        ResourceAction(
            id="edit",
            title="Edit",
            does="Changes the name, the default project and other details.",
            rule="identity:update_user",
            fields=(OWN_NAME, own("email", "Email"), _PROJECT, OWN_DESCRIPTION),
            call=_edit,
            schema=CHANGE_USER,
            execute=_change,
            cli=lambda form: [
                "openstack user set",
                *options(form.values, name="name", email="email", default_project_id="project"),
                *options(form.values, description="description"),
                str(form.item.get("id", "ID")),
            ],
        ),
        ResourceAction(
            id="password",
            title="Reset password",
            does="The old password stops working and all sessions of the user end.",
            rule="identity:update_user",
            fields=(Field("password", "New password", "secret", is_required=True), REASON),
            call=lambda form: _call(form, password=form.values["password"]),
            schema=CHANGE_USER,
            execute=_change,
            cli=lambda form: ["openstack user set --password-prompt", named(form.item)],
        ),
        ResourceAction(
            id="second-factor",
            title="Reset two-factor authentication",
            does=(
                "Turns two-factor authentication off for a user who lost their authenticator. They sign in "
                "with their password until they set it up again."
            ),
            rule="novella:second_factors:reset",
            service="novella",
            why_not=_has_second_factor,
            fields=(REASON,),
            call=lambda form: Call("DELETE", f"/api/users/{form.item.get('id', 'ID')}/second-factor"),
            execute=_reset_second_factor,
            cli=lambda form: [
                "curl",
                "-X",
                "DELETE",
                "-H",
                "X-Auth-Token: TOKEN",
                f"/api/users/{form.item.get('id', 'ID')}/second-factor",
            ],
        ),
        ResourceAction(
            id="disable",
            title="Disable",
            does="Signs the user out everywhere and prevents sign-in. Their resources stay and keep running.",
            rule="identity:update_user",
            is_bulk=True,
            why_not=only_while("enabled", True, "The user is already disabled."),
            fields=(REASON,),
            call=lambda form: _call(form, enabled=False),
            schema=CHANGE_USER,
            execute=_change,
            cli=lambda form: ["openstack user set --disable", named(form.item)],
        ),
        ResourceAction(
            id="enable",
            title="Enable",
            does="The user can sign in again, with their previous roles.",
            rule="identity:update_user",
            is_bulk=True,
            why_not=only_while("enabled", False, "The user is enabled."),
            call=lambda form: _call(form, enabled=True),
            schema=CHANGE_USER,
            execute=_change,
            cli=lambda form: ["openstack user set --enable", named(form.item)],
        ),
        ResourceAction(
            id="delete",
            title="Delete",
            does="Deletes the user with all roles, key pairs and credentials. Servers belong to projects and stay.",
            rule="identity:delete_user",
            is_danger=True,
            icon="trash",
            fields=(REASON,),
            call=lambda form: Call("DELETE", f"{ROOT}/users/{form.item['id']}"),
            execute=_delete,
            cli=lambda form: ["openstack user delete", named(form.item)],
        ),
    ),
)


def _get_role(caller: RequestContext, ident: str) -> Item:
    return resources.role_fields(roles.get(ident))


def _make_role(caller: RequestContext, form: SubmittedForm) -> Item:
    return resources.role_fields(roles.create(form.body["role"]))


def _change_role(caller: RequestContext, form: SubmittedForm) -> Item:
    return resources.role_fields(roles.update(form.item["id"], form.body["role"]))


def _delete_role(caller: RequestContext, form: SubmittedForm) -> None:
    roles.delete(form.item["id"])


def _is_built_in(item: Item) -> bool:
    return bool((item.get("options") or {}).get("immutable"))


def _built_in(item: Item) -> str:
    return "Policies use this role. It can't be changed." if _is_built_in(item) else ""


ROLES = Resource(
    id="roles",
    noun="role",
    title="Roles",
    icon="shield",
    service="identity",
    one="role",
    rule="identity:list_roles",
    reader=ItemReader(list_roles, _get_role),
    search="name__icontains",
    is_for_operators=True,
    empty="A role defines what a user can do in a project.",
    columns=(
        Column("Name", columns.text("name")),
        Column("Description", columns.text("description")),
        Column("Kind", lambda item, names: columns.word("built in" if _is_built_in(item) else "your organization's")),
        Column("Domain", columns.mono("domain_id"), is_in_list=False),
    ),
    parts=(
        RelatedTable("Assigned to", "role-assignments", lambda item: {"role.id": str(item["id"])}, "create", "role_id"),
    ),
    actions=(
        ResourceAction(
            id="create",
            title="Create role",
            does="A custom role for your own plugins and policies. The built-in policies use only built-in roles.",
            rule="identity:create_role",
            is_creation=True,
            icon="plus",
            fields=(NAME, DESCRIPTION),
            call=lambda form: Call("POST", f"{ROOT}/roles", {"role": filled(form.values, "name", "description")}),
            schema=CREATE_ROLE,
            execute=_make_role,
            cli=lambda form: [
                "openstack role create",
                *options(form.values, description="description"),
                form.values.get("name") or "NAME",
            ],
        ),
        ResourceAction(
            id="edit",
            title="Edit",
            does="Changes the name or description.",
            rule="identity:update_role",
            why_not=_built_in,
            fields=(OWN_NAME, OWN_DESCRIPTION),
            call=lambda form: Call(
                "PATCH",
                f"{ROOT}/roles/{form.item.get('id', 'ID')}",
                {"role": {"name": form.values["name"], "description": form.values["description"]}},
            ),
            schema=CHANGE_ROLE,
            execute=_change_role,
            cli=lambda form: [
                "openstack role set",
                *options(form.values, name="name", description="description"),
                named(form.item),
            ],
        ),
        ResourceAction(
            id="delete",
            title="Delete",
            does="All users lose this role.",
            rule="identity:delete_role",
            is_danger=True,
            icon="trash",
            why_not=_built_in,
            fields=(REASON,),
            call=lambda form: Call("DELETE", f"{ROOT}/roles/{form.item['id']}"),
            execute=_delete_role,
            cli=lambda form: ["openstack role delete", named(form.item)],
        ),
    ),
)
