"""Routes of resources other than servers: flavors, key pairs, groups, limits, and operators' resources."""

from __future__ import annotations

from portal.api.compute.table import ComputeOperation as Op
from portal.api.compute.table import Route
from portal.api.compute.views import (
    aggregates,
    assisted_snapshots,
    audit_log,
    availability_zones,
    consoles,
    extensions,
    external_events,
    flavors,
    hosts,
    hypervisors,
    keypairs,
    migrations,
    quotas,
    server_groups,
    services,
    usage,
)

FLAVOR = "flavors/<str:flavor_id>"
QUOTA = "os-quota-sets/<str:project_id>"
HYPERVISOR = "os-hypervisors/<str:ref>"
AGGREGATE = "os-aggregates/<str:ref>"


def _targeted(rule: str, status: int = 200) -> Op:
    """Return a method whose view checks the rule itself, because it depends on the project or user in the request."""
    return Op(rule, status, is_targeted=True)


FLAVORS: tuple[Route, ...] = (
    Route(
        "flavors",
        flavors.Flavors,
        {"GET": Op(""), "POST": Op("os-flavor-manage:create")},
        "`minRam`, `minDisk`, `is_public` (`None` for administrators: all), `name` (2.102: a regular expression), "
        "`sort_key`, `sort_dir`; pages",
    ),
    Route("flavors/detail", flavors.FlavorsDetail, {"GET": Op("")}),
    Route(
        FLAVOR,
        flavors.FlavorById,
        {
            "GET": Op(""),
            "PUT": Op("os-flavor-manage:update", since="2.55"),
            "DELETE": Op("os-flavor-manage:delete", 202),
        },
        "PUT: the description",
    ),
    Route(
        f"{FLAVOR}/action",
        flavors.FlavorAction,
        {"POST": _targeted("os-flavor-access:add_tenant_access")},
        "`addTenantAccess`, `removeTenantAccess`; 409 for a public flavor from 2.7, or a second time",
    ),
    Route(f"{FLAVOR}/os-flavor-access", flavors.FlavorAccess, {"GET": Op("os-flavor-access")}, "404 for a public one"),
    Route(
        f"{FLAVOR}/os-extra_specs",
        flavors.FlavorExtraSpecs,
        {"GET": Op("os-flavor-extra-specs:index"), "POST": Op("os-flavor-extra-specs:create")},
        "keys of known kinds are checked from 2.86",
    ),
    Route(
        f"{FLAVOR}/os-extra_specs/<str:key>",
        flavors.FlavorExtraSpec,
        {
            "GET": Op("os-flavor-extra-specs:show"),
            "PUT": Op("os-flavor-extra-specs:update"),
            "DELETE": Op("os-flavor-extra-specs:delete"),
        },
    ),
)
LIMITS: tuple[Route, ...] = (
    Route(
        "os-keypairs",
        keypairs.KeyPairs,
        {"GET": _targeted("os-keypairs:index"), "POST": _targeted("os-keypairs:create", 201)},
        "ssh and x509 (2.2); other users' for administrators (2.10); pages (2.35); pairs are made until 2.91",
    ),
    Route(
        "os-keypairs/<str:name>",
        keypairs.KeyPairByName,
        {"GET": _targeted("os-keypairs:show"), "DELETE": _targeted("os-keypairs:delete", 204)},
        "DELETE: 202 at 2.1",
    ),
    Route("limits", quotas.Limits, {"GET": Op("limits")}, "`tenant_id`: another project's, for administrators"),
    Route(
        QUOTA,
        quotas.QuotaSet,
        {
            "GET": _targeted("os-quota-sets:show"),
            "PUT": Op("os-quota-sets:update"),
            "DELETE": Op("os-quota-sets:delete", 202),
        },
        "`user_id`: what one user of the project may have of it. PUT below what is used: 400 unless `force`",
    ),
    Route(f"{QUOTA}/detail", quotas.QuotaSetDetail, {"GET": _targeted("os-quota-sets:detail")}),
    Route(f"{QUOTA}/defaults", quotas.QuotaSetDefaults, {"GET": Op("os-quota-sets:defaults")}),
    Route(
        "os-quota-class-sets/<str:name>",
        quotas.QuotaClassSet,
        {"GET": Op("os-quota-class-sets:show"), "PUT": Op("os-quota-class-sets:update")},
        "`default`: what projects have that have no limits of their own; other classes limit no project",
    ),
)
OPERATORS: tuple[Route, ...] = (
    Route("os-availability-zone", availability_zones.AvailabilityZones, {"GET": Op("os-availability-zone:list")}),
    Route(
        "os-availability-zone/detail",
        availability_zones.AvailabilityZonesDetail,
        {"GET": Op("os-availability-zone:detail")},
    ),
    Route(
        "os-hypervisors",
        hypervisors.Hypervisors,
        {"GET": Op("os-hypervisors:list")},
        "by number until 2.52, by uuid from 2.53; pages from 2.33; amounts until 2.87",
    ),
    Route("os-hypervisors/detail", hypervisors.HypervisorsDetail, {"GET": Op("os-hypervisors:list-detail")}),
    Route(
        "os-hypervisors/statistics",
        hypervisors.HypervisorStatistics,
        {"GET": Op("os-hypervisors:statistics", until="2.87")},
    ),
    Route(HYPERVISOR, hypervisors.HypervisorById, {"GET": Op("os-hypervisors:show")}),
    Route(f"{HYPERVISOR}/uptime", hypervisors.HypervisorUptime, {"GET": Op("os-hypervisors:uptime", until="2.87")}),
    Route(
        f"{HYPERVISOR}/search",
        hypervisors.HypervisorSearch,
        {"GET": Op("os-hypervisors:search", until="2.52")},
        "by a part of the name",
    ),
    Route(
        f"{HYPERVISOR}/servers",
        hypervisors.HypervisorServers,
        {"GET": Op("os-hypervisors:servers", until="2.52")},
        "by a part of the name",
    ),
    Route("os-services", services.Services, {"GET": Op("os-services:list")}, "hosts of cells that are down from 2.69"),
    Route(
        "os-services/<str:ref>",
        services.ServiceByRef,
        {"PUT": Op("os-services:update"), "DELETE": Op("os-services:delete", 204)},
        "close, open, force down; until 2.52 by `enable`, `disable`, `disable-log-reason`, `force-down` (2.11). "
        "DELETE: 409 with servers, moves or workflows there",
    ),
    Route(
        "os-aggregates",
        aggregates.Aggregates,
        {"GET": Op("os-aggregates:index"), "POST": Op("os-aggregates:create")},
    ),
    Route(
        AGGREGATE,
        aggregates.AggregateByRef,
        {
            "GET": Op("os-aggregates:show"),
            "PUT": Op("os-aggregates:update"),
            "DELETE": Op("os-aggregates:delete"),
        },
        "400 for a zone that its hosts cannot be in, and for deleting one with hosts",
    ),
    Route(
        f"{AGGREGATE}/action",
        aggregates.AggregateAction,
        {"POST": _targeted("os-aggregates:add_host")},
        "`add_host`, `remove_host` (409 where servers would change their zone), `set_metadata`",
    ),
    Route(
        f"{AGGREGATE}/images",
        aggregates.AggregateImages,
        {"POST": Op("compute:aggregates:images", 501, since="2.81")},
        "no driver fetches images beforehand: 501 for what could otherwise be done, 400 and 404 for the rest",
    ),
    Route(
        "os-console-auth-tokens/<str:token>",
        consoles.ConsoleAuthToken,
        {"GET": Op("os-console-auth-tokens")},
        "where the host joins the console; 401 before 2.31, `tls_port` from 2.99",
    ),
    Route("os-migrations", migrations.Migrations, {"GET": Op("os-migrations:index")}, "newest first; pages 2.59"),
    Route(
        "os-server-groups",
        server_groups.ServerGroups,
        {"GET": Op("os-server-groups:index"), "POST": Op("os-server-groups:create")},
        "soft policies 2.15, one policy and its rules 2.64",
    ),
    Route(
        "os-server-groups/<str:group_id>",
        server_groups.ServerGroup,
        {"GET": Op("os-server-groups:show"), "DELETE": Op("os-server-groups:delete", 204)},
    ),
    Route("extensions", extensions.Extensions, {"GET": Op("extensions")}),
    Route("extensions/<str:alias>", extensions.ExtensionByAlias, {"GET": Op("extensions")}),
)
HOST = "os-hosts/<str:name>"
HOSTS_UNTIL = "2.42"
ACCOUNTS: tuple[Route, ...] = (
    Route(
        "os-simple-tenant-usage",
        usage.Usages,
        {"GET": Op("os-simple-tenant-usage:list")},
        "`start`, `end`, `detailed=1`; pages from 2.40",
    ),
    Route(
        "os-simple-tenant-usage/<str:project_id>",
        usage.ProjectUsages,
        {"GET": _targeted("os-simple-tenant-usage:show")},
        "the own project's; another's for administrators",
    ),
    Route(
        "os-instance_usage_audit_log",
        audit_log.AuditLog,
        {"GET": Op("os-instance-usage-audit-log:list")},
        "no host audits: usage is calculated on request",
    ),
    Route(
        "os-instance_usage_audit_log/<str:time>",
        audit_log.AuditLogBefore,
        {"GET": Op("os-instance-usage-audit-log:show")},
    ),
    *(
        Route(
            path, hosts.BareMetalNodes, {"GET": Op(f"os-baremetal-nodes:{rule}", 501, until="2.35")}, "no such service"
        )
        for path, rule in (("os-baremetal-nodes", "list"), ("os-baremetal-nodes/<str:node_id>", "show"))
    ),
    Route("os-hosts", hosts.Hosts, {"GET": Op("os-hosts:list", until=HOSTS_UNTIL)}, "`zone`"),
    Route(
        HOST,
        hosts.HostByName,
        {"GET": Op("os-hosts:show", until=HOSTS_UNTIL), "PUT": Op("os-hosts:update", until=HOSTS_UNTIL)},
        "PUT: `status`; `maintenance_mode` is 501",
    ),
    *(
        Route(
            f"{HOST}/{path}",
            hosts.HostPower,
            {"GET": Op(f"os-hosts:{rule}", 501, until=HOSTS_UNTIL)},
            "no driver switches its host",
            {"verb": verb},
        )
        for path, rule, verb in (
            ("startup", "start", "start"),
            ("shutdown", "shutdown", "shut down"),
            ("reboot", "reboot", "reboot"),
        )
    ),
)
SERVICES: tuple[Route, ...] = (
    Route(
        "os-server-external-events",
        external_events.ExternalEvents,
        {"POST": Op("os-server-external-events:create")},
        "each event is answered with a code of its own; 207 where not all were taken. `network-*`, `volume-extended` "
        "(2.51), `power-update` (2.76), `accelerator-request-bound` (2.82), `volume-reimaged` (2.93)",
    ),
    Route(
        "os-assisted-volume-snapshots",
        assisted_snapshots.AssistedSnapshots,
        {"POST": Op("os-assisted-volume-snapshots:create")},
        "the data of a volume that one server has, kept by the volume service under the id that is named",
    ),
    Route(
        "os-assisted-volume-snapshots/<str:snapshot_id>",
        assisted_snapshots.AssistedSnapshot,
        {"DELETE": Op("os-assisted-volume-snapshots:delete", 204)},
        '`delete_info={"volume_id": …}`; one that is still being taken goes once it is',
    ),
)
ROUTES = (*FLAVORS, *LIMITS, *OPERATORS, *ACCOUNTS, *SERVICES)
