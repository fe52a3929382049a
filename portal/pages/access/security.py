"""Access: security groups with their rules, server groups, and application credentials."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.utils.translation import gettext

from conductor.core.context import RequestContext
from conductor.core.page import Page
from conductor.services.accounts import application_credentials
from conductor.services.servers import groups
from conductor.services.servers.types import GroupView
from portal.api.compute.microversions import VERSIONS
from portal.api.compute.schemas.server_groups import create as create_group_schema
from portal.api.identity.representations import delegation
from portal.pages.access.identity_lists import list_credentials
from portal.pages.networking.networks import ROOT, delete
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
    RelatedTable,
    Resource,
    ResourceAction,
    Source,
    SubmittedForm,
)
from portal.pages.resources.shared_actions import rename
from portal.pages.status_badges import StatusBadge

GROUPS = Source(f"{ROOT}/security-groups", "security_groups", lambda item: str(item["name"]))
_PROTOCOLS = tuple(
    FieldOption(value, words)
    for value, words in (
        ("tcp", "TCP"),
        ("udp", "UDP"),
        ("icmp", "ICMP (ping)"),
        ("icmpv6", "ICMPv6"),
        ("sctp", "SCTP"),
        ("", "Any protocol"),
    )
)


def _rule(form: SubmittedForm) -> Call:
    values = form.values
    body: dict[str, Any] = filled(
        values,
        "security_group_id",
        "direction",
        "ethertype",
        "protocol",
        "remote_ip_prefix",
        "remote_group_id",
        "description",
    )
    low, _, high = values.get("ports", "").replace("-", ":").partition(":")
    if low:
        body |= {"port_range_min": whole(low.strip()), "port_range_max": whole((high or low).strip())}
    return Call("POST", f"{ROOT}/security-group-rules", {"security_group_rule": body})


def ports_words(item: Item) -> str:
    low, high = item.get("port_range_min"), item.get("port_range_max")
    if low is None:
        return gettext("all ports")
    if low == high:
        return gettext("port %(port)s") % {"port": low}
    return gettext("ports %(first)s to %(last)s") % {"first": low, "last": high}


def rule_words(item: Item) -> str:
    """Return a rule as a sentence."""
    other = item.get("remote_ip_prefix") or (
        gettext("the group") if item.get("remote_group_id") else gettext("anywhere")
    )
    values = {
        "protocol": item.get("protocol") or gettext("any protocol"),
        "ports": ports_words(item),
        "other": other,
    }
    if item["direction"] == "ingress":
        return gettext("Incoming: %(protocol)s, %(ports)s, from %(other)s") % values
    return gettext("Outgoing: %(protocol)s, %(ports)s, to %(other)s") % values


def _remote(item: Item, names: Names) -> Cell:
    if item.get("remote_group_id"):
        return columns.link_to(str(item["remote_group_id"]), "security-groups", names)
    return Cell("mono", str(item.get("remote_ip_prefix") or gettext("anywhere")))


def _count(item: Item, names: Names) -> Cell:
    return Cell("number", str(len(item.get("security_group_rules") or ())))


SECURITY = (
    Resource(
        id="security-groups",
        noun="security group",
        title="Security groups",
        icon="shield",
        service="network",
        path=f"{ROOT}/security-groups",
        key="security_groups",
        one="security_group",
        rule="get_security_group",
        sorting="sort_key",
        empty="A security group controls which traffic can reach a server.",
        tool=("reach", "Connectivity check"),
        columns=(
            Column("Name", columns.text("name"), sort="name"),
            Column("Rules", _count, is_number=True),
            Column("Description", columns.text("description")),
            Column("Age", columns.age("created_at"), is_number=True, sort="created_at"),
            Column("Stateful", columns.yes("stateful"), is_in_list=False),
        ),
        parts=(
            RelatedTable(
                "Rules",
                "security-rules",
                lambda item: {"security_group_id": str(item["id"])},
                "create",
                "security_group_id",
            ),
        ),
        actions=(
            ResourceAction(
                id="create",
                title="Create security group",
                does="A new group allows all outgoing traffic and no incoming traffic until you add rules.",
                rule="create_security_group",
                is_creation=True,
                icon="plus",
                fields=(NAME, DESCRIPTION),
                call=lambda form: Call(
                    "POST", f"{ROOT}/security-groups", {"security_group": filled(form.values, "name", "description")}
                ),
                cli=lambda form: [
                    "openstack security group create",
                    *options(form.values, description="description"),
                    form.values.get("name") or "NAME",
                ],
            ),
            rename("security_group", "update_security_group", f"{ROOT}/security-groups", "security group"),
            replace(
                delete(
                    "delete_security_group",
                    "security-groups",
                    "security group",
                    ("Remove the group from all servers first."),
                ),
                why_not=lambda item: "Every project keeps its default group." if item["name"] == "default" else "",
            ),
        ),
    ),
    Resource(
        id="security-rules",
        noun="rule",
        title="Security rules",
        icon="shield",
        service="network",
        path=f"{ROOT}/security-group-rules",
        key="security_group_rules",
        one="security_group_rule",
        rule="get_security_group_rule",
        empty="A rule allows one type of traffic.",
        names=("security-groups",),
        name_of=rule_words,
        columns=(
            Column("Rule", lambda item, names: Cell("text", rule_words(item))),
            Column("Group", columns.link("security_group_id", "security-groups")),
            Column("Remote", _remote),
            Column("IP", columns.text("ethertype")),
            Column("Description", columns.text("description")),
        ),
        actions=(
            ResourceAction(
                id="create",
                title="Add rule",
                does="Allows one type of traffic. Replies are allowed automatically.",
                rule="create_security_group_rule",
                is_creation=True,
                icon="plus",
                fields=(
                    Field("security_group_id", "Group", "choice", choices=GROUPS, is_required=True),
                    Field(
                        "direction",
                        "Direction",
                        "choice",
                        choices=(
                            FieldOption("ingress", ("Ingress: to the servers")),
                            FieldOption("egress", "Egress: from the servers"),
                        ),
                    ),
                    Field("protocol", "Protocol", "choice", choices=_PROTOCOLS, start="tcp"),
                    Field(
                        "ports",
                        "Ports",
                        help=(
                            "For example 22 for SSH, 443 for HTTPS or 8000:8010 for a range. Leave empty to "
                            "allow all ports."
                        ),
                        also=("port_range_min", "port_range_max"),
                    ),
                    Field(
                        "remote_ip_prefix",
                        "Addresses",
                        help=("For example 203.0.113.0/24. Leave empty to allow all addresses."),
                    ),
                    Field(
                        "remote_group_id",
                        "Source security group",
                        "choice",
                        choices=GROUPS,
                        nothing="No security group",
                    ),
                    Field(
                        "ethertype", "IP", "choice", choices=(FieldOption("IPv4", "IPv4"), FieldOption("IPv6", "IPv6"))
                    ),
                    DESCRIPTION,
                ),
                call=_rule,
                cli=lambda form: [
                    "openstack security group rule create",
                    f"--{form.values.get('direction') or 'ingress'}",
                    *options(
                        form.values,
                        protocol="protocol",
                        ports="dst-port",
                        remote_ip_prefix="remote-ip",
                        remote_group_id="remote-group",
                        ethertype="ethertype",
                    ),
                    form.values.get("security_group_id") or "GROUP",
                ],
            ),
            ResourceAction(
                id="delete",
                title="Delete",
                does="Traffic that only this rule allows is blocked immediately.",
                rule="delete_security_group_rule",
                is_danger=True,
                is_bulk=True,
                icon="trash",
                call=lambda form: Call("DELETE", f"{ROOT}/security-group-rules/{form.item['id']}"),
                cli=lambda form: ["openstack security group rule delete", str(form.item["id"])],
            ),
        ),
    ),
)

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
    path=_GROUP_PATH,
    key="server_groups",
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
    path=_CREDENTIALS,
    key="application_credentials",
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
