"""Routes of our own API, below /api."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from conductor.core.interventions import INTERVENTIONS
from portal.api.own import (
    audit,
    decisions,
    findings,
    hosts,
    interventions,
    locks,
    plugins,
    quota_requests,
    reference,
    second_factors,
    servers,
    subscriptions,
    triage,
    views,
    what_if,
)

urlpatterns: list[URLPattern | URLResolver] = [
    path("schema", reference.SchemaDocument.as_view()),
    path("docs", reference.Reference.as_view(), name="api-reference"),
    path("workflows", views.Workflows.as_view()),
    path("workflows/<str:run_uuid>", views.Workflow.as_view()),
    path("workflows/<str:run_uuid>/steps", views.WorkflowSteps.as_view()),
    path("workflows/<str:run_uuid>/actions", views.WorkflowActions.as_view()),
    path("workflows/<str:run_uuid>/events", views.WorkflowEvents.as_view()),
    path("workflows/<str:run_uuid>/events/stream", views.WorkflowEvents.as_view()),
    *(
        path(f"workflows/<str:run_uuid>/{one.id}", interventions.Intervention.as_view(name=one.id))
        for one in INTERVENTIONS
    ),
    path("events", views.Events.as_view()),
    path("events/stream", views.Events.as_view()),  # as a stream: portal.live.event_streams
    path("locks", locks.Locks.as_view()),
    path("hosts", hosts.Hosts.as_view()),
    path("hosts/<str:host>/drain", hosts.Drain.as_view()),
    path("hosts/<str:host>/drain/action", hosts.DrainAction.as_view()),
    path("hosts/<str:host>/open", hosts.Open.as_view()),
    path("hosts/<str:host>/evacuate", hosts.Evacuate.as_view()),
    path("audit", audit.Audit.as_view()),
    path("plugins", plugins.Plugins.as_view()),
    path("plugins/<str:kind>", plugins.PluginsOfKind.as_view()),
    path("plugins/<str:kind>/<str:name>", plugins.OnePlugin.as_view()),
    path("plugins/<str:kind>/<str:name>/quarantine", plugins.Quarantine.as_view()),
    path("plugins/<str:kind>/<str:name>/release", plugins.Release.as_view()),
    path("users/<str:user_id>/second-factor", second_factors.SecondFactor.as_view()),
    path("findings", findings.Findings.as_view()),
    path("triage", triage.Triage.as_view()),
    path("triage/snooze", triage.Snooze.as_view()),
    path("triage/wake", triage.Wake.as_view()),
    path("triage/apply", triage.Apply.as_view()),
    path("subscriptions", subscriptions.Subscriptions.as_view()),
    path("subscriptions/<str:subscription_uuid>", subscriptions.Subscription.as_view()),
    path("subscriptions/<str:subscription_uuid>/secret", subscriptions.NewSecret.as_view()),
    path("subscriptions/<str:subscription_uuid>/test", subscriptions.Test.as_view()),
    path("subscriptions/<str:subscription_uuid>/deliveries", subscriptions.Deliveries.as_view()),
    path("subscriptions/<str:subscription_uuid>/deliveries/<str:delivery_id>/again", subscriptions.SendAgain.as_view()),
    path("quota-requests", quota_requests.QuotaRequests.as_view()),
    path("quota-requests/<str:request_uuid>", quota_requests.QuotaRequest.as_view()),
    path("quota-requests/<str:request_uuid>/approve", quota_requests.Approve.as_view()),
    path("quota-requests/<str:request_uuid>/refuse", quota_requests.Refuse.as_view()),
    path("quota-requests/<str:request_uuid>/withdraw", quota_requests.Withdraw.as_view()),
    path("servers/<str:server_id>/try-again", servers.TryAgain.as_view()),
    path("what-if/launch", what_if.Launch.as_view()),
    path("what-if/move", what_if.Move.as_view()),
    path("what-if/drain", what_if.Drain.as_view()),
    path("decisions", decisions.Decisions.as_view()),
    path("decisions/<str:decision_uuid>", decisions.Decision.as_view()),
    path("decisions/<str:decision_uuid>/hosts", decisions.Hosts.as_view()),
    path("decisions/<str:decision_uuid>/hosts/<str:host>", decisions.Host.as_view()),
    path("decisions/<str:decision_uuid>/weights", decisions.Weights.as_view()),
    path("decisions/<str:decision_uuid>/matrix", decisions.Matrix.as_view()),
    path("decisions/<str:decision_uuid>/fits-if", decisions.FitsIf.as_view()),
    path("decisions/<str:decision_uuid>/evaluate", decisions.Evaluate.as_view()),
]
