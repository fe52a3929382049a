"""Instance usage audit log. It is always empty, because usage is calculated on request here.

The answer has the form of a cloud whose hosts have not run their audits, and lists these hosts.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.services.billing import usage
from conductor.services.hosts import hosts
from portal.api.base import ApiRequest
from portal.api.compute.view import BARE_SINCE, ComputeView

TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?\Z")


class AuditLogView(ComputeView):
    bare_since = BARE_SINCE

    def log(self, before: datetime) -> dict[str, Any]:
        """Return the log of the last whole month before a time."""
        end = before.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        begin = (end - timedelta(days=1)).replace(day=1)
        services = hosts.list_services(self.request.context, binary=hosts.COMPUTE).items
        names = sorted({service.host for service in services})
        return {
            "period_beginning": f"{begin:%Y-%m-%d %H:%M:%S}",
            "period_ending": f"{end:%Y-%m-%d %H:%M:%S}",
            "num_hosts": len(names),
            "num_hosts_done": 0,
            "num_hosts_running": 0,
            "num_hosts_not_run": len(names),
            "hosts_not_run": names,
            "total_instances": 0,
            "total_errors": 0,
            "overall_status": f"{'0 of ' + str(len(names)) if names else 'ALL'} hosts done. 0 errors.",
            "log": {},
        }


class AuditLog(AuditLogView):
    def get(self, request: ApiRequest) -> Response:
        return Response({"instance_usage_audit_logs": self.log(usage.now())})


class AuditLogBefore(AuditLogView):
    def get(self, request: ApiRequest, time: str) -> Response:
        return Response({"instance_usage_audit_log": self.log(_time_of(time))})


def _time_of(text: str) -> datetime:
    try:
        if not TIME.match(text):
            raise ValueError
        found = datetime.fromisoformat(text).replace(tzinfo=UTC)
        found.replace(day=1) - timedelta(days=1)  # the month before must be a valid date too
    except (ValueError, OverflowError):
        raise Invalid(f"Invalid timestamp for date {text[:60]}", field="time") from None
    return found
