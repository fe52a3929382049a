"""The use that a run makes of a host beside others: builds and moves hold their destination, and share it.

Who wants a host for itself (a drain, the end of its service) holds `host:<name>`; both sides first lock the row of the
host's service, so that neither can begin unseen by the other.
"""

from __future__ import annotations

from conductor.cell_db.models import Service
from conductor.core.errors import HostClosed
from conductor.core.identifiers import host_resource, host_use_resource
from conductor.journal.models import ResourceLock
from conductor.transactions import database_now
from conductor.workflows.flow import Work

BINARY = "nova-compute"


def hold(work: Work, host: str) -> None:
    """Let nobody have the host for himself while this run uses it; inside a fenced transaction.

    Raises HostClosed, naming the holder, when somebody has it. Holding it twice changes nothing.
    """
    Service.objects.using(work.alias).select_for_update().filter(binary=BINARY, host=host).first()
    locks = ResourceLock.objects.using(work.alias).select_related("run")
    held = locks.filter(resource=host_resource(host)).exclude(run_id=work.run.pk).first()
    if held is not None:
        raise HostClosed(f"Host {host} takes nothing now: it is held by {held.holder}.")
    locks.get_or_create(
        resource=host_use_resource(host, work.run.uuid), defaults={"run_id": work.run.pk, "granted_at": database_now()}
    )


def let_go(work: Work) -> None:
    """Use no host any more; inside a fenced transaction. The end of a run does it too."""
    mine = ResourceLock.objects.using(work.alias).filter(run_id=work.run.pk)
    mine.filter(resource__startswith="host:", resource__endswith=f"#{work.run.uuid}").delete()
