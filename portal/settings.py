"""Django's settings, assembled from `environment`: nothing here reads a variable itself."""

from __future__ import annotations

import math
from typing import Any

from portal.databases import databases
from portal.environment import current
from portal.places import PACKAGE_DIR, PROJECT_DIR, TEMPLATES_DIR

BASE_DIR = PROJECT_DIR
environment = current()

SECRET_KEY = environment.secret_key
NOVELLA_AUDIT_KEY = environment.audit_key
DEBUG = environment.debug
ALLOWED_HOSTS = list(environment.allowed_hosts)
NOVELLA_PUBLIC_URL = environment.public_url
NOVELLA_TRUSTED_PROXIES = environment.trusted_proxies
NOVELLA_TLS_CERT = environment.tls_cert
NOVELLA_TLS_KEY = environment.tls_key
CSRF_TRUSTED_ORIGINS = [environment.public_url] if environment.public_url else []
ROOT_URLCONF = "portal.urls"
WSGI_APPLICATION = "portal.wsgi.application"
ASGI_APPLICATION = "portal.asgi.application"
APPEND_SLASH = False
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
LANGUAGES = (("en", "English"), ("de", "Deutsch"))
LANGUAGE_COOKIE_NAME = "novella_language"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "channels",
    "django_htmx",
    "conductor.apps.ConductorConfig",
    "conductor.api_db.apps.Config",
    "conductor.cell_db.apps.Config",
    "conductor.journal.apps.Config",
    "conductor.placement.apps.Config",
    "conductor.identity.apps.Config",
    "conductor.image.apps.Config",
    "conductor.network.apps.Config",
    "conductor.volume.apps.Config",
    "portal.apps.PortalConfig",
]

MIDDLEWARE = [
    "portal.middleware.RequestIdMiddleware",
    "portal.middleware.TimeBudgetMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "portal.middleware.PagesOnlyMiddleware",  # sessions, CSRF and messages for pages, none of them for the APIs
    "django_htmx.middleware.HtmxMiddleware",
]

# Pages of other origins may use the APIs with a token where the operator names them; cookies are not sent.
if environment.cors_origins:
    MIDDLEWARE.insert(1, "corsheaders.middleware.CorsMiddleware")
CORS_ALLOW_ALL_ORIGINS = "*" in environment.cors_origins
CORS_ALLOWED_ORIGINS = [origin for origin in environment.cors_origins if origin != "*"]
CORS_URLS_REGEX = r"^/(identity|compute|image|network|load-balancer|volume|placement|api)(/|$)"
CORS_ALLOW_HEADERS = (
    "accept",
    "content-type",
    "if-match",
    "last-event-id",
    "idempotency-key",
    "x-auth-token",
    "x-subject-token",
    "x-openstack-request-id",
    "openstack-api-version",
    "x-openstack-nova-api-version",
)
CORS_EXPOSE_HEADERS = (
    "etag",
    "link",
    "location",
    "retry-after",
    "idempotency-replayed",
    "x-subject-token",
    "x-openstack-request-id",
    "x-compute-request-id",
    "openstack-api-version",
    "x-openstack-nova-api-version",
)

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [TEMPLATES_DIR],
        "APP_DIRS": True,
        "OPTIONS": {
            "builtins": ["django.templatetags.i18n", "django.templatetags.l10n", "portal.templatetags.words"],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "portal.pages.navigation.shell",
            ],
        },
    }
]


CELLS = environment.cells
DATABASES = databases(environment)
DATABASE_ROUTERS = ["conductor.cells.router.CellRouter"]

AUTH_USER_MODEL = "identity.User"
AUTHENTICATION_BACKENDS = ["conductor.identity.sign_ins.Backend"]
# A login name is unique within a domain; the backend resolves a name without a domain.
SILENCED_SYSTEM_CHECKS = ["auth.W004"]
LOGIN_URL = "/sign-in"
LOGIN_REDIRECT_URL = "/"
# Scrypt needs memory instead of many rounds: cheap for a login, expensive for an attacker.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.ScryptPasswordHasher"]
SESSION_COOKIE_NAME = "novella_session"
CSRF_COOKIE_NAME = "novella_csrf"
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_AGE = math.ceil(environment.session_seconds)
X_FRAME_OPTIONS = "DENY"
# With TLS, browsers send cookies only over it. HSTS for a year needs a public URL: without one the name may be
# localhost, which other programs on this machine share.
_is_public_by_tls = environment.public_url.startswith("https://")
_is_tls = _is_public_by_tls if environment.public_url else environment.tls_cert is not None
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = LANGUAGE_COOKIE_SECURE = _is_tls
SECURE_HSTS_SECONDS = 31_536_000 if _is_public_by_tls else 0

_MEMORY_LAYER = {"BACKEND": "channels.layers.InMemoryChannelLayer"}
_REDIS_LAYER = {
    "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
    "CONFIG": {"hosts": [environment.channel_url], "prefix": "novella"},
}
CHANNEL_LAYERS = {"default": _REDIS_LAYER if environment.channel_url else _MEMORY_LAYER}

STATIC_URL = "/static/"
STATICFILES_DIRS = [PACKAGE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = False

DATA_UPLOAD_MAX_MEMORY_SIZE = 2_500_000
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["portal.api.authentication.TokenAuthentication"],
    "DEFAULT_RENDERER_CLASSES": ["portal.api.rendering.JsonRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "portal.api.novella.openapi.NovellaSchema",
    "EXCEPTION_HANDLER": "portal.api.errors.exception_handler",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Novella",
    "DESCRIPTION": "Workflows, the decisions behind them, plugins, hosts, locks and the audit log.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SCHEMA_PATH_PREFIX": "/api/",
    "COMPONENT_SPLIT_PATCH": False,  # the body of a PATCH has a serializer of its own
    "POSTPROCESSING_HOOKS": [],
    "GET_MOCK_REQUEST": "portal.api.novella.reference.no_request",
    "APPEND_COMPONENTS": {"securitySchemes": {"token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}}},
}

NOVELLA_DATA = environment.data_dir
NOVELLA_BROKER_URL = environment.broker_url
NOVELLA_SCHEDULER = environment.scheduler
NOVELLA_SCHEDULER_CLIENT = {
    "in-process": "conductor.scheduler.manager.select_for_many",
    "service": "conductor.workflows.scheduler_calls.select_for_many",
}[environment.scheduler]
NOVELLA_SCHEDULER_SECONDS = environment.scheduler_seconds
NOVELLA_SCHEDULER_CALLS = environment.scheduler_calls
NOVELLA_COMPUTE_QUEUES = environment.compute_queues
NOVELLA_CHANNEL_URL = environment.channel_url
NOVELLA_MEMBERSHIP_URL = environment.membership_url
NOVELLA_OVN_NORTHBOUND = environment.ovn_northbound
NOVELLA_OVN_SOUTHBOUND = environment.ovn_southbound
NOVELLA_OVN_PRIVATE_KEY = environment.ovn_private_key
NOVELLA_OVN_CERTIFICATE = environment.ovn_certificate
NOVELLA_OVN_CA_CERTIFICATE = environment.ovn_ca_certificate
NOVELLA_OVN_FAILOVER_MILLISECONDS = environment.ovn_failover_milliseconds
NOVELLA_IMAGE_DIR = environment.image_dir
NOVELLA_WEB_APPLICATION = "portal.web:application"
NOVELLA_LIVE_PUBLISHER = "portal.live.hub.listen"  # notifies processes with sockets of events in this process
NOVELLA_LEASE_SECONDS = environment.lease_seconds
NOVELLA_SWEEP_SECONDS = environment.sweep_seconds
NOVELLA_SHUTDOWN_SECONDS = environment.shutdown_seconds
NOVELLA_RECLAIM_SECONDS = environment.reclaim_seconds
NOVELLA_KEPT_FREE_GB = environment.kept_free_gb
NOVELLA_REQUEST_SECONDS = environment.request_seconds
NOVELLA_INTERFACE_SECONDS = environment.interface_seconds
NOVELLA_IMAGE_TRANSFERS = environment.image_transfers
NOVELLA_PROJECT_IMAGE_TRANSFERS = environment.project_image_transfers
NOVELLA_TRANSFER_BYTES_PER_SECOND = environment.transfer_bytes_per_second
NOVELLA_TRANSFER_SECONDS = environment.transfer_seconds
NOVELLA_SHARED_SUBNET_PERCENT = environment.shared_subnet_percent
NOVELLA_REQUESTS_PER_MINUTE = environment.requests_per_minute
NOVELLA_LISTS_SKIP_UNRESPONSIVE_CELLS = environment.lists_skip_unresponsive_cells
NOVELLA_SECOND_PERSON = environment.second_person
NOVELLA_SECOND_PERSON_SECONDS = environment.second_person_seconds
NOVELLA_CHANGES_PER_MINUTE = environment.changes_per_minute
NOVELLA_TOKEN_RECHECK_SECONDS = environment.token_recheck_seconds
NOVELLA_ADMIN_PROJECT = environment.admin_project
NOVELLA_CONSOLE_LISTEN = environment.console_listen
NOVELLA_CONSOLE_ADDRESS = environment.console_address
NOVELLA_CONSOLE_TOKEN_SECONDS = environment.console_token_seconds
NOVELLA_CONSOLE_SESSION_SECONDS = environment.console_session_seconds
NOVELLA_SESSION_SECONDS = environment.session_seconds
NOVELLA_SIGN_IN_FAILURES = environment.sign_in_failures
NOVELLA_SIGN_IN_SECONDS = environment.sign_in_seconds
NOVELLA_SIGN_IN_FAILURES_PER_ADDRESS = environment.sign_in_failures_per_address
NOVELLA_SIGN_IN_FAILURES_PER_ACCOUNT = environment.sign_in_failures_per_account
NOVELLA_LOCKOUT_FAILURES = environment.lockout_failures
NOVELLA_LOCKOUT_SECONDS = environment.lockout_seconds
NOVELLA_OIDC_ISSUER = environment.oidc_issuer
NOVELLA_OIDC_CLIENT_ID = environment.oidc_client_id
NOVELLA_OIDC_CLIENT_SECRET = environment.oidc_client_secret
NOVELLA_OIDC_NAME = environment.oidc_name
NOVELLA_OIDC_SCOPES = environment.oidc_scopes
NOVELLA_OIDC_CLAIM = environment.oidc_claim
NOVELLA_OIDC_ROLES = environment.oidc_roles  # (a value of the claim, a project, a role)
NOVELLA_RECONCILE_SECONDS = environment.reconcile_seconds
NOVELLA_KEEP_WORKFLOWS_DAYS = environment.keep_workflows_days  # and so on: 0 keeps for ever
NOVELLA_KEEP_EVENTS_DAYS = environment.keep_events_days
NOVELLA_KEEP_DECISIONS_DAYS = environment.keep_decisions_days
NOVELLA_KEEP_SNAPSHOTS_DAYS = environment.keep_snapshots_days
NOVELLA_DECISION_SAMPLE = environment.decision_sample
NOVELLA_SNAPSHOT_HOSTS = environment.snapshot_hosts
NOVELLA_KEEP_CONSOLES_DAYS = environment.keep_consoles_days
NOVELLA_KEEP_METRICS_DAYS = environment.keep_metrics_days
NOVELLA_KEEP_AUDIT_DAYS = environment.keep_audit_days
NOVELLA_KEEP_DELIVERIES_DAYS = environment.keep_deliveries_days
NOVELLA_KEEP_FINDINGS_DAYS = environment.keep_findings_days
NOVELLA_RESIZE_CONFIRM_SECONDS = environment.resize_confirm_seconds
NOVELLA_ALLOW_RESIZE_TO_SAME_HOST = environment.allow_resize_to_same_host
NOVELLA_SHELVED_OFFLOAD_SECONDS = environment.shelved_offload_seconds
NOVELLA_NOTIFICATION_WEBHOOKS = environment.notification_webhooks
NOVELLA_NOTIFICATION_SECRET = environment.notification_secret
NOVELLA_NOTIFICATION_URL = environment.notification_url
NOVELLA_NOTIFICATION_PRIVATE_TARGETS = environment.notification_private_targets
NOVELLA_SMTP_URL = environment.smtp_url
NOVELLA_MAIL_FROM = environment.mail_from
NOVELLA_NOTIFICATION_SINKS: dict[str, dict[str, Any]] = {}  # of plugins: name → options
# Options of plugins: kind → name → options. Kinds are in docs/reference/plugin-hooks.md.
NOVELLA_EXTENSIONS: dict[str, dict[str, dict[str, Any]]] = {}
# Prices of servers per hour: {"currency": "EUR", "vcpu": 0.012, "memory_gb": 0.004, "disk_gb": 0.0001}.
NOVELLA_PRICES: dict[str, Any] = {}
NOVELLA_CRASH_AT = environment.crash_at
NOVELLA_MESSAGE_FAULTS = environment.message_faults or None
NOVELLA_BAND = environment.band
NOVELLA_BAND_COLOUR = environment.band_colour
NOVELLA_HOST = environment.host
NOVELLA_PORT = environment.port
NOVELLA_VIRT_TYPE = environment.virt_type
NOVELLA_REAL_HOST = environment.real_host
NOVELLA_LOCAL_NETWORK = environment.local_network
NOVELLA_SIMULATED_HOSTS = environment.simulated_hosts
NOVELLA_HOSTS_FILE = environment.hosts_file or None
NOVELLA_SIMULATED_LATENCY_SECONDS = environment.simulated_latency_seconds
NOVELLA_PLUGINS: tuple[str, ...] = ("scheduler_plugins.plugin", "compute_drivers.plugin")
if NOVELLA_MEMBERSHIP_URL:  # without a group service its clients are not loaded
    NOVELLA_PLUGINS += ("conductor.membership.plugin",)
NOVELLA_ENABLED_FILTERS: tuple[str, ...] = ()  # empty: all built-in ones, in their order, then those installed
NOVELLA_ENABLED_WEIGHERS: tuple[str, ...] = ()
NOVELLA_WEIGHT_MULTIPLIERS: dict[str, float] = {}  # by a weigher's option, e.g. {"ram_weight_multiplier": -1.0}
NOVELLA_WEIGHT_RANGES: dict[str, tuple[float, float]] = {}  # by weigher: the ends of its scale
NOVELLA_SCHEDULER_OPTIONS: dict[str, Any] = {}  # of filters and weighers, by name
# Filters and weighers for OpenStack Nova, by their paths: docs/how-to/use-nova-plugins.md.
NOVELLA_NOVA_FILTERS: tuple[str, ...] = ()
NOVELLA_NOVA_WEIGHERS: dict[str, float | None] = {}  # with their multipliers; None: from Nova's own configuration
NOVELLA_NOVA_CONFIG_FILES: tuple[str, ...] = ()
# Aliases of PCI devices in flavors: {"name", "vendor_id", "product_id", "device_type", "numa_policy"} each.
NOVELLA_PCI_ALIASES: tuple[dict[str, str], ...] = ()
NOVELLA_PREFILTERS: tuple[str, ...] = ()  # optional ones to enable, by name
NOVELLA_FAIL_OPEN_FILTERS: tuple[str, ...] = ()  # filters that pass hosts when they fail; all others reject them
NOVELLA_PLUGIN_SECONDS = 2.0  # time limit for an external plugin in one decision
NOVELLA_PLUGIN_LOAD_SECONDS = 20.0  # time limit to import a package of plugins in its worker
NOVELLA_DECISION_SECONDS = 5.0  # time limit for all of them together
NOVELLA_QUARANTINE_AFTER = 10  # failed decisions, of the plugin's last NOVELLA_QUARANTINE_WINDOW ones; 0: never
NOVELLA_QUARANTINE_WINDOW = 20
NOVELLA_QUARANTINE_SECONDS = 600.0  # 0: until an operator releases it
NOVELLA_QUARANTINE_FIRST_SECONDS = 30.0  # after one hang or exit; twice as long each time, up to the one above
NOVELLA_MAX_BUILD_ATTEMPTS = 3
NOVELLA_HOST_SUBSET_SIZE = 1
NOVELLA_CONTENTION_SUBSET_SIZE = 256  # hosts to choose from at random after lost claims; 1: never
NOVELLA_SHUFFLE_BEST_SAME_WEIGHED_HOSTS = True  # False: the first of equals, in the order of their cells and names
NOVELLA_CANDIDATE_STRATEGY = "depth-first"  # all candidates of one tree, then the next; or "breadth-first"
NOVELLA_CANDIDATES_AT_MOST = -1  # candidates after which a search ends; -1: no limit
NOVELLA_CANDIDATES_AT_RANDOM = False  # False: in the order in which providers were created
NOVELLA_HEARTBEAT_SECONDS = environment.heartbeat_seconds
NOVELLA_CONDUCTOR_SECONDS = environment.conductor_seconds
NOVELLA_HOST_DOWN_SECONDS = environment.host_down_seconds
NOVELLA_FIRST_REPORT_SECONDS = environment.first_report_seconds
NOVELLA_COMMAND_SECONDS = environment.command_seconds

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{asctime} {levelname} {name} {message}", "style": "{"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": environment.log_level},
    # Novella logs starts and stops itself, and must not log credentials, as authlib could. A 404 is not logged.
    "loggers": {
        **{name: {"level": "WARNING"} for name in ("uvicorn", "dramatiq", "authlib")},
        "pika": {"level": "CRITICAL"},  # the sender logs a lost broker once
        "django.request": {"level": "ERROR"},
    },
}
