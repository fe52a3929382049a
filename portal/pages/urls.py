"""Routes of the pages."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from portal import languages
from portal.pages import home, search
from portal.pages.accounts import accounts, passwords, provider_sign_in, second_factor, session, subscriptions
from portal.pages.audit import activity, audit_log
from portal.pages.hosts import cells, drain, drains, fleet, host_actions, host_page, hosts, services
from portal.pages.operations import triage
from portal.pages.projects import budgets, quota_requests
from portal.pages.resource_pages import quota_sets
from portal.pages.resource_pages import urls as resources
from portal.pages.scheduling import decisions, plugins, proposals, what_if
from portal.pages.servers import console_shares, consoles, launch, metrics, server_actions, server_list, servers
from portal.pages.workflows import compare, interventions, live_migrations, steps, tray, waits, workflow_list, workflows

urlpatterns: list[URLPattern | URLResolver] = [
    path("", home.home, name="home"),
    path("sign-in", accounts.sign_in, name="sign-in"),
    path("sign-in/code", accounts.sign_in_code, name="sign-in-code"),
    path("sign-in/provider", provider_sign_in.begin, name="sign-in-provider"),
    path("sign-in/provider/answer", provider_sign_in.answer, name="sign-in-provider-answer"),
    path("sign-out", accounts.sign_out, name="sign-out"),
    path("session", session.session, name="session"),
    path("project", accounts.project, name="project"),
    path("theme", accounts.theme, name="theme"),
    path("words/<slug:language>.js", languages.scripts_words, name="script-words"),
    path("search", search.search, name="search"),
    path("notifications", tray.tray, name="tray"),
    path("notifications/clear", tray.clear, name="tray-clear"),
    path("notifications/subscriptions", subscriptions.subscription_list, name="subscriptions"),
    path("notifications/subscriptions/<str:subscription_uuid>", subscriptions.subscription, name="subscription"),
    path(
        "notifications/subscriptions/<str:subscription_uuid>/<slug:action_id>",
        subscriptions.act,
        name="subscription-act",
    ),
    path("servers", server_list.server_list, name="servers"),
    path("servers/columns", server_list.choose_columns, name="server-columns"),
    path("servers/views", server_list.keep_view, name="server-views"),
    path("servers/launch", launch.launch, name="launch"),
    path("servers/launch/summary", launch.summary, name="launch-summary"),
    path("servers/delete", servers.delete_servers, name="delete-servers"),
    path("servers/do/<slug:action>", server_actions.act, name="act-on-servers"),
    path("servers/<str:server_uuid>", servers.server, name="server"),
    path("servers/<str:server_uuid>/console/<slug:kind>", consoles.open_console, name="open-console"),
    path("servers/<str:server_uuid>/shares", console_shares.shares, name="console-shares"),
    path("servers/<str:server_uuid>/shares/new", console_shares.share, name="share-console"),
    path("servers/<str:server_uuid>/shares/<str:share_uuid>/revoke", console_shares.revoke, name="unshare-console"),
    path("console", consoles.linked, name="console"),
    path("watch/<str:token>", console_shares.watch, name="watch-console"),
    path("watch/<str:token>/<slug:kind>", console_shares.open_watched, name="open-watched"),
    path("servers/<str:server_uuid>/figures", metrics.figures, name="server-figures"),
    path("servers/<str:server_uuid>/<slug:tab>", servers.server, name="server-tab"),
    path("workflows", workflow_list.workflow_list, name="workflows"),
    path("workflows/views", workflow_list.save_view, name="workflow-views"),
    path("workflows/views/<str:view_uuid>/forget", workflow_list.forget_view, name="workflow-view-forget"),
    path("workflows/compare", compare.compare, name="workflow-compare"),
    path("workflows/<str:run_uuid>", workflows.workflow, name="workflow"),
    path("workflows/<str:run_uuid>/do/<slug:name>", interventions.intervene, name="intervene"),
    path("workflows/<str:run_uuid>/step/<slug:key>", steps.step, name="workflow-step"),
    path("workflows/<str:run_uuid>/migration/<slug:name>", live_migrations.order, name="migration-order"),
    path("workflows/<str:run_uuid>/why", waits.why, name="workflow-why"),
    path("workflows/<str:run_uuid>/log", workflows.log, name="workflow-log"),
    path("workflows/<str:run_uuid>/<slug:tab>", workflows.workflow, name="workflow-tab"),
    path("decisions/<str:decision_uuid>", decisions.decision, name="decision"),
    path("decisions/<str:decision_uuid>/fits-if", decisions.fits_if, name="decision-fits-if"),
    path("triage", triage.triage_list, name="triage"),
    path("triage/count", triage.count, name="triage-count"),
    path("triage/do/<slug:action_id>", triage.act, name="triage-do"),
    path("what-if/proposals", proposals.proposal_list, name="proposals"),
    path("what-if/proposals/new", proposals.propose, name="propose"),
    path("what-if/proposals/<str:proposal_uuid>", proposals.proposal, name="proposal"),
    path("what-if/proposals/<str:proposal_uuid>/<slug:action_id>", proposals.decide, name="proposal-decide"),
    path("what-if", what_if.what_if, name="what-if"),
    path("fleet", fleet.fleet_map, name="fleet"),
    path("cells", cells.cell_list, name="cells"),
    path("activity", activity.activity, name="activity"),
    path("audit", audit_log.audit_log, name="audit-log"),
    path("audit.csv", audit_log.audit_csv, name="audit-csv"),
    path("cells/<str:name>/test", cells.try_call, name="cell-test"),
    path("cells/<str:name>/do/<slug:action_id>", cells.cell_action, name="cell-action"),
    path("hosts", hosts.host_list, name="hosts"),
    path("hosts/<str:name>", host_page.host, name="host"),
    path("hosts/<str:name>/drain", drain.drain, name="host-drain"),
    path("hosts/<str:name>/drain/<slug:action>", drain.steer, name="host-drain-steer"),
    path("hosts/<str:name>/note", host_page.host_note, name="host-note"),
    path("hosts/<str:name>/do/<slug:action_id>", host_page.host_action, name="host-action"),
    path("hosts/-/<slug:action_id>", host_actions.hosts_action, name="hosts-action"),
    path("drains", drains.progress, name="drains"),
    path("drains/new", drains.begin, name="drains-begin"),
    path("drains/do/<slug:action>", drains.steer, name="drains-steer"),
    path("plugins", plugins.plugin_list, name="plugins"),
    path("plugins/<slug:kind>/order", plugins.order, name="plugins-order"),
    path("plugins/<slug:kind>/of/<str:name>", plugins.plugin, name="plugin"),
    path("plugins/<slug:kind>/of/<str:name>/<slug:action>", plugins.shut, name="plugin-shut"),
    path("profile/password", passwords.own_password, name="own-password"),
    path("profile/second-factor", second_factor.second_factor, name="second-factor"),
    path("services", services.service_list, name="service-list"),
    path("budgets", budgets.budget_list, name="budgets"),
    path("budgets/<str:project_id>", budgets.budget, name="budget"),
    path("project-quotas", quota_sets.quota_table, name="quota-table"),
    path("quotas/more", quota_requests.ask, name="quota-ask"),
    path("quotas/requests/<str:request_uuid>/withdraw", quota_requests.withdraw, name="quota-withdraw"),
    path("quota-requests", quota_requests.request_list, name="quota-requests"),
    path("quota-requests/<str:request_uuid>/<slug:action_id>", quota_requests.decide, name="quota-decide"),
    *resources.urlpatterns,
]
