"""Security groups and their rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.utils.translation import gettext

from portal.api.network import resources as api
from portal.pages.networking.choices import GROUPS
from portal.pages.networking.collections import ROOT, create, delete, reader, rename
from portal.pages.resources import columns
from portal.pages.resources.fields import DESCRIPTION, NAME, filled, options, whole
from portal.pages.resources.model import (
    Call,
    Cell,
    Column,
    Field,
    FieldOption,
    Item,
    Names,
    RelatedTable,
    Resource,
    ResourceAction,
    SubmittedForm,
)

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
        one="security_group",
        rule="get_security_group",
        reader=reader(api.SECURITY_GROUPS),
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
                schema=api.SECURITY_GROUPS.creation_body,
                execute=create(api.SECURITY_GROUPS),
                cli=lambda form: [
                    "openstack security group create",
                    *options(form.values, description="description"),
                    form.values.get("name") or "NAME",
                ],
            ),
            rename(api.SECURITY_GROUPS, "security-groups", "security group"),
            replace(
                delete(
                    api.SECURITY_GROUPS,
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
        one="security_group_rule",
        rule="get_security_group_rule",
        reader=reader(api.SECURITY_GROUP_RULES),
        empty="A rule allows one type of traffic.",
        names=("security-groups",),
        name_of=rule_words,
        whole=("security-groups", "security_group_id"),
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
                schema=api.SECURITY_GROUP_RULES.creation_body,
                execute=create(api.SECURITY_GROUP_RULES),
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
            replace(
                delete(
                    api.SECURITY_GROUP_RULES,
                    "security-group-rules",
                    "security group rule",
                    "Traffic that only this rule allows is blocked immediately.",
                ),
                cli=lambda form: ["openstack security group rule delete", str(form.item["id"])],
            ),
        ),
    ),
)
