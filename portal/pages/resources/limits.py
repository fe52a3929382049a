"""What a project may have of everything, and what it has; for administrators. The list has a page of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from portal.pages.api_calls import Call
from portal.pages.quota_groups import COMPUTE_WORDS, NETWORK_WORDS, VOLUME_WORDS
from portal.pages.resources import cells
from portal.pages.resources.fields import REASON, whole
from portal.pages.resources.model import Asked, Cell, Column, Deed, Field, Item, More, Names, Resource
from portal.pages.resources.people import ROOT
from portal.pages.resources.rights import USERS

COMPUTE, STORAGE, NETWORK = "/compute/v2.1/os-quota-sets", "/volume/v3/os-quota-sets", "/network/v2.0/quotas"
CLASSES = {"compute": "/compute/v2.1/os-quota-class-sets", "storage": "/volume/v3/os-quota-class-sets"}
UPDATE = "os_compute_api:os-quota-sets:update"
NAMES: Mapping[str, Mapping[str, str]] = {
    "compute": {**COMPUTE_WORDS, "ram": "Memory in MB", "key_pairs": "Key pairs of each"},
    "storage": VOLUME_WORDS,
    "network": NETWORK_WORDS,
    "users": {"instances": "Servers", "cores": "vCPU", "ram": "Memory in MB"},
}
UNLIMITED = -1
_HELP = "-1 for no limit."
_FORCE = Field("force", "Even below what is in use", "check")


def _limit(item: Item, service: str, name: str) -> Any:
    told = (item.get(service) or {}).get(name)
    return told.get("limit") if isinstance(told, Mapping) else None


def _shown(service: str, name: str) -> Any:
    def show(item: Item, names: Names) -> Cell:
        told = (item.get(service) or {}).get(name)
        if not isinstance(told, Mapping):
            return cells.NOTHING
        used, limit = told.get("in_use", told.get("used", 0)), told.get("limit")
        return Cell("number", f"{used} / {'∞' if limit == UNLIMITED else limit}")

    return show


def _fields(service: str, *, begins: bool = True) -> tuple[Field, ...]:
    def start(name: str) -> Any:
        return lambda item: str(_limit(item, service, name)) if begins and item else ""

    return tuple(
        Field(name, words, "number", least=UNLIMITED, start=start(name), help=_HELP if begins else "")
        for name, words in NAMES[service].items()
    )


def _numbers(asked: Asked, service: str) -> dict[str, Any]:
    """Those that were typed and are not what they were."""
    values = asked.values
    return {
        name: int(values[name]) if values[name] == "-1" else whole(values[name])
        for name in NAMES[service]
        if values.get(name) and values[name] != str(_limit(asked.item, service, name))
    }


def _compute(asked: Asked) -> Call:
    body = _numbers(asked, "compute") | ({"force": True} if asked.values.get("force") else {})
    return Call("PUT", f"{COMPUTE}/{asked.item.get('id', 'ID')}", {"quota_set": body})


def _of_user(asked: Asked) -> Call:
    body = _numbers(asked, "users") | ({"force": True} if asked.values.get("force") else {})
    user = quote(asked.values.get("user_id") or "USER", safe="")
    return Call("PUT", f"{COMPUTE}/{asked.item.get('id', 'ID')}?user_id={user}", {"quota_set": body})


def _network(asked: Asked) -> Call:
    body = _numbers(asked, "network")
    checked = {} if asked.values.get("force") else {"check_limit": True}
    return Call("PUT", f"{NETWORK}/{asked.item.get('id', 'ID')}", {"quota": {**body, **checked}})


def _also_reset(asked: Asked, made: Any) -> Iterable[Call]:
    """The other services' limits; those of the network only where they differ, as there is nothing to reset else."""
    yield Call("DELETE", f"{STORAGE}/{asked.item['id']}", reason=asked.values.get("reason", ""))
    usual = asked.item.get("network_defaults") or {}
    if any(_limit(asked.item, "network", name) != usual.get(name) for name in NETWORK_WORDS):
        yield Call("DELETE", f"{NETWORK}/{asked.item['id']}", reason=asked.values.get("reason", ""))


def _class(service: str) -> Any:
    def call(asked: Asked) -> Call:
        return Call("PUT", f"{CLASSES[service]}/default", {"quota_class_set": _numbers(asked, service)})

    return call


def _cli(*words: str) -> Any:
    return lambda asked: [*words, str(asked.item.get("id", "PROJECT"))]


PROJECT_QUOTAS = Resource(
    id="project-quotas",
    noun="quota",
    title="Project quotas",
    icon="meter",
    service="compute",
    path=f"{ROOT}/projects",
    key="projects",
    one="project",
    rule=UPDATE,
    search="name__icontains",
    is_for_operators=True,
    list_route="quota-table",
    empty="Limits are those of projects: make one first.",
    id_of=lambda item: str(item.get("id") or ""),
    more=(
        More("compute", f"{COMPUTE}/{{id}}/detail", "quota_set", "os_compute_api:os-quota-sets:detail", "compute"),
        More("storage", f"{STORAGE}/{{id}}?usage=true", "quota_set", "volume_extension:quotas:show", "volume"),
        More("network", f"{NETWORK}/{{id}}/details", "quota", "get_quota", "network"),
        More("network_defaults", f"{NETWORK}/{{id}}/default", "quota", "get_quota", "network"),
    ),
    columns=(
        Column("Project", lambda item, names: Cell("link", str(item["name"]), url=f"/projects/of/{item['id']}")),
        *(
            Column(words, _shown(service, name), is_number=True, is_in_list=False)
            for service in ("compute", "storage", "network")
            for name, words in NAMES[service].items()
        ),
    ),
    deeds=(
        Deed(
            id="defaults",
            title="Default limits",
            does="Of projects that have none of their own. What is left empty stays as it is.",
            rule="os_compute_api:os-quota-class-sets:update",
            is_creation=True,
            fields=(*_fields("compute", begins=False), REASON),
            call=_class("compute"),
            cli=lambda asked: ["openstack quota set --class", "default"],
        ),
        Deed(
            id="storage-defaults",
            title="Default limits of storage",
            does="Of projects that have none of their own. What is left empty stays as it is.",
            rule="os_compute_api:os-quota-class-sets:update",
            is_creation=True,
            fields=(*_fields("storage", begins=False), REASON),
            call=_class("storage"),
            cli=lambda asked: ["openstack quota set --class", "default"],
        ),
        Deed(
            id="compute",
            title="Limits of compute",
            does="How many servers the project may have, and how large they may be together.",
            rule=UPDATE,
            fields=(*_fields("compute"), _FORCE, REASON),
            call=_compute,
            cli=_cli("openstack quota set"),
        ),
        Deed(
            id="storage",
            title="Limits of storage",
            does="How many volumes and snapshots it may have. What it has stays, also above a limit.",
            rule=UPDATE,
            fields=(*_fields("storage"), REASON),
            call=lambda asked: Call(
                "PUT", f"{STORAGE}/{asked.item.get('id', 'ID')}", {"quota_set": _numbers(asked, "storage")}
            ),
            cli=_cli("openstack quota set"),
        ),
        Deed(
            id="network",
            title="Limits of networks",
            does="How many networks, addresses and rules it may have.",
            rule=UPDATE,
            fields=(*_fields("network"), _FORCE, REASON),
            call=_network,
            cli=_cli("openstack quota set"),
        ),
        Deed(
            id="user",
            title="Limits of one user",
            does="How much of the project's limits one of its people may take. What is left empty stays as it is.",
            rule=UPDATE,
            fields=(
                Field("user_id", "User", "choice", choices=USERS, is_required=True),
                *_fields("users", begins=False),
                _FORCE,
                REASON,
            ),
            call=_of_user,
            cli=_cli("openstack quota set"),
        ),
        Deed(
            id="reset",
            title="Default limits again",
            does="The project and its people have the limits again that hold for everybody.",
            rule="os_compute_api:os-quota-sets:delete",
            fields=(REASON,),
            call=lambda asked: Call("DELETE", f"{COMPUTE}/{asked.item.get('id', 'ID')}"),
            also_calls=_also_reset,
            cli=_cli("openstack quota delete"),
        ),
    ),
)
