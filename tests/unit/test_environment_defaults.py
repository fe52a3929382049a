"""What every variable is when nobody sets it."""

from __future__ import annotations

from typing import Any

from portal.environment import PROJECT_DIR, Environment, load

KEY = "k" * 32

SET_BY_NOBODY: dict[str, Any] = {
    "host": "127.0.0.1",
    "port": 8000,
    "data": PROJECT_DIR / "var",
    "cells": ("cell1", "cell2"),
    "database_url": None,
    "secret_key": KEY,
    "audit_key": KEY,
    "allowed_hosts": ("localhost", "127.0.0.1", "[::1]"),
    "debug": False,
    "log_level": "INFO",
    "virt_type": "auto",
    "real_host": "auto",
    "simulated_hosts": 8,
    "hosts_file": "",
    "simulated_latency_seconds": 1.0,
    "lease_seconds": 10.0,
    "sweep_seconds": 2.0,
    "broker_url": "",
    "compute_queues": "shared",
    "channel_url": "",
    "membership_url": "",
    "notification_webhooks": (),
    "notification_secret": "",
    "notification_url": "",
    "notification_private_targets": False,
    "image_dir": PROJECT_DIR / "var" / "images",
    "heartbeat_seconds": 5.0,
    "host_down_seconds": 30.0,
    "command_seconds": 14400.0,
    "shutdown_seconds": 60.0,
    "reclaim_seconds": 0.0,
    "reconcile_seconds": 60.0,
    "resize_confirm_seconds": 0.0,
    "allow_resize_to_same_host": True,
    "lists_pass_over_silent_cells": True,
    "second_person": False,
    "second_person_seconds": 3600.0,
    "shelved_offload_seconds": 0.0,
    "keep_workflows_days": 90,
    "keep_events_days": 30,
    "keep_decisions_days": 30,
    "keep_snapshots_days": 7,
    "keep_consoles_days": 7,
    "keep_metrics_days": 1,
    "keep_audit_days": 0,
    "keep_deliveries_days": 7,
    "keep_findings_days": 90,
    "decision_sample": 1.0,
    "snapshot_hosts": 10_000,
    "crash_at": "",
    "message_faults": "",
    "token_recheck_seconds": 1.0,
    "lockout_failures": 0,
    "lockout_seconds": 1800.0,
    "oidc_issuer": "",
    "oidc_client_id": "",
    "oidc_client_secret": "",
    "oidc_name": "single sign-on",
    "oidc_scopes": ("openid", "profile", "email"),
    "oidc_claim": "groups",
    "oidc_roles": (),
    "console_listen": ("127.0.0.1", 0),
    "console_address": "",
    "console_token_seconds": 600.0,
    "console_session_seconds": 14400.0,
    "session_seconds": 43_200.0,
    "band": "",
    "band_colour": "blue",
    "request_seconds": 60.0,
    "requests_per_minute": 0,
    "changes_per_minute": 0,
    "cors_origins": (),
}


def test_defaults() -> None:
    given = frozenset({"NOVELLA_SECRET_KEY"})
    assert load({"NOVELLA_SECRET_KEY": KEY}) == Environment(**SET_BY_NOBODY, given=given)
