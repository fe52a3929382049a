"""Forms of a project's limits, for administrators. The list is in `quota_sets`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from conductor.services.quotas.row_quotas import OF_PROJECTS
from portal.pages.access.projects import USERS
from portal.pages.access.users import ROOT
from portal.pages.projects.quota_groups import COMPUTE_WORDS, NETWORK_WORDS, ROW_WORDS, VOLUME_WORDS
from portal.pages.resources import columns
from portal.pages.resources.fields import REASON, whole
from portal.pages.resources.model import (
    Call,
    Cell,
    Column,
    Field,
    FollowUp,
    Item,
    Names,
    RelatedRequest,
    Resource,
    ResourceAction,
    SubmittedForm,
)

COMPUTE, STORAGE, NETWORK = "/compute/v2.1/os-quota-sets", "/volume/v3/os-quota-sets", "/network/v2.0/quotas"
ROWS, ROW_DEFAULTS = "/api/quotas", "/api/quota-defaults"
CLASSES = {"compute": "/compute/v2.1/os-quota-class-sets", "storage": "/volume/v3/os-quota-class-sets"}
UPDATE = "os_compute_api:os-quota-sets:update"
ROW_DEFAULT_WORDS: Mapping[str, str] = {
    **ROW_WORDS,
    "application_credentials": "Application credentials per user",
    "access_rules": "Access rules per user",
    "trusts": "Trusts per user",
    "credentials": "Stored credentials per user",
}
NAMES: Mapping[str, Mapping[str, str]] = {
    "compute": {**COMPUTE_WORDS, "ram": "Memory (MB)", "key_pairs": "Key pairs per user"},
    "storage": VOLUME_WORDS,
    "network": NETWORK_WORDS,
    "rows": {name: ROW_WORDS[name] for name in OF_PROJECTS},
    "row defaults": ROW_DEFAULT_WORDS,
    "users": {"instances": "Servers", "cores": "vCPU", "ram": "Memory (MB)"},
}
UNLIMITED = -1
_HELP = "-1 for no limit."
_FORCE = Field("force", "Allow values below current usage", "check")


def _limit(item: Item, service: str, name: str) -> Any:
    reported = (item.get(service) or {}).get(name)
    return reported.get("limit") if isinstance(reported, Mapping) else None


def _shown(service: str, name: str) -> Any:
    def show(item: Item, names: Names) -> Cell:
        reported = (item.get(service) or {}).get(name)
        if not isinstance(reported, Mapping):
            return columns.NOTHING
        used, limit = reported.get("in_use", reported.get("used", 0)), reported.get("limit")
        return Cell("number", f"{used} / {'∞' if limit == UNLIMITED else limit}")

    return show


def _fields(service: str, *, begins: bool = True) -> tuple[Field, ...]:
    def start(name: str) -> Any:
        return lambda item: str(_limit(item, service, name)) if begins and item else ""

    return tuple(
        Field(name, words, "number", least=UNLIMITED, start=start(name), help=_HELP if begins else "")
        for name, words in NAMES[service].items()
    )


def _numbers(form: SubmittedForm, service: str) -> dict[str, Any]:
    """Return the numbers that were changed."""
    values = form.values
    return {
        name: int(values[name]) if values[name] == "-1" else whole(values[name])
        for name in NAMES[service]
        if values.get(name) and values[name] != str(_limit(form.item, service, name))
    }


def _compute(form: SubmittedForm) -> Call:
    body = _numbers(form, "compute") | ({"force": True} if form.values.get("force") else {})
    return Call("PUT", f"{COMPUTE}/{form.item.get('id', 'ID')}", {"quota_set": body})


def _of_user(form: SubmittedForm) -> Call:
    body = _numbers(form, "users") | ({"force": True} if form.values.get("force") else {})
    user = quote(form.values.get("user_id") or "USER", safe="")
    return Call("PUT", f"{COMPUTE}/{form.item.get('id', 'ID')}?user_id={user}", {"quota_set": body})


def _network(form: SubmittedForm) -> Call:
    body = _numbers(form, "network")
    checked = {} if form.values.get("force") else {"check_limit": True}
    return Call("PUT", f"{NETWORK}/{form.item.get('id', 'ID')}", {"quota": {**body, **checked}})


def _also_reset(form: SubmittedForm, made: Any) -> Iterable[FollowUp]:
    """Reset the other limits; those of the network service only if it has some of its own."""
    yield FollowUp(Call("DELETE", f"{STORAGE}/{form.item['id']}", reason=form.values.get("reason", "")))
    yield FollowUp(Call("DELETE", f"{ROWS}/{form.item['id']}", reason=form.values.get("reason", "")))
    typical = form.item.get("network_defaults") or {}
    if any(_limit(form.item, "network", name) != typical.get(name) for name in NETWORK_WORDS):
        yield FollowUp(Call("DELETE", f"{NETWORK}/{form.item['id']}", reason=form.values.get("reason", "")))


def _rows(form: SubmittedForm) -> Call:
    return Call("PUT", f"{ROWS}/{form.item.get('id', 'ID')}", {"limits": _numbers(form, "rows")})


def _class_defaults(service: str, *, action_id: str, title: str) -> ResourceAction:
    """Return the form of the defaults of a service with quota classes."""
    return ResourceAction(
        id=action_id,
        title=title,
        does="Applies to projects without their own limits. Empty fields stay unchanged.",
        rule="os_compute_api:os-quota-class-sets:update",
        is_creation=True,
        fields=(*_fields(service, begins=False), REASON),
        call=lambda form: Call("PUT", f"{CLASSES[service]}/default", {"quota_class_set": _numbers(form, service)}),
        cli=lambda form: ["openstack quota set --class", "default"],
    )


def _row_defaults(service: str, *, action_id: str, title: str, does: str) -> ResourceAction:
    """Return the form of defaults that only the API of Novella changes."""
    return ResourceAction(
        id=action_id,
        title=title,
        does=does,
        rule="novella:quotas:change",
        service="novella",
        is_creation=True,
        fields=(*_fields(service, begins=False), REASON),
        call=lambda form: Call("PUT", ROW_DEFAULTS, {"limits": _numbers(form, service)}),
        cli=lambda form: ["curl -X PUT", ROW_DEFAULTS],
    )


def _cli(*words: str) -> Any:
    return lambda form: [*words, str(form.item.get("id", "PROJECT"))]


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
    empty="Quotas belong to projects. Create a project first.",
    id_of=lambda item: str(item.get("id") or ""),
    more=(
        RelatedRequest(
            "compute", f"{COMPUTE}/{{id}}/detail", "quota_set", "os_compute_api:os-quota-sets:detail", "compute"
        ),
        RelatedRequest(
            "storage", f"{STORAGE}/{{id}}?usage=true", "quota_set", "volume_extension:quotas:show", "volume"
        ),
        RelatedRequest("network", f"{NETWORK}/{{id}}/details", "quota", "get_quota", "network"),
        RelatedRequest("rows", f"{ROWS}/{{id}}", "quotas", "novella:quotas:show", "novella"),
        RelatedRequest("network_defaults", f"{NETWORK}/{{id}}/default", "quota", "get_quota", "network"),
    ),
    columns=(
        Column("Project", lambda item, names: Cell("link", str(item["name"]), url=f"/projects/of/{item['id']}")),
        *(
            Column(words, _shown(service, name), is_number=True, is_in_list=False)
            for service in ("compute", "storage", "network", "rows")
            for name, words in NAMES[service].items()
        ),
    ),
    actions=(
        _class_defaults("compute", action_id="defaults", title="Compute defaults"),
        _class_defaults("storage", action_id="storage-defaults", title="Storage defaults"),
        _row_defaults(
            "network",
            action_id="network-defaults",
            title="Network defaults",
            does="Applies to projects without their own limits. Empty fields stay unchanged.",
        ),
        _row_defaults(
            "row defaults",
            action_id="row-defaults",
            title="Other defaults",
            does="Applies to users without their own limits. Empty fields stay unchanged.",
        ),
        ResourceAction(
            id="compute",
            title="Set compute limits",
            does="Limits for the number of servers and their total size.",
            rule=UPDATE,
            fields=(*_fields("compute"), _FORCE, REASON),
            call=_compute,
            cli=_cli("openstack quota set"),
        ),
        ResourceAction(
            id="storage",
            title="Set storage limits",
            does="Limits for volumes and snapshots. Existing ones stay, also above a limit.",
            rule=UPDATE,
            fields=(*_fields("storage"), REASON),
            call=lambda form: Call(
                "PUT", f"{STORAGE}/{form.item.get('id', 'ID')}", {"quota_set": _numbers(form, "storage")}
            ),
            cli=_cli("openstack quota set"),
        ),
        ResourceAction(
            id="network",
            title="Set network limits",
            does="Limits for networks, addresses and rules.",
            rule=UPDATE,
            fields=(*_fields("network"), _FORCE, REASON),
            call=_network,
            cli=_cli("openstack quota set"),
        ),
        ResourceAction(
            id="rows",
            title="Set other limits",
            does="Limits for address scopes, group snapshots and similar resources. Existing resources stay.",
            rule="novella:quotas:change",
            service="novella",
            fields=(*_fields("rows"), REASON),
            call=_rows,
            cli=_cli("curl -X PUT"),
        ),
        ResourceAction(
            id="user",
            title="Set user limits",
            does="Limits for one user within the project's limits. Empty fields stay unchanged.",
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
        ResourceAction(
            id="reset",
            title="Reset to defaults",
            does="The project and its users get the default limits again.",
            rule="os_compute_api:os-quota-sets:delete",
            fields=(REASON,),
            call=lambda form: Call("DELETE", f"{COMPUTE}/{form.item.get('id', 'ID')}"),
            follow_ups=_also_reset,
            cli=_cli("openstack quota delete"),
        ),
    ),
)
