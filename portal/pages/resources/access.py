"""Who may reach what: security groups with their rules, server groups, and application credentials."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from portal.pages.api_calls import Call
from portal.pages.faces import Face
from portal.pages.resources import cells
from portal.pages.resources.fields import DESCRIPTION, NAME, filled, named, options, whole
from portal.pages.resources.model import Asked, Cell, Choice, Column, Deed, Field, Item, Names, Part, Resource, Source
from portal.pages.resources.networks import ROOT, delete
from portal.pages.resources.shared_deeds import rename

GROUPS = Source(f"{ROOT}/security-groups", "security_groups", lambda item: str(item["name"]))
_PROTOCOLS = tuple(
    Choice(value, words)
    for value, words in (
        ("tcp", "TCP"),
        ("udp", "UDP"),
        ("icmp", "ICMP (ping)"),
        ("icmpv6", "ICMPv6"),
        ("sctp", "SCTP"),
        ("", "Any protocol"),
    )
)


def _rule(asked: Asked) -> Call:
    values = asked.values
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
        return "all ports"
    return f"port {low}" if low == high else f"ports {low} to {high}"


def rule_words(item: Item) -> str:
    """A rule as a sentence."""
    way, word = ("In", "from") if item["direction"] == "ingress" else ("Out", "to")
    protocol = str(item.get("protocol") or "any protocol")
    who = item.get("remote_ip_prefix") or ("the group" if item.get("remote_group_id") else "anywhere")
    return f"{way}: {protocol}, {ports_words(item)}, {word} {who}"


def _remote(item: Item, names: Names) -> Cell:
    if item.get("remote_group_id"):
        return cells.link_to(str(item["remote_group_id"]), "security-groups", names)
    return Cell("mono", str(item.get("remote_ip_prefix") or "anywhere"))


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
        empty="A security group says what may reach a server.",
        tool=("reach", "Can A reach B?"),
        columns=(
            Column("Name", cells.text("name"), sort="name"),
            Column("Rules", _count, is_number=True),
            Column("Description", cells.text("description")),
            Column("Age", cells.age("created_at"), is_number=True, sort="created_at"),
            Column("Remembers connections", cells.yes("stateful"), is_in_list=False),
        ),
        parts=(
            Part(
                "Rules",
                "security-rules",
                lambda item: {"security_group_id": str(item["id"])},
                "create",
                "security_group_id",
            ),
        ),
        deeds=(
            Deed(
                id="create",
                title="Create security group",
                does="A new group lets everything out and nothing in, until it has rules.",
                rule="create_security_group",
                is_creation=True,
                icon="plus",
                fields=(NAME, DESCRIPTION),
                call=lambda asked: Call(
                    "POST", f"{ROOT}/security-groups", {"security_group": filled(asked.values, "name", "description")}
                ),
                cli=lambda asked: [
                    "openstack security group create",
                    *options(asked.values, description="description"),
                    asked.values.get("name") or "NAME",
                ],
            ),
            rename("security_group", "update_security_group", f"{ROOT}/security-groups", "security group"),
            replace(
                delete("delete_security_group", "security-groups", "security group", "No server may have it any more."),
                why_not=lambda item: "Every project keeps this one." if item["name"] == "default" else "",
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
        empty="A rule lets one kind of traffic through.",
        names=("security-groups",),
        name_of=rule_words,
        columns=(
            Column("Rule", lambda item, names: Cell("text", rule_words(item))),
            Column("Group", cells.link("security_group_id", "security-groups")),
            Column("With", _remote),
            Column("IP", cells.text("ethertype")),
            Column("Description", cells.text("description")),
        ),
        deeds=(
            Deed(
                id="create",
                title="Add rule",
                does="Let one kind of traffic through. Answers to it come back by themselves.",
                rule="create_security_group_rule",
                is_creation=True,
                icon="plus",
                fields=(
                    Field("security_group_id", "Group", "choice", choices=GROUPS, is_required=True),
                    Field(
                        "direction",
                        "Direction",
                        "choice",
                        choices=(Choice("ingress", "In: to the servers"), Choice("egress", "Out: from the servers")),
                    ),
                    Field("protocol", "Protocol", "choice", choices=_PROTOCOLS, start="tcp"),
                    Field(
                        "ports",
                        "Ports",
                        help="22 for SSH, 80 for HTTP, 443 for HTTPS, 8000:8010 for a range; empty for all.",
                        also=("port_range_min", "port_range_max"),
                    ),
                    Field("remote_ip_prefix", "Addresses", help="A range such as 203.0.113.0/24; empty for any."),
                    Field("remote_group_id", "Or servers of", "choice", choices=GROUPS, nothing="No group"),
                    Field("ethertype", "IP", "choice", choices=(Choice("IPv4", "IPv4"), Choice("IPv6", "IPv6"))),
                    DESCRIPTION,
                ),
                call=_rule,
                cli=lambda asked: [
                    "openstack security group rule create",
                    f"--{asked.values.get('direction') or 'ingress'}",
                    *options(
                        asked.values,
                        protocol="protocol",
                        ports="dst-port",
                        remote_ip_prefix="remote-ip",
                        remote_group_id="remote-group",
                        ethertype="ethertype",
                    ),
                    asked.values.get("security_group_id") or "GROUP",
                ],
            ),
            Deed(
                id="delete",
                title="Delete",
                does="What only this rule lets through is stopped at once.",
                rule="delete_security_group_rule",
                is_danger=True,
                is_bulk=True,
                icon="trash",
                call=lambda asked: Call("DELETE", f"{ROOT}/security-group-rules/{asked.item['id']}"),
                cli=lambda asked: ["openstack security group rule delete", str(asked.item["id"])],
            ),
        ),
    ),
)

_POLICIES = (
    Choice("anti-affinity", "Apart: never two on one host"),
    Choice("affinity", "Together: all on one host"),
    Choice("soft-anti-affinity", "Apart where it can be"),
    Choice("soft-affinity", "Together where it can be"),
)
_GROUP_PATH = "/compute/v2.1/os-server-groups"


def _create_group(asked: Asked) -> Call:
    body: dict[str, Any] = filled(asked.values, "name", "policy")
    if asked.values.get("max_server_per_host"):
        body["rules"] = {"max_server_per_host": whole(asked.values["max_server_per_host"])}
    return Call("POST", _GROUP_PATH, {"server_group": body})


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
    empty="A server group keeps its servers together on one host, or apart on different ones.",
    names=("servers",),
    columns=(
        Column("Name", cells.text("name")),
        Column("Policy", cells.text("policy", words={one.value: one.words for one in _POLICIES})),
        Column("Servers", cells.links("members", "servers")),
        Column("Rules", cells.pairs("rules"), is_in_list=False),
    ),
    deeds=(
        Deed(
            id="create",
            title="Create server group",
            does="Servers join it when they are launched, and keep to its policy when they move.",
            rule="os_compute_api:os-server-groups:create",
            is_creation=True,
            icon="plus",
            fields=(
                NAME,
                Field("policy", "Policy", "choice", choices=_POLICIES),
                Field(
                    "max_server_per_host",
                    "At most so many on one host",
                    "number",
                    least=1,
                    help="For the policy “apart” only.",
                    also=("rules",),
                ),
            ),
            call=_create_group,
            cli=lambda asked: [
                "openstack server group create",
                *options(asked.values, policy="policy"),
                asked.values.get("name") or "NAME",
            ],
        ),
        Deed(
            id="delete",
            title="Delete",
            does="Its servers stay where they are, and are held to nothing any more.",
            rule="os_compute_api:os-server-groups:delete",
            is_danger=True,
            is_bulk=True,
            icon="trash",
            call=lambda asked: Call("DELETE", f"{_GROUP_PATH}/{asked.item['id']}"),
            cli=lambda asked: ["openstack server group delete", named(asked.item)],
        ),
    ),
)

_CREDENTIALS = "/identity/v3/users/{user_id}/application_credentials"


def _create_credential(asked: Asked) -> Call:
    body: dict[str, Any] = filled(asked.values, "name", "description")
    if asked.values.get("expires_at"):
        moment = asked.values["expires_at"]
        body["expires_at"] = f"{moment}:00Z" if len(moment) == 16 else moment
    if asked.values.get("role"):
        body["roles"] = [{"name": asked.values["role"]}]
    return Call("POST", _CREDENTIALS.format(user_id=asked.user_id), {"application_credential": body})


def _delete_credential(asked: Asked) -> Call:
    return Call("DELETE", f"{_CREDENTIALS.format(user_id=asked.user_id)}/{asked.item['id']}")


def _roles(item: Item, names: Names) -> Cell:
    return Cell("text", ", ".join(str(role.get("name")) for role in item.get("roles") or ()) or "–")


def _until(item: Item, names: Names) -> Cell:
    moment = cells.moment_of(item.get("expires_at"))
    return Cell("time", moment=moment) if moment else cells.word("for ever")


def _restriction(item: Item, names: Names) -> Cell:
    is_open = bool(item.get("unrestricted"))
    return Cell("state", face=Face("waiting", "may make others") if is_open else Face("good", "restricted"))


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
    is_paged=False,
    empty="A program signs in with an application credential instead of your password. It holds for one project.",
    columns=(
        Column("Name", cells.text("name")),
        Column("Kind", _restriction),
        Column("Roles", _roles),
        Column("Valid until", _until),
        Column("Description", cells.text("description")),
        Column("Project", cells.mono("project_id"), is_in_list=False),
    ),
    deeds=(
        Deed(
            id="create",
            title="Create credential",
            does="Its secret is shown once, on the next page. It can do what you can do in this project, and no more.",
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
                    nothing="All of mine",
                    choices=(Choice("reader", "Only reading"), Choice("member", "Reading and changing")),
                    also=("roles",),
                ),
                Field("expires_at", "Valid until (UTC)", "time", help="Left empty, until it is deleted."),
            ),
            call=_create_credential,
            cli=lambda asked: [
                "openstack application credential create",
                *options(asked.values, description="description", role="role", expires_at="expiration"),
                asked.values.get("name") or "NAME",
            ],
            reveals="secret",
            reveal_name="secret",
        ),
        Deed(
            id="delete",
            title="Delete",
            does="Programs that use it are locked out at once.",
            rule="identity:delete_application_credential",
            is_danger=True,
            is_bulk=True,
            icon="trash",
            call=_delete_credential,
            cli=lambda asked: ["openstack application credential delete", named(asked.item)],
        ),
    ),
)
