"""Global tables: where things are, what was asked, and what may be asked for."""

from conductor.api_db.models.aggregate import Aggregate, AggregateHost
from conductor.api_db.models.announcement import Announcement
from conductor.api_db.models.budget import Budget
from conductor.api_db.models.cell_mapping import CellMapping, HostMapping, InstanceMapping
from conductor.api_db.models.client_request import ClientRequest
from conductor.api_db.models.console_token import ConsoleShare, ConsoleToken
from conductor.api_db.models.finding import Finding
from conductor.api_db.models.flavor import Flavor, FlavorAccess
from conductor.api_db.models.host_key import ConductorKey, HostEnrollment, HostKey
from conductor.api_db.models.instance_group import InstanceGroup, InstanceGroupMember
from conductor.api_db.models.keypair import KeyPair
from conductor.api_db.models.plugin import (
    PluginChoice,
    PluginConformance,
    PluginMetric,
    PluginNote,
    PluginProposal,
    PluginQuarantine,
)
from conductor.api_db.models.quota import Quota, UserQuota
from conductor.api_db.models.quota_request import QuotaRequest
from conductor.api_db.models.request import BuildRequest, HostSnapshot, RequestSpecRecord, SchedulingDecision
from conductor.api_db.models.saved_view import SavedView
from conductor.api_db.models.snapshot_schedule import SnapshotSchedule
from conductor.api_db.models.subscription import Notice, Subscription
from conductor.api_db.models.triage_snooze import TriageSnooze

__all__ = [
    "Aggregate",
    "AggregateHost",
    "Announcement",
    "Budget",
    "BuildRequest",
    "CellMapping",
    "ClientRequest",
    "ConductorKey",
    "ConsoleShare",
    "ConsoleToken",
    "Finding",
    "Flavor",
    "FlavorAccess",
    "HostEnrollment",
    "HostKey",
    "HostMapping",
    "HostSnapshot",
    "InstanceGroup",
    "InstanceGroupMember",
    "InstanceMapping",
    "KeyPair",
    "Notice",
    "PluginChoice",
    "PluginConformance",
    "PluginMetric",
    "PluginNote",
    "PluginProposal",
    "PluginQuarantine",
    "Quota",
    "QuotaRequest",
    "RequestSpecRecord",
    "SavedView",
    "SchedulingDecision",
    "SnapshotSchedule",
    "Subscription",
    "TriageSnooze",
    "UserQuota",
]
