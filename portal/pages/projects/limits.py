"""Forms of a project's limits, for administrators. The list is in `quota_sets`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote

from conductor.core.context import RequestContext
from conductor.services.quotas import network_quotas, quotas, row_quotas, volume_quotas
from conductor.services.quotas.row_quotas import OF_PROJECTS
from conductor.services.quotas.types import QuotaView
from portal.api.compute.microversions import VERSIONS
from portal.api.compute.representations import quotas as compute_quotas
from portal.api.compute.schemas import quotas as compute_schemas
from portal.api.network.representations.quotas import requested_limits
from portal.api.network.schemas import routing
from portal.api.schema_parts import Schema, closed
from portal.api.volume.representations.quotas import limits as volume_limits
from portal.api.volume.schemas import volumes as volume_schemas
from portal.pages.access.identity_lists import USERS
from portal.pages.access.projects import PROJECTS
from portal.pages.projects.quota_groups import COMPUTE_WORDS, NETWORK_WORDS, ROW_WORDS, VOLUME_WORDS
from portal.pages.resources import columns
from portal.pages.resources.fields import REASON, whole
from portal.pages.resources.model import (
    Call,
    Cell,
    Column,
    Execute,
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
POLICY_SERVICES = {"compute": "compute", "storage": "volume"}
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
# The API of Novella describes the same bounds for clients.
_LIMIT: Schema = {"type": "integer", "minimum": UNLIMITED, "maximum": 2**31 - 1}
_ROW_LIMITS = closed(
    {"limits": {"type": "object", "minProperties": 1, "additionalProperties": _LIMIT}}, required=("limits",)
)
_HELP = "-1 for no limit."
_FORCE = Field("force", "Allow values below current usage", "check")


def _limit(item: Item, service: str, name: str) -> Any:
    found = (item.get(service) or {}).get(name)
    return found.limit if found else None


def _shown(service: str, name: str) -> Any:
    def show(item: Item, names: Names) -> Cell:
        found = (item.get(service) or {}).get(name)
        if found is None:
            return columns.NOTHING
        return Cell("number", f"{found.in_use} / {'∞' if found.limit == UNLIMITED else found.limit}")

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


def _by_name(limits: Iterable[QuotaView]) -> dict[str, QuotaView]:
    return {one.resource: one for one in limits}


def _read_compute(caller: RequestContext, project_id: str) -> Mapping[str, QuotaView]:
    return _by_name(quotas.show(caller, project_id))


def _read_storage(caller: RequestContext, project_id: str) -> Mapping[str, QuotaView]:
    return _by_name(volume_quotas.show(project_id))


def _read_network(caller: RequestContext, project_id: str) -> Mapping[str, QuotaView]:
    return _by_name(network_quotas.show(project_id))


def _read_network_defaults(caller: RequestContext, project_id: str) -> Mapping[str, int]:
    return network_quotas.defaults()


def _set_compute(caller: RequestContext, form: SubmittedForm) -> None:
    limits, is_forced = compute_quotas.requested_limits(form.body["quota_set"])
    quotas.update(caller, form.item["id"], limits, is_forced=is_forced)


def _set_of_user(caller: RequestContext, form: SubmittedForm) -> None:
    limits, is_forced = compute_quotas.requested_limits(form.body["quota_set"])
    quotas.update_user(caller, form.item["id"], form.values["user_id"], limits, is_forced=is_forced)


def _set_storage(caller: RequestContext, form: SubmittedForm) -> None:
    volume_quotas.update(form.item["id"], volume_limits(form.body["quota_set"], "quota_set"))


def _set_network(caller: RequestContext, form: SubmittedForm) -> None:
    limits, is_checked = requested_limits(form.body["quota"])
    network_quotas.update(caller, form.item["id"], limits, is_checked=is_checked)


def _set_rows(caller: RequestContext, form: SubmittedForm) -> None:
    row_quotas.update(caller, form.item["id"], form.body["limits"])


def _set_row_defaults(caller: RequestContext, form: SubmittedForm) -> None:
    row_quotas.update_defaults(caller, form.body["limits"])


def _set_compute_defaults(caller: RequestContext, form: SubmittedForm) -> None:
    name = "quota_class_set"
    quotas.update_class(caller, "default", compute_quotas.limits(form.body[name], name))


def _set_storage_defaults(caller: RequestContext, form: SubmittedForm) -> None:
    name = "quota_class_set"
    volume_quotas.update_class("default", volume_limits(form.body[name], name))


def _reset(caller: RequestContext, form: SubmittedForm) -> None:
    quotas.reset(caller, form.item["id"])


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
    project_id, reason = form.item["id"], form.values.get("reason", "")

    def follow_up(path: str, service: str, rule: str, reset: Callable[[RequestContext], None]) -> FollowUp:
        return FollowUp(Call("DELETE", f"{path}/{project_id}", reason=reason), rule, reset, service)

    yield follow_up(STORAGE, "volume", "volume_extension:quotas:delete", lambda caller: volume_quotas.reset(project_id))
    yield follow_up(ROWS, "novella", "novella:quotas:change", lambda caller: row_quotas.reset(caller, project_id))
    typical = form.item.get("network_defaults") or {}
    if any(_limit(form.item, "network", name) != typical.get(name) for name in NETWORK_WORDS):
        yield follow_up(NETWORK, "network", "delete_quota", lambda caller: network_quotas.reset(project_id))


def _rows(form: SubmittedForm) -> Call:
    return Call("PUT", f"{ROWS}/{form.item.get('id', 'ID')}", {"limits": _numbers(form, "rows")})


def _class_defaults(
    service: str, *, action_id: str, title: str, rule: str, schema: Schema, execute: Execute
) -> ResourceAction:
    """Return the form of the defaults of a service with quota classes."""
    return ResourceAction(
        id=action_id,
        title=title,
        does="Applies to projects without their own limits. Empty fields stay unchanged.",
        rule=rule,
        service=POLICY_SERVICES[service],
        schema=schema,
        execute=execute,
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
        schema=_ROW_LIMITS,
        execute=_set_row_defaults,
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
    one="project",
    rule=UPDATE,
    reader=PROJECTS.reader,
    search="name__icontains",
    is_for_operators=True,
    list_route="quota-table",
    empty="Quotas belong to projects. Create a project first.",
    id_of=lambda item: str(item.get("id") or ""),
    more=(
        RelatedRequest("compute", rule="os_compute_api:os-quota-sets:detail", read=_read_compute),
        RelatedRequest("storage", rule="volume_extension:quotas:show", service="volume", read=_read_storage),
        RelatedRequest("network", rule="get_quota", service="network", read=_read_network),
        RelatedRequest("rows", rule="novella:quotas:show", service="novella", read=row_quotas.show),
        RelatedRequest("network_defaults", rule="get_quota", service="network", read=_read_network_defaults),
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
        _class_defaults(
            "compute",
            action_id="defaults",
            title="Compute defaults",
            rule="os_compute_api:os-quota-class-sets:update",
            schema=compute_schemas.update_class(VERSIONS.maximum),
            execute=_set_compute_defaults,
        ),
        _class_defaults(
            "storage",
            action_id="storage-defaults",
            title="Storage defaults",
            rule="volume_extension:quota_classes:update",
            schema=volume_schemas.QUOTA_CLASS,
            execute=_set_storage_defaults,
        ),
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
            schema=compute_schemas.update(VERSIONS.maximum),
            execute=_set_compute,
            cli=_cli("openstack quota set"),
        ),
        ResourceAction(
            id="storage",
            title="Set storage limits",
            does="Limits for volumes and snapshots. Existing ones stay, also above a limit.",
            rule="volume_extension:quotas:update",
            service="volume",
            schema=volume_schemas.QUOTAS,
            execute=_set_storage,
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
            rule="update_quota",
            service="network",
            fields=(*_fields("network"), _FORCE, REASON),
            call=_network,
            schema=routing.QUOTA,
            execute=_set_network,
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
            schema=_ROW_LIMITS,
            execute=_set_rows,
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
            schema=compute_schemas.update(VERSIONS.maximum),
            execute=_set_of_user,
            cli=_cli("openstack quota set"),
        ),
        ResourceAction(
            id="reset",
            title="Reset to defaults",
            does="The project and its users get the default limits again.",
            rule="os_compute_api:os-quota-sets:delete",
            fields=(REASON,),
            call=lambda form: Call("DELETE", f"{COMPUTE}/{form.item.get('id', 'ID')}"),
            execute=_reset,
            follow_ups=_also_reset,
            cli=_cli("openstack quota delete"),
        ),
    ),
)
