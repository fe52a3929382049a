"""The use that a run makes of a host beside others: builds and moves hold their destination, and share it.

Who wants a host for itself (a drain, the end of its service) holds `host:<name>`; both sides first lock the row of the
host's service, so that neither can begin unseen by the other.
"""

from __future__ import annotations

from django.db import connections

from conductor.core.errors import HostClosed
from conductor.core.identifiers import host_resource, host_use_resource
from conductor.journal import checkpoints
from conductor.journal.models import ResourceLock
from conductor.sql import dialect
from conductor.workflows.flow import Work

BINARY = "nova-compute"
_HOLD_SERVICE = 'SELECT id FROM cell_db_service WHERE "binary" = %s AND host = %s {for update}'
_IS_CLOSED = "SELECT 1 FROM journal_resourcelock WHERE resource = %s AND (run_id IS NULL OR run_id <> %s)"


def hold(work: Work, host: str) -> None:
    """Let nobody have the host for himself while this run uses it; inside a fenced transaction.

    Raises HostClosed, naming the holder, when somebody has it. Holding it twice changes nothing.
    """
    connection = connections[work.alias]
    if connection.vendor != "sqlite":  # whose writers are alone from the start
        dialect.run(connection, _HOLD_SERVICE, (BINARY, host))
    is_closed = dialect.run(connection, _IS_CLOSED, (host_resource(host), work.run.pk))
    locks = ResourceLock.objects.using(work.alias).select_related("run")
    held = locks.filter(resource=host_resource(host)).first() if is_closed else None
    if held is not None:
        raise HostClosed(f"Host {host} takes nothing now: it is held by {held.holder}.")
    checkpoints.take_locks(connection, work.run.pk, [host_use_resource(host, work.run.uuid)])


def let_go(work: Work) -> None:
    """Use no host any more; inside a fenced transaction. The end of a run does it too."""
    mine = ResourceLock.objects.using(work.alias).filter(run_id=work.run.pk)
    mine.filter(resource__startswith="host:", resource__endswith=f"#{work.run.uuid}").delete()
