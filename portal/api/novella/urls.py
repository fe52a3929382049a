"""Routes of our own API, below /api."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.urls import URLPattern, URLResolver, path
from rest_framework.routers import SimpleRouter

from conductor.core.interventions import INTERVENTIONS
from portal.api.novella import (
    announcements,
    approvals,
    audit,
    budgets,
    cells,
    console_shares,
    decisions,
    events,
    findings,
    host_enrollments,
    hosts,
    interventions,
    locks,
    migrations,
    plugins,
    proposals,
    quota_requests,
    quotas,
    reference,
    second_factors,
    servers,
    snapshot_schedules,
    subscriptions,
    triage,
    what_if,
    workflows,
)
from portal.api.novella.viewset import NovellaViewSet

NOUNS: Mapping[str, type[NovellaViewSet]] = {
    "workflows": workflows.WorkflowViewSet,
    "approvals": approvals.ApprovalViewSet,
    "events": events.EventViewSet,
    "locks": locks.LockViewSet,
    "cells": cells.CellViewSet,
    "host-enrollments": host_enrollments.HostEnrollmentViewSet,
    "hosts": hosts.HostViewSet,
    "audit": audit.AuditViewSet,
    "plugins": plugins.PluginViewSet,
    "findings": findings.FindingViewSet,
    "triage": triage.TriageViewSet,
    "subscriptions": subscriptions.SubscriptionViewSet,
    "quota-requests": quota_requests.QuotaRequestViewSet,
    "quotas": quotas.QuotaViewSet,
    "budgets": budgets.BudgetViewSet,
    "snapshot-schedules": snapshot_schedules.SnapshotScheduleViewSet,
    "announcements": announcements.AnnouncementViewSet,
    "servers": servers.ServerViewSet,
    "servers/<str:server_id>/console-shares": console_shares.ConsoleShareViewSet,
    "what-if": what_if.WhatIfViewSet,
    "what-if/proposals": proposals.ProposalViewSet,
    "decisions": decisions.DecisionViewSet,
}
router = SimpleRouter(trailing_slash=False, use_regex_path=False)
for prefix, viewset in NOUNS.items():
    router.register(prefix, viewset, basename=f"novella-{prefix.rpartition('/')[2]}")

RUN = "workflows/<str:run_uuid>"
FACTOR: Mapping[str, Any] = {"get": "retrieve", "delete": "destroy"}
DEFAULTS: Mapping[str, Any] = {"get": "retrieve", "put": "update"}
urlpatterns: list[URLPattern | URLResolver] = [
    path("schema", reference.ReferenceViewSet.as_view({"get": "retrieve"})),
    path("docs", reference.ReferenceViewSet.as_view({"get": "read"}), name="api-reference"),
    *router.urls,
    # Streams of the same events: portal.live.event_streams
    path("events/stream", events.EventViewSet.as_view({"get": "list"})),
    path(f"{RUN}/events/stream", workflows.WorkflowViewSet.as_view({"get": "events"})),
    *(
        path(f"{RUN}/{one.id}", interventions.InterventionViewSet.as_view({"post": "create"}, intervention=one.id))
        for one in INTERVENTIONS
    ),
    path(f"{RUN}/migration", migrations.LiveMigrationViewSet.as_view({"get": "retrieve"})),
    *(
        path(f"{RUN}/migration/{order}", migrations.LiveMigrationViewSet.as_view({"post": "create"}, order=order))
        for order in migrations.BODIES
    ),
    path("quota-defaults", quotas.QuotaDefaultViewSet.as_view(dict(DEFAULTS))),
    path("users/<str:user_id>/second-factor", second_factors.SecondFactorViewSet.as_view(dict(FACTOR))),
]
