"""Texts of settings: what each means, and how a derived default is described.

The portal's page of settings shows them, and `make reference` writes them into docs/reference/configuration.md. They
are Markdown; links are relative to that page. They are not in `environment.py`, because each process loads that module
at its start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ELSEWHERE = "Settings without a variable"
DATABASES = "PostgreSQL"


@dataclass(frozen=True)
class SettingText:
    """The text of a setting. `default` describes a default that is no fixed value."""

    meaning: str
    default: str = "none"


SECTIONS: Mapping[str, Mapping[str, SettingText]] = {
    "Addresses and data": {
        "NOVELLA_HOST": SettingText("Address or name to listen on. `0.0.0.0` or `::` listens on every interface."),
        "NOVELLA_PORT": SettingText("Port for pages, APIs and WebSockets."),
        "NOVELLA_DATA": SettingText(
            "Data directory: databases, images, servers' disks, passwords. A relative path starts at the "
            "checkout, or at the working directory of an installed package. Created with mode 0700 if it is"
            " missing, and [checked at each start](../how-to/operate.md#data-directory). One directory "
            "serves one `novella up`, or any number of separate processes.",
            default="`var` in a checkout, else `~/.local/share/novella`",
        ),
        "NOVELLA_CELLS": SettingText(
            "Names of the cells, separated by commas. Each cell has its own database. `cell0`, for servers "
            "that never got a host, always exists. A cell with servers must stay in the list."
        ),
        "NOVELLA_DATABASE_URL": SettingText(
            "Location of the databases. Empty: SQLite files in the data directory, for one process (`up`); "
            "`web` and `conductor` need PostgreSQL. `postgresql://user:password@host:port/prefix`: "
            "databases on that server, named `prefix_api`, `prefix_cell0`, `prefix_cell1` and so on. See "
            "[PostgreSQL](#postgresql)."
        ),
        "NOVELLA_SECRET_KEY": SettingText(
            "Key that signs sessions, at least 32 characters. If it is not set, the first start creates one"
            " and stores it in `secret_key` in the data directory, readable only by its owner.",
            default="created at the first start",
        ),
        "NOVELLA_AUDIT_KEY": SettingText(
            "Key that seals the [audit log](../how-to/operate.md#the-audit-log), at least 32 characters, "
            "the same for all web processes and conductors. When you change `NOVELLA_SECRET_KEY`, set its "
            "old value here: the chain of the log then continues.",
            default="the secret key",
        ),
        "NOVELLA_PUBLIC_URL": SettingText(
            "URL of the portal for users, such as `https://cloud.example.org`: scheme, host and optional "
            "port. Links in answers and in `openrc.sh` use it, and its host is allowed. With `https`, "
            "cookies are `Secure` and browsers must use TLS only (HSTS, one year). See "
            "[TLS](../how-to/deploy.md#tls)."
        ),
        "NOVELLA_ALLOWED_HOSTS": SettingText(
            "Names under which browsers and clients may address the portal, separated by commas; `*` allows"
            " any. The host of the public URL is always allowed. Default: loopback and `NOVELLA_HOST`. If "
            "Novella listens on every interface and has no public URL, also the name and the addresses that"
            " this machine has at the start.",
            default="derived",
        ),
        "NOVELLA_TLS_CERT": SettingText(
            "File with the certificate (PEM, with its chain). `novella up` and `novella web` then serve only HTTPS."
        ),
        "NOVELLA_TLS_KEY": SettingText(
            "File with the private key of the certificate (PEM), readable by no other account. Required "
            "with a certificate."
        ),
        "NOVELLA_TRUSTED_PROXIES": SettingText(
            "Addresses and networks of reverse proxies, separated by commas: `10.0.0.7, 10.1.0.0/24`. "
            "`X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host` are accepted only from them."
        ),
    },
    "Banner": {
        "NOVELLA_BAND": SettingText(
            "Text of a coloured banner on every page, such as `Production`, so that users don't confuse two"
            " clouds. At most 40 characters."
        ),
        "NOVELLA_BAND_COLOUR": SettingText(
            "Colour of the banner: `blue`, `green`, `amber`, `red`, `violet` or `grey`."
        ),
    },
    DATABASES: {},  # the URLs of single databases, by the names of the cells
    "Hosts": {
        "NOVELLA_REAL_HOST": SettingText(
            "Whether this machine is a compute host. `auto`: if QEMU and libvirt can be used. `on`: like "
            "`auto`, and the start prints the reason if they can't be used. `off`: never, and nothing is "
            "installed for it."
        ),
        "NOVELLA_LOCAL_NETWORK": SettingText(
            "Network of guests on this machine as a compute host of `novella up`. `ovn`: [OVN, which it "
            "starts](../how-to/network.md#one-machine). `user`: QEMU's user network for each guest. `auto`: `ovn` if "
            "root runs it, OVN is installed and the machine has room for it; else `user`. The start prints which."
        ),
        "NOVELLA_VIRT_TYPE": SettingText(
            "`kvm`, `qemu` (emulation: slow, works everywhere), or `auto`: `kvm` if the processor and "
            "`/dev/kvm` support it."
        ),
        "NOVELLA_SIMULATED_HOSTS": SettingText(
            "Simulated hosts in each cell, 0 to 10000. They run no real servers, and pages mark them as simulated."
        ),
        "NOVELLA_HOSTS_FILE": SettingText(
            "TOML file with [further hosts](compute-drivers.md#hosts-file) of `novella up`, of any installed driver."
        ),
        "NOVELLA_SIMULATED_LATENCY_SECONDS": SettingText(
            "Time that a simulated host takes to build or remove a server, or to copy its disk or its memory, 0 to 600."
        ),
    },
    "Workflows": {
        "NOVELLA_LEASE_SECONDS": SettingText(
            "Time that a conductor owns a run without renewing its lease, 0.5 to 3600. After a crash a run "
            "waits at most this time plus one sweep."
        ),
        "NOVELLA_SWEEP_SECONDS": SettingText(
            "Pause between sweeps for runs without an owner and unanswered commands, 0.1 to 3600."
        ),
        "NOVELLA_FIRST_REPORT_SECONDS": SettingText(
            "Time that a launch waits for the first report of a host while no host of the cloud has reported, "
            "0 to 3600. 0: the launch fails immediately."
        ),
        "NOVELLA_HEARTBEAT_SECONDS": SettingText("Time between reports of a host, 0.2 to 600."),
        "NOVELLA_CONDUCTOR_SECONDS": SettingText(
            "Time that `compute` waits at its start for a conductor to store a report of its host, 0 to 86400. "
            "After that, `compute` ends with an error. 0: no limit."
        ),
        "NOVELLA_HOST_DOWN_SECONDS": SettingText(
            "Time without a report after which a host counts as down, 1 to 3600. Use several heartbeats."
        ),
        "NOVELLA_COMMAND_SECONDS": SettingText(
            "Time without progress after which a command on a running host counts as failed, 1 to 2592000. "
            "Use more than your slowest driver needs between two reports, such as one that erases drives."
        ),
        "NOVELLA_RESIZE_CONFIRM_SECONDS": SettingText(
            "Time after which a resized or moved server is confirmed automatically, 0 to 315360000. 0: never."
        ),
        "NOVELLA_ALLOW_RESIZE_TO_SAME_HOST": SettingText(
            "Whether a resize may stay on the same host: `on` or `off`. With only one host, resizes need `on`."
        ),
        "NOVELLA_SHUTDOWN_SECONDS": SettingText(
            "Time that a server may take to shut down or reboot before it is powered off, 0 to 3600. 0: "
            "powered off immediately."
        ),
        "NOVELLA_RECONCILE_SECONDS": SettingText(
            "Time between reconciliations: a conductor compares all databases and hosts and repairs what is"
            " safe ([reconciliation](../reference/reconciliation.md)), 0 to 86400. 0: never."
        ),
        "NOVELLA_KEEP_WORKFLOWS_DAYS": SettingText(
            "Days to keep ended workflows, with their steps, leases, commands and fences "
            "([retention](../how-to/operate.md#retention)), 0 to 36500. 0: forever."
        ),
        "NOVELLA_KEEP_EVENTS_DAYS": SettingText("Days to keep the event log. 0: forever."),
        "NOVELLA_KEEP_DECISIONS_DAYS": SettingText("Days to keep scheduling decisions. 0: forever."),
        "NOVELLA_KEEP_SNAPSHOTS_DAYS": SettingText(
            "Days to keep the host data of decisions. Afterwards a decision can't be [evaluated "
            "again](../explanation/scheduling.md#asking-again). 0: forever."
        ),
        "NOVELLA_SCHEDULER": SettingText(
            "Where hosts are selected: `in-process`, in the conductors, or `service`, by "
            "[schedulers](../how-to/deploy.md#schedulers-of-their-own) that conductors call over the broker. "
            "Give all conductors the same value."
        ),
        "NOVELLA_SCHEDULER_SECONDS": SettingText(
            "With `service`: time within which a scheduler must reply, 0.5 to 600. Afterwards the conductor "
            "calls another one."
        ),
        "NOVELLA_SCHEDULER_CALLS": SettingText(
            "With `service`: time-outs of schedulers after which the request fails, 1 to 10000."
        ),
        "NOVELLA_DECISION_SAMPLE": SettingText(
            "Share of successful decisions that are stored in full, 0 to 1. Of the others, the counts, the "
            "selected host and its weights are stored. Decisions that found no host are always stored in "
            "full."
        ),
        "NOVELLA_SNAPSHOT_HOSTS": SettingText(
            "Largest fleet that is stored in full with a decision, 0 to 1000000. Of a larger fleet only the"
            " hosts that the decision names are stored."
        ),
        "NOVELLA_KEEP_CONSOLES_DAYS": SettingText("Days to keep the console logs of deleted servers. 0: forever."),
        "NOVELLA_KEEP_METRICS_DAYS": SettingText(
            "Days to keep the metrics of servers, which the Metrics tab shows. 0: forever."
        ),
        "NOVELLA_KEEP_AUDIT_DAYS": SettingText("Days to keep the audit log. 0: forever."),
        "NOVELLA_KEEP_DELIVERIES_DAYS": SettingText("Days to keep the log of sent notifications. 0: forever."),
        "NOVELLA_KEEP_FINDINGS_DAYS": SettingText("Days to keep findings that are repaired or gone. 0: forever."),
        "NOVELLA_RECLAIM_SECONDS": SettingText(
            "Time for which a deleted server can be restored, 0 to 315360000. 0: it is destroyed immediately."
        ),
        "NOVELLA_SHELVED_OFFLOAD_SECONDS": SettingText(
            "Time for which a shelved server stays on its host, -1 to 315360000. 0: it leaves the host "
            "immediately; -1: never."
        ),
    },
    "Consoles": {
        "NOVELLA_CONSOLE_LISTEN": SettingText(
            "For processes with hosts: address and port that accept console connections from web processes."
            " Port 0 selects a free port; `off` disables consoles. A host on its own machine needs an "
            "address that web processes can reach."
        ),
        "NOVELLA_CONSOLE_ADDRESS": SettingText(
            "Name or address at which web processes reach the console port.",
            default="the address above; this machine's name if that listens on every interface",
        ),
        "NOVELLA_CONSOLE_TOKEN_SECONDS": SettingText(
            "Time for which the link to a console can be opened, 5 to 86400. A link works once."
        ),
        "NOVELLA_CONSOLE_SESSION_SECONDS": SettingText(
            "Time after which an open console ends, 0 to 2592000. 0: never."
        ),
    },
    "Requests": {
        "NOVELLA_REQUEST_SECONDS": SettingText(
            "Time until the answer to a request must begin, 1 to 3600. Afterwards the client gets 503: a "
            "request that only reads is ended, a change may still be carried out."
        ),
        "NOVELLA_INTERFACE_SECONDS": SettingText(
            "Time that `POST …/os-interface` waits for the port, 0 to 3600. 0: it answers immediately. At "
            "most 8 such requests wait in a web process, at most half of `NOVELLA_REQUEST_SECONDS` each; "
            "further ones are answered immediately."
        ),
        "NOVELLA_IMAGE_TRANSFERS": SettingText(
            "Uploads and downloads of image data that a web process carries at once, 2 to 256. Further ones"
            " are answered with 503 and `Retry-After`."
        ),
        "NOVELLA_PROJECT_IMAGE_TRANSFERS": SettingText(
            "Transfers of one project at a time. When half of all transfers are in use, only projects without a "
            "transfer may start one."
        ),
        "NOVELLA_TRANSFER_BYTES_PER_SECOND": SettingText(
            "Minimum speed of image data over 30 seconds. Slower transfers are cut off, uploads with 408. "
            "`0`: any speed."
        ),
        "NOVELLA_TRANSFER_SECONDS": SettingText("Maximum duration of one transfer of image data, 60 to 864000."),
        "NOVELLA_SHARED_SUBNET_PERCENT": SettingText(
            "Share of a subnet's addresses that a project may use if it doesn't own the subnet, 1 to 100; "
            "at least 8 addresses."
        ),
        "NOVELLA_REQUESTS_PER_MINUTE": SettingText(
            "API requests per minute and project, 0 to 1000000. 0: no limit. A project that was idle may "
            "send the requests of one minute at once; beyond that it gets 429 with `Retry-After`. Each web "
            "process counts separately, so several processes together allow more. Sign-ins are counted by "
            "address."
        ),
        "NOVELLA_LISTS_SKIP_UNRESPONSIVE_CELLS": SettingText(
            "What a list of servers does if a cell doesn't respond and its servers can't be named ([below "
            "2.69, or filtered](api/compute.md)): `on` leaves them out, `off` answers 503 and names the "
            "cell."
        ),
        "NOVELLA_CHANGES_PER_MINUTE": SettingText(
            "Changing API requests per minute and project. They also count for the limit of all requests. 0: no limit."
        ),
        "NOVELLA_CORS_ORIGINS": SettingText(
            "Origins of web pages that may use the APIs from browsers, separated by commas, such as "
            "`https://shop.example`; `*` allows any. They must send a token: cookies of the portal are "
            "never accepted from other origins."
        ),
    },
    "Sign-in": {
        "NOVELLA_TOKEN_RECHECK_SECONDS": SettingText(
            "Time for which a process may use cached permissions of a token, 0 to 60. A revoked permission "
            "ends immediately in the process that revoked it, and after this time in all others. 0: each "
            "request asks the database."
        ),
        "NOVELLA_ADMIN_PROJECT": SettingText(
            "Project of the domain Default whose administrators administer the cloud. The role `admin` in "
            "any other project or domain applies only there. `any`: the role `admin` in any project "
            "administers the cloud, as OpenStack has it by default; clients that make administrators in "
            "projects of their own, such as conformance suites and deployment tools, need that. The risk: a"
            " user with `admin` in one project, also by a group or by inheritance, reads and changes all of"
            " them; the page System health warns. `off`: only system-scoped tokens administer the cloud, "
            "and the portal, whose sessions are for projects, has no pages for administrators. See "
            "[projects and scopes](../explanation/security-model.md#projects-and-scopes)."
        ),
        "NOVELLA_SESSION_SECONDS": SettingText(
            "Time after its last use for which a browser stays signed in, 60 to 31536000. Open pages count "
            "down before and offer to stay signed in."
        ),
        "NOVELLA_SIGN_IN_FAILURES": SettingText(
            "Failed sign-ins to one account from one address that are allowed in a row, 0 to 1000. Further ones "
            "are answered with 429 and `Retry-After`. 0: no limit. See [sign-in limits](#sign-in-limits)."
        ),
        "NOVELLA_SIGN_IN_SECONDS": SettingText(
            "Time in which all of these failures are allowed again, one after another, 1 to 86400."
        ),
        "NOVELLA_SIGN_IN_FAILURES_PER_ADDRESS": SettingText(
            "Failed sign-ins per minute from one address, to any account, 0 to 1000000. 0: no limit."
        ),
        "NOVELLA_SIGN_IN_FAILURES_PER_ACCOUNT": SettingText(
            "Failed sign-ins per minute to one account, from all addresses that are not known for it, 0 to "
            "1000000. 0: no limit."
        ),
        "NOVELLA_LOCKOUT_FAILURES": SettingText(
            "Wrong passwords in a row after which a user is locked out, 0 to 1000. 0: never. With a "
            "lockout, anyone can lock out a user whose name they know, so prefer the limits above."
        ),
        "NOVELLA_LOCKOUT_SECONDS": SettingText("Duration of a lockout, 1 to 31536000."),
        "NOVELLA_OIDC_ISSUER": SettingText(
            "Issuer of an OpenID provider that users may sign in with, exactly as the provider writes it: "
            "an `https` URL, or `http` on this machine. See [signing in with a "
            "provider](../how-to/sign-in-with-openid.md)."
        ),
        "NOVELLA_OIDC_CLIENT_ID": SettingText("Client ID of this cloud at the provider. Required with an issuer."),
        "NOVELLA_OIDC_CLIENT_SECRET": SettingText("Client secret, if the provider gave one."),
        "NOVELLA_OIDC_NAME": SettingText("Name of the provider on the sign-in page, at most 40 characters."),
        "NOVELLA_OIDC_SCOPES": SettingText("Requested scopes, separated by spaces."),
        "NOVELLA_OIDC_CLAIM": SettingText("Claim whose values assign roles."),
        "NOVELLA_OIDC_ROLES": SettingText(
            "Role and project for each value of the claim, separated by commas: "
            "`crew=shop:member,chiefs=admin:admin`. The value `*` stands for every user of the provider."
        ),
    },
    "Approvals": {
        "NOVELLA_SECOND_PERSON": SettingText(
            "`on`: another administrator must approve skipping a step, marking one as done, and forcing a "
            "workflow to complete. Requesters can't approve their own requests. Both sign in themselves: tokens of "
            "trusts and application credentials take no part."
        ),
        "NOVELLA_SECOND_PERSON_SECONDS": SettingText(
            "Time to approve a request, 60 to 2592000. Afterwards it must be requested again."
        ),
    },
    "Separate processes": {
        "NOVELLA_BROKER_URL": SettingText(
            "`amqp://user:password@host:port/vhost` (RabbitMQ) or `redis://:password@host:port/number` "
            "(Redis); `amqps` and `rediss` use TLS. Empty: messages stay in the memory of one process. The "
            "broker may lose messages: they only wake up processes, and everything is sent again."
        ),
        "NOVELLA_COMPUTE_QUEUES": SettingText(
            "`per-host`: each host takes commands from the queue `compute.<host>`. `shared`: all hosts of "
            "one process take them from the queue `compute`. Default: `per-host` with a broker, `shared` "
            "without.",
            default="derived",
        ),
        "NOVELLA_MEMBERSHIP_URL": SettingText(
            "Group service with which conductors detect a failed conductor immediately: "
            "`zookeeper://host:port,host:port/path` or `etcd://host:port,host:port/prefix`, without a user "
            "or password. Optional: without it, leases expire. See [live "
            "conductors](../how-to/operate.md#live-conductors)."
        ),
        "NOVELLA_OVN_NORTHBOUND": SettingText(
            "Servers of OVN's northbound database, `tcp:host:port`, `ssl:host:port` or `unix:/path`, separated by "
            "commas. One conductor writes all networks there. Empty: networks are not written to OVN. See [networks "
            "on OVN](../how-to/operate.md#networks-on-ovn)."
        ),
        "NOVELLA_OVN_SOUTHBOUND": SettingText(
            "Servers of OVN's southbound database, in the same form. The conductor reads there which hosts "
            "are gateways, and which ports are up."
        ),
        "NOVELLA_OVN_PRIVATE_KEY": SettingText(
            "File with the private key of conductors, for servers of OVN with `ssl:`. See [TLS and host "
            "rights](../how-to/network.md#tls-and-host-rights)."
        ),
        "NOVELLA_OVN_CERTIFICATE": SettingText("File with the certificate of that key."),
        "NOVELLA_OVN_CA_CERTIFICATE": SettingText(
            "File with the certificates of the authorities that conductors trust for servers of OVN."
        ),
        "NOVELLA_OVN_FAILOVER_MILLISECONDS": SettingText(
            "Time without a message from a gateway host after which another host takes over its routers and "
            "floating IPs, in milliseconds. Hosts send each other three messages in this time. Raise it if busy "
            "hosts are mistaken for dead ones."
        ),
        "NOVELLA_CHANNEL_URL": SettingText(
            "`redis://…`: live pages of all web processes get each event immediately. Empty: each web "
            "process polls the event log three times a second while pages are open."
        ),
        "NOVELLA_IMAGE_DIR": SettingText(
            "Directory of image data. Web processes write it and agents of hosts read it, so share it "
            "between machines, for example by NFS.",
            default="`images` in the data directory",
        ),
        "NOVELLA_KEPT_FREE_GB": SettingText(
            "GiB to keep free on the disk of images, volumes, snapshots and backups, which also holds "
            "SQLite databases. Requests that need this space are refused with 507, in the Image API with "
            "413. 0: keep nothing free."
        ),
    },
    "Notifications": {
        "NOVELLA_NOTIFICATION_WEBHOOKS": SettingText(
            "URLs (`https://` or `http://`), separated by commas, to which each notification is posted."
        ),
        "NOVELLA_NOTIFICATION_SECRET": SettingText(
            "Key that signs posted notifications, at least 32 characters. Required with webhooks."
        ),
        "NOVELLA_NOTIFICATION_URL": SettingText(
            "`amqp://user:password@host:port/vhost` (or `amqps`): RabbitMQ server whose topic exchange "
            "`novella.notifications` gets each notification."
        ),
        "NOVELLA_NOTIFICATION_PRIVATE_TARGETS": SettingText(
            "`on`: webhooks of [subscriptions](notifications.md#subscriptions) may use private and loopback"
            " addresses, which conductors can reach and tenants can't."
        ),
        "NOVELLA_SMTP_URL": SettingText(
            "Mail server for [subscriptions](notifications.md#subscriptions): "
            "`smtps://user:password@host:465`, `smtp+starttls://…:587`, or, without encryption, "
            "`smtp://host:25` for a server on this machine or in a private network. Percent-encode special "
            "characters of the password. Empty: no email."
        ),
        "NOVELLA_MAIL_FROM": SettingText(
            "Sender address of emails, such as `cloud@example.org`. Required with `NOVELLA_SMTP_URL`."
        ),
    },
    "For developers": {
        "NOVELLA_LOG_LEVEL": SettingText("`DEBUG`, `INFO`, `WARNING`, `ERROR` or `CRITICAL`."),
        "NOVELLA_DEBUG": SettingText(
            "Django's debug pages. They show settings and source code: never use them on a machine that "
            "others can reach."
        ),
        "NOVELLA_CRASH_AT": SettingText(
            "Test aid: the process ends as by `kill -9` at the failpoint of this name, such as "
            "`build_in_cell.do.PlugNetworks.effect`. With `@<file>` the name is read from the file, which "
            "the process deletes first."
        ),
        "NOVELLA_MESSAGE_FAULTS": SettingText(
            "Test aid: share of this process's messages that are lost, sent twice, or delayed by up to two "
            "seconds, such as `lose=0.05,repeat=0.1,delay=0.1`."
        ),
    },
    ELSEWHERE: {
        "NOVELLA_PLUGINS": SettingText(
            "Modules that ship as plugins. Installed packages add theirs by their entry points."
        ),
        "NOVELLA_ENABLED_FILTERS": SettingText(
            "Filters by name, in the order in which they run. Empty: all built-in ones that are on by "
            "default, then those installed."
        ),
        "NOVELLA_ENABLED_WEIGHERS": SettingText(
            "Weighers by name. Empty: all built-in ones that are on by default, then those installed."
        ),
        "NOVELLA_PREFILTERS": SettingText("Optional prefilters to enable, by name."),
        "NOVELLA_SCHEDULER_OPTIONS": SettingText("Options of filters and weighers, by the option's name."),
        "NOVELLA_WEIGHT_MULTIPLIERS": SettingText(
            'Multipliers of weights, by a weigher\'s option, such as `{"ram_weight_multiplier": -1.0}`.'
        ),
        "NOVELLA_WEIGHT_RANGES": SettingText(
            "[Fixed ranges](../explanation/scheduling.md#fixed-ranges) of weights: the two ends of a "
            "weigher's scale, by its name."
        ),
        "NOVELLA_FAIL_OPEN_FILTERS": SettingText("Filters that let hosts pass when they fail. All others reject them."),
        "NOVELLA_MAX_BUILD_ATTEMPTS": SettingText("Hosts that a build tries before it fails."),
        "NOVELLA_HOST_SUBSET_SIZE": SettingText("Number of best hosts from which one is drawn at random."),
        "NOVELLA_CONTENTION_SUBSET_SIZE": SettingText(
            "Largest number of best hosts from which a host is drawn at random, for a while after claims "
            "were lost to other conductors. 1: always the best host."
        ),
        "NOVELLA_SHUFFLE_BEST_SAME_WEIGHED_HOSTS": SettingText(
            "`True`: one of the best hosts with equal weights is drawn at random. `False`: the first one by"
            " cell and name."
        ),
        "NOVELLA_CANDIDATE_STRATEGY": SettingText(
            "`depth-first`: all [allocation candidates](../explanation/placement.md#candidates) of one "
            "provider tree, then of the next. `breadth-first`: one of each tree in turn."
        ),
        "NOVELLA_CANDIDATES_AT_MOST": SettingText(
            "Number of allocation candidates after which a search ends. -1: no limit."
        ),
        "NOVELLA_CANDIDATES_AT_RANDOM": SettingText(
            "`True`: allocation candidates in random order. `False`: in the order in which their providers "
            "were created."
        ),
        "NOVELLA_PCI_ALIASES": SettingText(
            "Names of PCI devices for flavors. Each has `name`, `vendor_id` and `product_id`, and may have "
            "`device_type`, `numa_policy` and `live_migratable`."
        ),
        "NOVELLA_EXTENSIONS": SettingText(
            "Options of installed plugins: kind, name, options. [Plugin hooks](plugin-hooks.md) lists the kinds."
        ),
        "NOVELLA_NOTIFICATION_SINKS": SettingText(
            "[Notification sinks](plugin-hooks.md) of plugins, with their options."
        ),
        "NOVELLA_NOVA_FILTERS": SettingText(
            "Filters written for OpenStack Nova, by their Python paths ([use Nova's "
            "plugins](../how-to/use-nova-plugins.md))."
        ),
        "NOVELLA_NOVA_WEIGHERS": SettingText(
            "Weighers written for OpenStack Nova, by their Python paths, with their multipliers. `None`: "
            "the multiplier of Nova's own configuration."
        ),
        "NOVELLA_NOVA_CONFIG_FILES": SettingText("Configuration files of Nova that these filters and weighers read."),
        "NOVELLA_PLUGIN_SECONDS": SettingText("Time limit of one external plugin in one decision."),
        "NOVELLA_DECISION_SECONDS": SettingText("Time limit of all external plugins together in one decision."),
        "NOVELLA_PLUGIN_LOAD_SECONDS": SettingText("Time limit for the import of a plugin in its worker."),
        "NOVELLA_QUARANTINE_AFTER": SettingText(
            "Number of failed decisions, among a plugin's last ones, after which it is "
            "[quarantined](../how-to/manage-plugins.md). 0: never."
        ),
        "NOVELLA_QUARANTINE_WINDOW": SettingText("Number of a plugin's last decisions among which failures count."),
        "NOVELLA_QUARANTINE_SECONDS": SettingText("Longest duration of a quarantine. 0: until an operator ends it."),
        "NOVELLA_QUARANTINE_FIRST_SECONDS": SettingText(
            "Duration of the quarantine after one hang or exit. It doubles each time, up to the longest duration."
        ),
        "NOVELLA_PRICES": SettingText(
            "Prices of servers: `currency`, and `vcpu`, `memory_gb` and `disk_gb` per hour. Empty: a cloud "
            "without prices."
        ),
        "NOVELLA_WEB_APPLICATION": SettingText("Python path of the application that web processes serve."),
        "NOVELLA_LIVE_PUBLISHER": SettingText(
            "Python path of the function that reports new events to the live pages of the same process."
        ),
        "NOVELLA_SCHEDULER_CLIENT": SettingText(
            "Python path of the function that selects hosts. `NOVELLA_SCHEDULER` decides."
        ),
    },
}
