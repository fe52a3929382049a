"""Users and the roles that there are, for administrators. Who has which role where is in `rights`."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext

from portal.pages.api_calls import Call
from portal.pages.faces import Face
from portal.pages.resources import cells
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
from portal.pages.resources.flavor_deeds import PROJECTS
from portal.pages.resources.model import Asked, Cell, Choice, Column, Deed, Field, Item, More, Names, Part, Resource

ROOT = "/identity/v3"
ENABLED = {True: Face("good", "enabled"), False: Face("none", "disabled")}
ENABLED_CHOICES = (Choice("true", "Enabled"), Choice("false", "Disabled"))
_PASSWORD = Field("password", "Password", "secret", help="Left empty, nobody signs in as them until one is set.")
_PROJECT = Field(
    "default_project_id",
    "Default project",
    "choice",
    choices=PROJECTS,
    nothing="None",
    start=lambda item: str(item.get("default_project_id") or ""),
    help="Where they begin. It gives no role there.",
)


def _call(asked: Asked, **changes: Any) -> Call:
    return Call(
        "PATCH", f"{ROOT}/users/{asked.item.get('id', 'ID')}", {"user": changes}, secrets=frozenset({"password"})
    )


def _create(asked: Asked) -> Call:
    body = filled(asked.values, "name", "email", "description", "default_project_id", "password")
    return Call("POST", f"{ROOT}/users", {"user": body}, secrets=frozenset({"password"}))


def _edit(asked: Asked) -> Call:
    values = asked.values
    return _call(
        asked,
        name=values["name"],
        email=values["email"] or None,
        description=values["description"],
        default_project_id=values["default_project_id"] or None,
    )


def _second_factor(item: Item, names: Names) -> Cell:
    told = item.get("second_factor")
    if not isinstance(told, dict):
        return cells.NOTHING
    if not told.get("is_on"):
        return cells.word("none: a password is enough")
    said = {"count": told.get("recovery_codes")}
    return Cell("text", gettext("an authenticator, %(count)s recovery codes left") % said)


def _has_second_factor(item: Item) -> str:
    told = item.get("second_factor")
    return "" if isinstance(told, dict) and told.get("is_on") else "They have set up none."


def only_while(name: str, value: bool, words: str) -> Any:
    """A reason against what would change nothing."""
    return lambda item: "" if item.get(name) is value else words


USERS = Resource(
    id="users",
    noun="user",
    title="Users",
    icon="user",
    service="identity",
    path=f"{ROOT}/users",
    key="users",
    one="user",
    rule="identity:list_users",
    search="name__icontains",
    is_for_operators=True,
    empty="Whoever signs in is a user. Make one, then give them a role in a project.",
    names=("projects",),
    more=(More("second_factor", "/api/users/{id}/second-factor", "second_factor", "identity:update_user"),),
    filters=(Field("enabled", "State", "choice", nothing="Enabled and disabled", choices=ENABLED_CHOICES),),
    columns=(
        Column("Name", cells.text("name")),
        Column("State", cells.state(ENABLED, "enabled")),
        Column("E-mail", cells.text("email")),
        Column("Default project", cells.link("default_project_id", "projects")),
        Column("Description", cells.text("description")),
        Column("Second factor", _second_factor, is_in_list=False),
        Column("Domain", cells.mono("domain_id"), is_in_list=False),
    ),
    parts=(Part("Roles", "role-assignments", lambda item: {"user.id": str(item["id"])}, "create", "user_id"),),
    deeds=(
        Deed(
            id="create",
            title="Create user",
            does="They can sign in, and do nothing until they have a role in a project.",
            rule="identity:create_user",
            is_creation=True,
            icon="plus",
            fields=(NAME, _PASSWORD, Field("email", "E-mail"), _PROJECT, DESCRIPTION),
            call=_create,
            cli=lambda asked: [
                "openstack user create",
                *options(asked.values, email="email", default_project_id="project", description="description"),
                *(["--password-prompt"] if asked.values.get("password") else []),
                asked.values.get("name") or "NAME",
            ],
        ),
        Deed(
            id="edit",
            title="Edit",
            does="What they are called and where they begin.",
            rule="identity:update_user",
            fields=(OWN_NAME, own("email", "E-mail"), _PROJECT, OWN_DESCRIPTION),
            call=_edit,
            cli=lambda asked: [
                "openstack user set",
                *options(asked.values, name="name", email="email", default_project_id="project"),
                *options(asked.values, description="description"),
                str(asked.item.get("id", "ID")),
            ],
        ),
        Deed(
            id="password",
            title="Reset password",
            does="The old one is worth nothing from now on, and every session of theirs ends.",
            rule="identity:update_user",
            fields=(Field("password", "New password", "secret", is_required=True), REASON),
            call=lambda asked: _call(asked, password=asked.values["password"]),
            cli=lambda asked: ["openstack user set --password-prompt", named(asked.item)],
        ),
        Deed(
            id="second-factor",
            title="Reset second factor",
            does="For somebody who has lost their authenticator: a password is enough again, until they set one up.",
            rule="identity:update_user",
            why_not=_has_second_factor,
            fields=(REASON,),
            call=lambda asked: Call("DELETE", f"/api/users/{asked.item.get('id', 'ID')}/second-factor"),
            cli=lambda asked: [
                *("curl", "-X", "DELETE", "-H", "X-Auth-Token: TOKEN"),
                f"/api/users/{asked.item.get('id', 'ID')}/second-factor",
            ],
        ),
        Deed(
            id="disable",
            title="Disable",
            does="They are signed out everywhere and cannot sign in. What they made stays and runs on.",
            rule="identity:update_user",
            is_bulk=True,
            why_not=only_while("enabled", True, "They are disabled already."),
            fields=(REASON,),
            call=lambda asked: _call(asked, enabled=False),
            cli=lambda asked: ["openstack user set --disable", named(asked.item)],
        ),
        Deed(
            id="enable",
            title="Enable",
            does="They can sign in again, with the roles that they had.",
            rule="identity:update_user",
            is_bulk=True,
            why_not=only_while("enabled", False, "They are enabled."),
            call=lambda asked: _call(asked, enabled=True),
            cli=lambda asked: ["openstack user set --enable", named(asked.item)],
        ),
        Deed(
            id="delete",
            title="Delete",
            does="Their roles, key pairs and credentials go with them. Servers belong to projects, and stay.",
            rule="identity:delete_user",
            is_danger=True,
            icon="trash",
            fields=(REASON,),
            call=lambda asked: Call("DELETE", f"{ROOT}/users/{asked.item['id']}"),
            cli=lambda asked: ["openstack user delete", named(asked.item)],
        ),
    ),
)


def _is_built_in(item: Item) -> bool:
    return bool((item.get("options") or {}).get("immutable"))


def _built_in(item: Item) -> str:
    return "The rules of this cloud name it: it stays as it is." if _is_built_in(item) else ""


ROLES = Resource(
    id="roles",
    noun="role",
    title="Roles",
    icon="shield",
    service="identity",
    path=f"{ROOT}/roles",
    key="roles",
    one="role",
    rule="identity:list_roles",
    search="name__icontains",
    is_for_operators=True,
    empty="A role says what somebody may do in a project.",
    columns=(
        Column("Name", cells.text("name")),
        Column("Description", cells.text("description")),
        Column("Kind", lambda item, names: cells.word("built in" if _is_built_in(item) else "of your own")),
        Column("Domain", cells.mono("domain_id"), is_in_list=False),
    ),
    parts=(Part("Who has it", "role-assignments", lambda item: {"role.id": str(item["id"])}, "create", "role_id"),),
    deeds=(
        Deed(
            id="create",
            title="Create role",
            does="A name that plugins and rules of your own can ask for. The rules that ship know only their own.",
            rule="identity:create_role",
            is_creation=True,
            icon="plus",
            fields=(NAME, DESCRIPTION),
            call=lambda asked: Call("POST", f"{ROOT}/roles", {"role": filled(asked.values, "name", "description")}),
            cli=lambda asked: [
                "openstack role create",
                *options(asked.values, description="description"),
                asked.values.get("name") or "NAME",
            ],
        ),
        Deed(
            id="edit",
            title="Edit",
            does="Another name or description.",
            rule="identity:update_role",
            why_not=_built_in,
            fields=(OWN_NAME, OWN_DESCRIPTION),
            call=lambda asked: Call(
                "PATCH",
                f"{ROOT}/roles/{asked.item.get('id', 'ID')}",
                {"role": {"name": asked.values["name"], "description": asked.values["description"]}},
            ),
            cli=lambda asked: [
                "openstack role set",
                *options(asked.values, name="name", description="description"),
                named(asked.item),
            ],
        ),
        Deed(
            id="delete",
            title="Delete",
            does="Everybody who has it loses it.",
            rule="identity:delete_role",
            is_danger=True,
            icon="trash",
            why_not=_built_in,
            fields=(REASON,),
            call=lambda asked: Call("DELETE", f"{ROOT}/roles/{asked.item['id']}"),
            cli=lambda asked: ["openstack role delete", named(asked.item)],
        ),
    ),
)
