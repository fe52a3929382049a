"""Routes of the pages."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from portal.pages import (
    accounts,
    compare,
    consoles,
    decisions,
    flow_list,
    flows,
    home,
    hosts,
    interventions,
    launch,
    migrations,
    plugins,
    server_actions,
    server_list,
    servers,
    steps,
    waits,
)
from portal.pages.resources import urls as resources

urlpatterns: list[URLPattern | URLResolver] = [
    path("", home.home, name="home"),
    path("sign-in", accounts.sign_in, name="sign-in"),
    path("sign-out", accounts.sign_out, name="sign-out"),
    path("project", accounts.project, name="project"),
    path("theme", accounts.theme, name="theme"),
    path("servers", server_list.server_list, name="servers"),
    path("servers/columns", server_list.choose_columns, name="server-columns"),
    path("servers/views", server_list.keep_view, name="server-views"),
    path("servers/launch", launch.launch, name="launch"),
    path("servers/launch/summary", launch.summary, name="launch-summary"),
    path("servers/delete", servers.delete_servers, name="delete-servers"),
    path("servers/do/<slug:action>", server_actions.act, name="act-on-servers"),
    path("servers/<str:server_uuid>", servers.server, name="server"),
    path("servers/<str:server_uuid>/console/<slug:kind>", consoles.open_console, name="open-console"),
    path("console", consoles.linked, name="console"),
    path("servers/<str:server_uuid>/<slug:tab>", servers.server, name="server-tab"),
    path("workflows", flow_list.workflow_list, name="workflows"),
    path("workflows/views", flow_list.save_view, name="workflow-views"),
    path("workflows/views/<str:view_uuid>/forget", flow_list.forget_view, name="workflow-view-forget"),
    path("workflows/compare", compare.compare, name="workflow-compare"),
    path("workflows/<str:run_uuid>", flows.workflow, name="workflow"),
    path("workflows/<str:run_uuid>/do/<slug:name>", interventions.intervene, name="intervene"),
    path("workflows/<str:run_uuid>/step/<slug:key>", steps.step, name="workflow-step"),
    path("workflows/<str:run_uuid>/migration/<slug:name>", migrations.order, name="migration-order"),
    path("workflows/<str:run_uuid>/why", waits.why, name="workflow-why"),
    path("workflows/<str:run_uuid>/log", flows.log, name="workflow-log"),
    path("workflows/<str:run_uuid>/<slug:tab>", flows.workflow, name="workflow-tab"),
    path("decisions/<str:decision_uuid>", decisions.decision, name="decision"),
    path("decisions/<str:decision_uuid>/fits-if", decisions.fits_if, name="decision-fits-if"),
    path("hosts", hosts.host_list, name="hosts"),
    path("plugins", plugins.plugin_list, name="plugins"),
    path("plugins/<slug:kind>/order", plugins.order, name="plugins-order"),
    path("plugins/<slug:kind>/of/<str:name>", plugins.plugin, name="plugin"),
    path("plugins/<slug:kind>/of/<str:name>/<slug:action>", plugins.shut, name="plugin-shut"),
    *resources.urlpatterns,
]
