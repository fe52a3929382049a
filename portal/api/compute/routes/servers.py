"""Routes of servers and of their sub-resources."""

from __future__ import annotations

from portal.api.compute.table import ComputeOperation as Op
from portal.api.compute.table import Route
from portal.api.compute.views import (
    consoles,
    instance_actions,
    interfaces,
    migrations,
    server_actions,
    server_addresses,
    server_facts,
    server_metadata,
    server_tags,
    servers,
    volume_attachments,
)

SERVER = "servers/<str:server_id>"


def _own(rule: str, status: int = 200, *, since: str = "2.1", until: str | None = None) -> Op:
    """Return a method whose view checks the rule itself, because it must first look up the server's project."""
    return Op(rule, status, since, until, is_targeted=True)


# The old paths for booting from volume do the same as `/servers`.
BOOT = "os-volumes_boot"
BOOT_UNTIL = "2.102"
FROM_VOLUMES: tuple[Route, ...] = (
    Route(
        BOOT,
        servers.Servers,
        {"GET": _own("servers:index", until=BOOT_UNTIL), "POST": _own("servers:create", 202, until=BOOT_UNTIL)},
        "the same as `/servers`, and so is all below it",
    ),
    Route(f"{BOOT}/detail", servers.ServersDetail, {"GET": _own("servers:detail", until=BOOT_UNTIL)}),
    Route(
        f"{BOOT}/<str:server_id>",
        servers.ServerById,
        {
            "GET": _own("servers:show", until=BOOT_UNTIL),
            "PUT": _own("servers:update", until=BOOT_UNTIL),
            "DELETE": _own("servers:delete", 204, until=BOOT_UNTIL),
        },
    ),
    Route(f"{BOOT}/<str:server_id>/action", server_actions.ServerAction, {"POST": _own("", 202, until=BOOT_UNTIL)}),
)
ROUTES: tuple[Route, ...] = (
    *FROM_VOLUMES,
    Route(
        "servers",
        servers.Servers,
        {"GET": _own("servers:index"), "POST": _own("servers:create", 202)},
        "filters, order and pages, and launching: below. POST answers with `Location` and `Link`",
    ),
    Route("servers/detail", servers.ServersDetail, {"GET": _own("servers:detail")}),
    Route(
        SERVER,
        servers.ServerById,
        {"GET": _own("servers:show"), "PUT": _own("servers:update"), "DELETE": _own("servers:delete", 204)},
        "PUT: name, accessIPv4/6, `OS-DCF:diskConfig`, description (2.19), hostname (2.90), pinned_availability_zone "
        "(2.104: the zone that the server is in, or null); the answer is whole from 2.75. DELETE: again while it goes, "
        "and while its cell is down; 409 for a locked server",
    ),
    Route(
        f"{SERVER}/action",
        server_actions.ServerAction,
        {"POST": _own("", 202)},
        "the actions below; others that exist answer 501, any other word 400",
    ),
    Route(
        f"{SERVER}/metadata",
        server_metadata.ServerMetadata,
        {
            "GET": _own("server-metadata:index"),
            "POST": _own("server-metadata:create"),
            "PUT": _own("server-metadata:update_all"),
        },
        "active, paused, suspended or stopped servers",
    ),
    Route(
        f"{SERVER}/metadata/<str:key>",
        server_metadata.ServerMetadataItem,
        {
            "GET": _own("server-metadata:show"),
            "PUT": _own("server-metadata:update"),
            "DELETE": _own("server-metadata:delete", 204),
        },
    ),
    Route(
        f"{SERVER}/tags",
        server_tags.ServerTags,
        {
            "GET": _own("os-server-tags:index", since="2.26"),
            "PUT": _own("os-server-tags:update_all", since="2.26"),
            "DELETE": _own("os-server-tags:delete_all", 204, since="2.26"),
        },
        "50 at most",
    ),
    Route(
        f"{SERVER}/tags/<str:tag>",
        server_tags.ServerTag,
        {
            "GET": _own("os-server-tags:show", 204, since="2.26"),
            "PUT": _own("os-server-tags:update", 201, since="2.26"),
            "DELETE": _own("os-server-tags:delete", 204, since="2.26"),
        },
    ),
    Route(f"{SERVER}/ips", server_addresses.ServerAddresses, {"GET": _own("ips:index")}),
    Route(f"{SERVER}/ips/<str:network>", server_addresses.ServerAddressesByNetwork, {"GET": _own("ips:show")}),
    Route(
        f"{SERVER}/os-interface",
        interfaces.Interfaces,
        {"GET": _own("os-attach-interfaces:list"), "POST": _own("os-attach-interfaces:create")},
        "a network, a port, or nothing for the one network; `tag` 2.49, shown from 2.70",
    ),
    Route(
        f"{SERVER}/os-interface/<str:port_id>",
        interfaces.InterfaceById,
        {"GET": _own("os-attach-interfaces:show"), "DELETE": _own("os-attach-interfaces:delete", 202)},
    ),
    Route(
        f"{SERVER}/os-volume_attachments",
        volume_attachments.VolumeAttachments,
        {"GET": _own("os-volumes-attachments:index"), "POST": _own("os-volumes-attachments:create")},
        "`tag` 2.49, shown from 2.70; `delete_on_termination` 2.79; own ids instead of `id` from 2.89",
    ),
    Route(
        f"{SERVER}/os-volume_attachments/<str:volume_id>",
        volume_attachments.VolumeAttachment,
        {
            "GET": _own("os-volumes-attachments:show"),
            "PUT": _own("os-volumes-attachments:update", 202),
            "DELETE": _own("os-volumes-attachments:delete", 202),
        },
        "PUT: `delete_on_termination` from 2.85; another volume: for services; the root disk: 403",
    ),
    Route(
        f"{SERVER}/os-instance-actions",
        instance_actions.InstanceActions,
        {"GET": _own("os-instance-actions:list")},
        "deleted servers from 2.21, pages from 2.58",
    ),
    Route(
        f"{SERVER}/os-instance-actions/<str:request_id>",
        instance_actions.InstanceAction,
        {"GET": _own("os-instance-actions:show")},
    ),
    Route(
        f"{SERVER}/migrations",
        migrations.ServerMigrations,
        {"GET": _own("servers:migrations:index", since="2.23")},
        "live migrations that are under way; uuid 2.59, owners 2.80",
    ),
    Route(
        f"{SERVER}/migrations/<str:ref>",
        migrations.ServerMigration,
        {
            "GET": _own("servers:migrations:show", since="2.23"),
            "DELETE": _own("servers:migrations:delete", 202, since="2.24"),
        },
        "DELETE aborts it; before it moves from 2.65",
    ),
    Route(
        f"{SERVER}/migrations/<str:ref>/action",
        migrations.ServerMigrationAction,
        {"POST": _own("servers:migrations:force_complete", 202, since="2.22")},
        "`force_complete`",
    ),
    Route(
        f"{SERVER}/remote-consoles",
        consoles.RemoteConsoles,
        {"POST": _own("os-remote-consoles", since="2.6")},
        "`vnc` with `novnc`, `serial` with `serial`; all other types 400. The link opens once",
    ),
    Route(
        f"{SERVER}/diagnostics",
        server_facts.ServerDiagnostics,
        {"GET": _own("os-server-diagnostics")},
        "of a fixed form from 2.48, null for what is not counted; 409 for a server that does not run",
    ),
    Route(
        f"{SERVER}/topology",
        server_facts.ServerTopology,
        {"GET": _own("compute:server:topology:index", since="2.78")},
        "NUMA cells; where on the host they are: for administrators",
    ),
    Route(
        f"{SERVER}/os-server-password",
        server_facts.ServerPassword,
        {"GET": _own("os-server-password:show"), "DELETE": _own("os-server-password:clear", 204)},
        "what the guest has posted to the metadata service; empty where its host keeps none, 503 while it is down",
    ),
    Route(
        f"{SERVER}/os-security-groups",
        server_facts.ServerSecurityGroups,
        {"GET": _own("os-security-groups:list")},
    ),
    Route(
        f"{SERVER}/shares",
        server_facts.ServerShares,
        {
            "GET": _own("os-server-shares:index", since="2.97"),
            "POST": _own("os-server-shares:create", 404, since="2.97"),
        },
        "there is no service of shares: none are there, and none is found",
    ),
    Route(
        f"{SERVER}/shares/<str:share_id>",
        server_facts.ServerShare,
        {
            "GET": _own("os-server-shares:show", 404, since="2.97"),
            "DELETE": _own("os-server-shares:delete", 404, since="2.97"),
        },
    ),
)
