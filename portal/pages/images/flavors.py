"""Forms of flavors, for operators: create, extra specs, and access."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from conductor.core.context import RequestContext
from conductor.core.page import Page
from conductor.core.request_spec import FlavorSpec
from conductor.services.servers import extra_specs, flavors
from conductor.services.servers.flavors import FlavorQuery, NewFlavor
from conductor.services.servers.types import FlavorView
from portal.api.compute.microversions import VERSIONS
from portal.api.compute.schemas import flavors as schemas
from portal.pages.access.identity_lists import PROJECTS
from portal.pages.resources.fields import (
    DESCRIPTION,
    NAME,
    OWN_DESCRIPTION,
    REASON,
    filled,
    named,
    options,
    pairs_fault,
    pairs_of,
    pairs_text,
    whole,
)
from portal.pages.resources.model import (
    Call,
    Field,
    FieldOption,
    FollowUp,
    Item,
    ItemOptions,
    ItemReader,
    Query,
    RelatedRequest,
    ResourceAction,
    SubmittedForm,
)

PATH = "/compute/v2.1/flavors"
EPHEMERAL, IS_PUBLIC = "OS-FLV-EXT-DATA:ephemeral", "os-flavor-access:is_public"
# Extra specs of the built-in filters and drivers. The API accepts each example.
SPECS = (
    ("hw:cpu_policy = dedicated", "dedicated: each vCPU has its own host CPU; shared: none has; mixed: some have."),
    ("hw:cpu_thread_policy = isolate", "CPU thread policy: prefer, isolate or require."),
    ("hw:cpu_dedicated_mask = ^0", "With the mixed policy: the vCPUs that get their own host CPUs."),
    ("hw:emulator_threads_policy = isolate", "CPU for emulator threads: isolate or share."),
    ("hw:cpu_sockets = 1", "CPU topology of the server; also hw:cpu_cores and hw:cpu_threads."),
    ("hw:numa_nodes = 2", "Number of NUMA nodes; hw:numa_cpus.0 and hw:numa_mem.0 define them."),
    ("hw:mem_page_size = large", "Memory page size: large, small, any, or a size such as 2MB."),
    ("hw:mem_encryption = true", "Encrypted memory (AMD SEV)."),
    ("hw:cpu_realtime = yes", "Real-time CPUs; hw:cpu_realtime_mask selects them."),
    ("hw:pci_numa_affinity_policy = required", "PCI NUMA affinity: required, preferred, legacy or socket."),
    ("pci_passthrough:alias = card:1", "Number of PCI devices, by the alias that the operator configured."),
    ("hw:watchdog_action = reset", "Watchdog action when the server hangs: none, pause, poweroff, reset or disabled."),
    ("hw:tpm_version = 2.0", "Virtual TPM version."),
    ("hw:boot_menu = true", "Show a boot menu."),
    ("quota:disk_read_iops_sec = 500", "Limits the server's disk. Also with write, total and bytes."),
    ("trait:HW_CPU_X86_AVX2 = required", "required: only hosts with this trait; forbidden: only hosts without it."),
    ("resources:CUSTOM_BAREMETAL_GOLD = 1", "Amount of a resource class; overrides the flavor's size."),
    ("aggregate_instance_extra_specs:ssd = true", "Require hosts in aggregates with this metadata."),
    ("capabilities:hypervisor_type = QEMU", "Require hosts that report this capability."),
)


def _create(form: SubmittedForm) -> Call:
    values = form.values
    body: dict[str, Any] = {
        **filled(values, "name", "id", "description"),
        **{name: whole(values[name]) for name in ("vcpus", "ram", "disk")},
        EPHEMERAL: whole(values["ephemeral"] or "0"),
        "swap": whole(values["swap"] or "0"),
        IS_PUBLIC: bool(values.get("is_public")),
    }
    return Call("POST", PATH, {"flavor": body})


def _at(item: Item, end: str = "") -> str:
    return f"{PATH}/{quote(str(item.get('id', 'ID')), safe='')}{end}"


def _specs(form: SubmittedForm) -> Call:
    return Call("POST", _at(form.item, "/os-extra_specs"), {"extra_specs": pairs_of(form.values["extra_specs"])})


def _specs_gone(form: SubmittedForm, made: Any) -> Iterable[FollowUp]:
    """Delete removed keys one by one."""
    kept, rule = pairs_of(form.values["extra_specs"]), "os_compute_api:os-flavor-extra-specs:delete"
    for key in form.item.get("extra_specs") or {}:
        if key not in kept:
            call = Call("DELETE", _at(form.item, f"/os-extra_specs/{quote(str(key), safe='')}"))
            yield FollowUp(call, rule, partial(_remove_spec, flavor_id=form.item["id"], key=key))


def _remove_spec(caller: RequestContext, *, flavor_id: str, key: str) -> None:
    flavors.remove_extra_spec(caller, flavor_id, key)


def _item(flavor: FlavorView) -> Item:
    spec = flavor.spec
    return {
        "id": spec.flavor_id,
        "name": spec.name,
        "description": flavor.description,
        "vcpus": spec.vcpus,
        "ram": spec.memory_mb,
        "disk": spec.root_gb,
        "swap": spec.swap_mb,
        EPHEMERAL: spec.ephemeral_gb,
        IS_PUBLIC: flavor.is_public,
        "extra_specs": spec.extra_specs,
    }


def _list(caller: RequestContext, query: Query) -> Page[Item]:
    given = {"sort_key": query["sort_key"]} if "sort_key" in query else {}
    found = flavors.list_page(
        caller,
        FlavorQuery(
            is_public=None,
            is_descending=query.get("sort_dir") == "desc",
            limit=query["limit"],
            marker=query.get("marker", ""),
            **given,
        ),
    )
    return Page([_item(one) for one in found.items], found.has_more)


def _list_for_servers(caller: RequestContext, query: Query) -> Page[Item]:
    found = flavors.list_page(caller, FlavorQuery(limit=query["limit"]))
    return Page([_item(one) for one in found.items], found.has_more)


def _get(caller: RequestContext, ident: str) -> Item:
    return _item(flavors.get(caller, ident))


def _read_access(caller: RequestContext, flavor_id: str) -> list[Item]:
    return [{"tenant_id": project_id} for project_id in flavors.access(caller, flavor_id)]


READER = ItemReader(_list, _get)
FLAVOR_CHOICES = ItemOptions(
    "compute",
    "os_compute_api:servers:index",
    _list_for_servers,
    lambda item: f"{item['name']}: {item['vcpus']} vCPU, {item['ram']} MB, {item['disk']} GB",
)
ACCESS = RelatedRequest("access", rule="os_compute_api:os-flavor-access", read=_read_access)


def _make(caller: RequestContext, form: SubmittedForm) -> Item:
    values = form.body["flavor"]
    spec = FlavorSpec(
        flavor_id=values.get("id", ""),
        name=values["name"],
        vcpus=int(values["vcpus"]),
        memory_mb=int(values["ram"]),
        root_gb=int(values["disk"]),
        ephemeral_gb=int(values[EPHEMERAL]),
        swap_mb=int(values["swap"]),
    )
    return _item(flavors.create(caller, NewFlavor(spec, values[IS_PUBLIC], description=values.get("description"))))


def _set_specs(caller: RequestContext, form: SubmittedForm) -> Item:
    specs = form.body["extra_specs"]
    extra_specs.check(specs)
    return _item(flavors.set_extra_specs(caller, form.item["id"], specs))


def _describe(caller: RequestContext, form: SubmittedForm) -> Item:
    return _item(flavors.describe(caller, form.item["id"], form.body["flavor"]["description"]))


def _grant(caller: RequestContext, form: SubmittedForm) -> None:
    flavors.grant(caller, form.item["id"], form.values["tenant"])


def _revoke(caller: RequestContext, form: SubmittedForm) -> None:
    flavors.revoke(caller, form.item["id"], form.values["tenant"])


def _delete(caller: RequestContext, form: SubmittedForm) -> None:
    flavors.delete(caller, form.item["id"])


def _access(form: SubmittedForm, name: str) -> Call:
    return Call("POST", _at(form.item, "/action"), {name: {"tenant": form.values["tenant"]}})


def _granted(item: Item) -> Sequence[FieldOption]:
    ids = [str(one["tenant_id"]) for one in item.get("access") or ()]
    return [FieldOption(ident, ident) for ident in ids]


def _why_public(item: Item) -> str:
    return (
        "Public flavors are available to all projects. Only private flavors have an access list."
        if item[IS_PUBLIC]
        else ""
    )


def _why_not_revoke(item: Item) -> str:
    return _why_public(item) or ("" if item.get("access") else "No project has access.")


def _number_field(name: str, label: str, start: str, least: int) -> Field:
    return Field(name, label, "number", start=start, least=least, is_required=least > 0)


FLAVOR_ACTIONS = (
    ResourceAction(
        id="create",
        title="Create flavor",
        does="A size for servers. You can't change its resources later.",
        rule="os_compute_api:os-flavor-manage:create",
        is_creation=True,
        icon="plus",
        fields=(
            NAME,
            _number_field("vcpus", "vCPU", "1", 1),
            _number_field("ram", "Memory (MB)", "512", 1),
            _number_field("disk", "Disk in GB", "5", 0),
            Field("ephemeral", "Ephemeral disk (GB)", "number", least=0, start="0", also=(EPHEMERAL,)),
            Field("swap", "Swap (MB)", "number", least=0, start="0"),
            Field("is_public", "Public", "check", start="yes", also=(IS_PUBLIC,)),
            Field("id", "ID", help="Leave empty to generate an ID."),
            DESCRIPTION,
        ),
        call=_create,
        schema=schemas.create(VERSIONS.maximum),
        execute=_make,
        cli=lambda form: [
            "openstack flavor create",
            *options(form.values, vcpus="vcpus", ram="ram", disk="disk", ephemeral="ephemeral", swap="swap", id="id"),
            *options(form.values, description="description"),
            "--public" if form.values.get("is_public") else "--private",
            form.values.get("name") or "NAME",
        ],
    ),
    ResourceAction(
        id="specs",
        title="Extra specs for scheduling",
        does="Settings for the scheduler and the hosts. They apply to new servers with this flavor.",
        rule="os_compute_api:os-flavor-extra-specs:create",
        fields=(
            Field(
                "extra_specs",
                "Keys",
                "area",
                start=lambda item: pairs_text(item.get("extra_specs")),
                fault=pairs_fault,
                help="One “key = value” pair per line. Entries that you remove are deleted.",
            ),
        ),
        guide=SPECS,
        call=_specs,
        schema=schemas.EXTRA_SPECS,
        execute=_set_specs,
        follow_ups=_specs_gone,
        cli=lambda form: [
            "openstack flavor set",
            *(
                word
                for key, value in pairs_of(form.values["extra_specs"]).items()
                for word in ("--property", f"{key}={value}")
            ),
            named(form.item),
        ],
    ),
    ResourceAction(
        id="describe",
        title="Edit description",
        does="Describe the flavor's purpose.",
        rule="os_compute_api:os-flavor-manage:update",
        fields=(OWN_DESCRIPTION,),
        call=lambda form: Call("PUT", _at(form.item), {"flavor": {"description": form.values["description"] or None}}),
        schema=schemas.UPDATE,
        execute=_describe,
        cli=lambda form: [
            "openstack flavor set",
            *options(form.values, description="description"),
            named(form.item),
        ],
    ),
    ResourceAction(
        id="grant",
        title="Grant access to project",
        does="Members of the project can launch servers with this flavor.",
        rule="os_compute_api:os-flavor-access:add_tenant_access",
        why_not=_why_public,
        fields=(Field("tenant", "Project", "choice", choices=PROJECTS, is_required=True),),
        call=lambda form: _access(form, "addTenantAccess"),
        schema=schemas.ADD_ACCESS,
        execute=_grant,
        cli=lambda form: [
            "openstack flavor set",
            "--project",
            form.values.get("tenant") or "PROJECT",
            named(form.item),
        ],
    ),
    ResourceAction(
        id="revoke",
        title="Revoke access from project",
        does="The project can't launch servers with this flavor. Its existing servers stay.",
        rule="os_compute_api:os-flavor-access:remove_tenant_access",
        why_not=_why_not_revoke,
        fields=(Field("tenant", "Project", "choice", choices=_granted, is_required=True), REASON),
        call=lambda form: _access(form, "removeTenantAccess"),
        schema=schemas.REMOVE_ACCESS,
        execute=_revoke,
        cli=lambda form: [
            "openstack flavor unset",
            "--project",
            form.values.get("tenant") or "PROJECT",
            named(form.item),
        ],
    ),
    ResourceAction(
        id="delete",
        title="Delete",
        does="The flavor can't be used for new servers. Existing servers keep their size.",
        rule="os_compute_api:os-flavor-manage:delete",
        is_danger=True,
        is_bulk=True,
        icon="trash",
        fields=(REASON,),
        call=lambda form: Call("DELETE", _at(form.item)),
        execute=_delete,
        cli=lambda form: ["openstack flavor delete", named(form.item)],
    ),
)
