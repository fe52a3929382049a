"""Access: server groups and application credentials."""

from __future__ import annotations

from typing import Any

from conductor.core.context import RequestContext
from conductor.core.page import Page
from conductor.services.accounts import application_credentials
from conductor.services.servers import groups
from conductor.services.servers.types import GroupView
from portal.api.compute.microversions import VERSIONS
from portal.api.compute.schemas.server_groups import create as create_group_schema
from portal.api.identity.representations import delegation
from portal.pages.access.identity_lists import list_credentials
from portal.pages.resources import columns
from portal.pages.resources.fields import DESCRIPTION, NAME, filled, named, options, whole
from portal.pages.resources.model import (
    Call,
    Cell,
    Column,
    Field,
    FieldOption,
    Item,
    ItemReader,
    Names,
    Query,
    Resource,
    ResourceAction,
    SubmittedForm,
)
from portal.pages.status_badges import StatusBadge

_POLICIES = (
    FieldOption("anti-affinity", "Anti-affinity: on different hosts"),
    FieldOption("affinity", "Affinity: all on one host"),
    FieldOption("soft-anti-affinity", "Soft anti-affinity: on different hosts if possible"),
    FieldOption("soft-affinity", "Soft affinity: on one host if possible"),
)
_GROUP_PATH = "/compute/v2.1/os-server-groups"


def _create_group(form: SubmittedForm) -> Call:
    body: dict[str, Any] = filled(form.values, "name", "policy")
    if form.values.get("max_server_per_host"):
        body["rules"] = {"max_server_per_host": whole(form.values["max_server_per_host"])}
    return Call("POST", _GROUP_PATH, {"server_group": body})


def _group_item(group: GroupView) -> Item:
    return {
        "id": group.uuid,
        "name": group.name,
        "policy": group.policy,
        "members": group.member_uuids,
        "rules": group.rules,
    }


def _list_groups(caller: RequestContext, query: Query) -> Page[Item]:
    return Page([_group_item(one) for one in groups.list_groups(caller)])


def _make_group(caller: RequestContext, form: SubmittedForm) -> Item:
    values = form.body["server_group"]
    rules = {name: int(value) for name, value in values.get("rules", {}).items()}
    return _group_item(groups.create(caller, values["name"], values["policy"], rules))


def _delete_group(caller: RequestContext, form: SubmittedForm) -> None:
    groups.delete(caller, form.item["id"])


SERVER_GROUPS = Resource(
    id="server-groups",
    noun="server group",
    title="Server groups",
    icon="group",
    service="compute",
    one="server_group",
    rule="os_compute_api:os-server-groups:index",
    is_paged=False,
    reader=ItemReader(
        _list_groups,
        lambda caller, ident: _group_item(groups.get(caller, ident)),
        "os_compute_api:os-server-groups:show",
    ),
    empty="A server group keeps its servers together on one host, or apart on different hosts.",
    names=("servers",),
    columns=(
        Column("Name", columns.text("name")),
        Column("Policy", columns.text("policy", words={one.value: one.words for one in _POLICIES})),
        Column("Servers", columns.links("members", "servers")),
        Column("Rules", columns.pairs("rules"), is_in_list=False),
    ),
    actions=(
        ResourceAction(
            id="create",
            title="Create server group",
            does="Servers join a group when you launch them. The policy also applies when servers move.",
            rule="os_compute_api:os-server-groups:create",
            is_creation=True,
            icon="plus",
            fields=(
                NAME,
                Field("policy", "Policy", "choice", choices=_POLICIES),
                Field(
                    "max_server_per_host",
                    "Maximum servers per host",
                    "number",
                    least=1,
                    help="Only for the anti-affinity policy.",
                    also=("rules",),
                ),
            ),
            call=_create_group,
            schema=create_group_schema(VERSIONS.maximum),
            execute=_make_group,
            cli=lambda form: [
                "openstack server group create",
                *options(form.values, policy="policy"),
                form.values.get("name") or "NAME",
            ],
        ),
        ResourceAction(
            id="delete",
            title="Delete",
            does="Its servers stay on their hosts. The group's policy no longer applies to them.",
            rule="os_compute_api:os-server-groups:delete",
            is_danger=True,
            is_bulk=True,
            icon="trash",
            call=lambda form: Call("DELETE", f"{_GROUP_PATH}/{form.item['id']}"),
            execute=_delete_group,
            cli=lambda form: ["openstack server group delete", named(form.item)],
        ),
    ),
)

_CREDENTIALS = "/identity/v3/users/{user_id}/application_credentials"


def _create_credential(form: SubmittedForm) -> Call:
    body: dict[str, Any] = filled(form.values, "name", "description")
    if form.values.get("expires_at"):
        moment = form.values["expires_at"]
        body["expires_at"] = f"{moment}:00Z" if len(moment) == 16 else moment
    if form.values.get("role"):
        body["roles"] = [{"name": form.values["role"]}]
    return Call("POST", _CREDENTIALS.format(user_id=form.user_id), {"application_credential": body})


def _delete_credential(form: SubmittedForm) -> Call:
    return Call("DELETE", f"{_CREDENTIALS.format(user_id=form.user_id)}/{form.item['id']}")


def _get_credential(caller: RequestContext, ident: str) -> Item:
    return delegation.application_credential_fields(application_credentials.get(caller, ident))


def _make_credential(caller: RequestContext, form: SubmittedForm) -> Item:
    requested = delegation.application_credential_request(form.body)
    created, secret = application_credentials.create(caller, requested)
    return {**delegation.application_credential_fields(created), "secret": secret}


def _remove_credential(caller: RequestContext, form: SubmittedForm) -> None:
    application_credentials.delete(caller, form.item["id"])


def _roles(item: Item, names: Names) -> Cell:
    return Cell("text", ", ".join(str(role.get("name")) for role in item.get("roles") or ()) or "–")


def _until(item: Item, names: Names) -> Cell:
    moment = columns.moment_of(item.get("expires_at"))
    return Cell("time", moment=moment) if moment else columns.word("no expiry")


def _restriction(item: Item, names: Names) -> Cell:
    is_open = bool(item.get("unrestricted"))
    return Cell(
        "state",
        badge=StatusBadge("waiting", "can create credentials") if is_open else StatusBadge("good", "restricted"),
    )


CREDENTIALS = Resource(
    id="credentials",
    noun="application credential",
    title="Application credentials",
    icon="key",
    service="identity",
    one="application_credential",
    rule="identity:list_application_credentials",
    reader=ItemReader(list_credentials, _get_credential),
    is_paged=False,
    empty="Programs sign in with an application credential instead of your password. It's valid for one project.",
    columns=(
        Column("Name", columns.text("name")),
        Column("Kind", _restriction),
        Column("Roles", _roles),
        Column("Valid until", _until),
        Column("Description", columns.text("description")),
        Column("Project", columns.mono("project_id"), is_in_list=False),
    ),
    actions=(
        ResourceAction(
            id="create",
            title="Create credential",
            does="The secret is shown once, on the next page. The credential has your permissions in this project.",
            rule="identity:create_application_credential",
            is_creation=True,
            icon="plus",
            fields=(
                NAME,
                DESCRIPTION,
                Field(
                    "role",
                    "Role",
                    "choice",
                    nothing="All my projects",
                    choices=(FieldOption("reader", "Read-only"), FieldOption("member", "Read and write")),
                    also=("roles",),
                ),
                Field("expires_at", "Valid until (UTC)", "time", help="Leave empty for no expiry."),
            ),
            call=_create_credential,
            execute=_make_credential,
            cli=lambda form: [
                "openstack application credential create",
                *options(form.values, description="description", role="role", expires_at="expiration"),
                form.values.get("name") or "NAME",
            ],
            reveals="secret",
            reveal_name="secret",
        ),
        ResourceAction(
            id="delete",
            title="Delete",
            does="Programs that use it lose access immediately.",
            rule="identity:delete_application_credential",
            is_danger=True,
            is_bulk=True,
            icon="trash",
            call=_delete_credential,
            execute=_remove_credential,
            cli=lambda form: ["openstack application credential delete", named(form.item)],
        ),
    ),
)
