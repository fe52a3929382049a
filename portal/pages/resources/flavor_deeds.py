"""What operators do to flavors: make them, say what the scheduler and the drivers read, and who may use them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

from portal.pages.api_calls import Call
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
from portal.pages.resources.model import Asked, Choice, Deed, Field, Item, More, Source

PATH = "/compute/v2.1/flavors"
EPHEMERAL, IS_PUBLIC = "OS-FLV-EXT-DATA:ephemeral", "os-flavor-access:is_public"
ACCESS = More("access", f"{PATH}/{{id}}/os-flavor-access", "flavor_access", "os_compute_api:os-flavor-access")
PROJECTS = Source("/identity/v3/projects", "projects", lambda item: str(item["name"]))
# What the filters and drivers that ship read. Each example is one that the API takes.
SPECS = (
    ("hw:cpu_policy = dedicated", "Each vCPU has a processor of its own; shared: none has; mixed: some have."),
    ("hw:cpu_thread_policy = isolate", "Whether threads of a core are shared: prefer, isolate, require."),
    ("hw:cpu_dedicated_mask = ^0", "With mixed: which vCPUs have processors of their own."),
    ("hw:emulator_threads_policy = isolate", "A processor of its own for the hypervisor's work: isolate, or share."),
    ("hw:cpu_sockets = 1", "The guest's picture of its processors; so hw:cpu_cores and hw:cpu_threads."),
    ("hw:numa_nodes = 2", "Spread over so many memory nodes of the host; hw:numa_cpus.0 and hw:numa_mem.0 say how."),
    ("hw:mem_page_size = large", "Memory in large pages: large, small, any, or a size such as 2MB."),
    ("hw:mem_encryption = true", "Memory that the host cannot read."),
    ("hw:cpu_realtime = yes", "Processors that answer in time; hw:cpu_realtime_mask says which."),
    ("hw:pci_numa_affinity_policy = required", "Devices near their memory: required, preferred, legacy, socket."),
    ("pci_passthrough:alias = card:1", "So many devices of the host by the alias that the operator gave them."),
    ("hw:watchdog_action = reset", "What happens when the guest hangs: none, pause, poweroff, reset, disabled."),
    ("hw:tpm_version = 2.0", "A trusted module for its keys."),
    ("hw:boot_menu = true", "Whether the guest asks what to boot."),
    ("quota:disk_read_iops_sec = 500", "A bound for its disk; so with write, total and with bytes."),
    ("trait:HW_CPU_X86_AVX2 = required", "Only hosts with this trait; forbidden: only those without it."),
    ("resources:CUSTOM_BAREMETAL_GOLD = 1", "So much of a resource class, in place of what the size says."),
    ("aggregate_instance_extra_specs:ssd = true", "Only hosts of aggregates with this metadata."),
    ("capabilities:hypervisor_type = QEMU", "Only hosts that report this."),
)


def _create(asked: Asked) -> Call:
    values = asked.values
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


def _specs(asked: Asked) -> Call:
    return Call("POST", _at(asked.item, "/os-extra_specs"), {"extra_specs": pairs_of(asked.values["extra_specs"])})


def _specs_gone(asked: Asked, made: Any) -> Iterable[Call]:
    """Keys go one by one."""
    kept = pairs_of(asked.values["extra_specs"])
    for key in asked.item.get("extra_specs") or {}:
        if key not in kept:
            yield Call("DELETE", _at(asked.item, f"/os-extra_specs/{quote(str(key), safe='')}"))


def _access(asked: Asked, name: str) -> Call:
    return Call("POST", _at(asked.item, "/action"), {name: {"tenant": asked.values["tenant"]}})


def _granted(item: Item) -> Sequence[Choice]:
    ids = [str(one["tenant_id"]) for one in item.get("access") or ()]
    return [Choice(ident, ident) for ident in ids]


def _why_public(item: Item) -> str:
    return (
        "It is for everybody: only a flavor that was made for some projects is given to them."
        if item[IS_PUBLIC]
        else ""
    )


def _why_not_revoke(item: Item) -> str:
    return _why_public(item) or ("" if item.get("access") else "No project was given it.")


def _number(name: str, label: str, start: str, least: int) -> Field:
    return Field(name, label, "number", start=start, least=least, is_required=least > 0)


FLAVOR_DEEDS = (
    Deed(
        id="create",
        title="Create flavor",
        does="A size that servers can have. Its amounts stay as they are for ever, as servers rely on them.",
        rule="os_compute_api:os-flavor-manage:create",
        is_creation=True,
        icon="plus",
        fields=(
            NAME,
            _number("vcpus", "vCPU", "1", 1),
            _number("ram", "Memory in MB", "512", 1),
            _number("disk", "Disk in GB", "5", 0),
            Field("ephemeral", "Second disk in GB", "number", least=0, start="0", also=(EPHEMERAL,)),
            Field("swap", "Swap in MB", "number", least=0, start="0"),
            Field("is_public", "For everybody", "check", start="yes", also=(IS_PUBLIC,)),
            Field("id", "Id", help="Left empty, one is made."),
            DESCRIPTION,
        ),
        call=_create,
        cli=lambda asked: [
            "openstack flavor create",
            *options(asked.values, vcpus="vcpus", ram="ram", disk="disk", ephemeral="ephemeral", swap="swap", id="id"),
            *options(asked.values, description="description"),
            "--public" if asked.values.get("is_public") else "--private",
            asked.values.get("name") or "NAME",
        ],
    ),
    Deed(
        id="specs",
        title="Scheduling keys",
        does="What the scheduler and the hosts are told of servers of this size. Those that are there keep theirs.",
        rule="os_compute_api:os-flavor-extra-specs:create",
        fields=(
            Field(
                "extra_specs",
                "Keys",
                "area",
                start=lambda item: pairs_text(item.get("extra_specs")),
                fault=pairs_fault,
                help="One on a line: key = value. A line that is gone takes its key away.",
            ),
        ),
        guide=SPECS,
        call=_specs,
        also_calls=_specs_gone,
        cli=lambda asked: [
            "openstack flavor set",
            *(
                word
                for key, value in pairs_of(asked.values["extra_specs"]).items()
                for word in ("--property", f"{key}={value}")
            ),
            named(asked.item),
        ],
    ),
    Deed(
        id="describe",
        title="Describe",
        does="Say what it is for.",
        rule="os_compute_api:os-flavor-manage:update",
        fields=(OWN_DESCRIPTION,),
        call=lambda asked: Call(
            "PUT", _at(asked.item), {"flavor": {"description": asked.values["description"] or None}}
        ),
        cli=lambda asked: [
            "openstack flavor set",
            *options(asked.values, description="description"),
            named(asked.item),
        ],
    ),
    Deed(
        id="grant",
        title="Give to a project",
        does="Its members may launch servers of this size.",
        rule="os_compute_api:os-flavor-access:add_tenant_access",
        why_not=_why_public,
        fields=(Field("tenant", "Project", "choice", choices=PROJECTS, is_required=True),),
        call=lambda asked: _access(asked, "addTenantAccess"),
        cli=lambda asked: [
            "openstack flavor set",
            "--project",
            asked.values.get("tenant") or "PROJECT",
            named(asked.item),
        ],
    ),
    Deed(
        id="revoke",
        title="Take from a project",
        does="No new servers of this size there. Those that it has stay.",
        rule="os_compute_api:os-flavor-access:remove_tenant_access",
        why_not=_why_not_revoke,
        fields=(Field("tenant", "Project", "choice", choices=_granted, is_required=True), REASON),
        call=lambda asked: _access(asked, "removeTenantAccess"),
        cli=lambda asked: [
            "openstack flavor unset",
            "--project",
            asked.values.get("tenant") or "PROJECT",
            named(asked.item),
        ],
    ),
    Deed(
        id="delete",
        title="Delete",
        does="It is offered no more. Servers of this size keep what they have.",
        rule="os_compute_api:os-flavor-manage:delete",
        is_danger=True,
        is_bulk=True,
        icon="trash",
        fields=(REASON,),
        call=lambda asked: Call("DELETE", _at(asked.item)),
        cli=lambda asked: ["openstack flavor delete", named(asked.item)],
    ),
)
