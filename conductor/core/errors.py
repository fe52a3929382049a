"""The error tree, independent of HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class NovellaError(Exception):
    """Something went wrong."""

    def __init__(self, message: str | None = None, **details: Any) -> None:
        self.message = message or (self.__class__.__doc__ or "").strip()
        self.details = details
        super().__init__(self.message)


class Invalid(NovellaError):
    """The request is not valid."""


class NotAuthenticated(NovellaError):
    """The request you have made requires authentication."""


class Forbidden(NovellaError):
    """Policy does not allow this request."""


class QuotaExceeded(NovellaError):
    """Quota exceeded."""


class NotFound(NovellaError):
    """The resource could not be found."""


class Conflict(NovellaError):
    """The request conflicts with the state of the resource."""


class KeptByHost(Conflict):
    """An unresponsive host may still have it."""


class ResourceLocked(Conflict):
    """Another workflow holds the resource."""


class ConcurrentUpdate(Conflict):
    """Another request changed the resource first; read it again and retry."""


class StaleRevision(ConcurrentUpdate):
    """The caller has seen an older revision; look again."""


class Unavailable(NovellaError):
    """A service that is needed does not answer."""


class TooManyRequests(NovellaError):
    """Too many requests."""


class StorageFull(NovellaError):
    """The storage has no room."""


class CellUnavailable(Unavailable):
    """The cell does not answer."""


class OutOfTime(Unavailable):
    """The request took too long: ask for less at once, or narrow it with filters."""


class NoValidHost(NovellaError):
    """No valid host was found."""


class StaleToken(NovellaError):
    """The fencing token is older than one seen before: another process owns this work now."""


class DriverError(NovellaError):
    """The hypervisor refused or failed.

    `reschedulable` says whether another host might do better: a broken host, yes; a broken image, no.
    """

    reschedulable = True


class BuildAborted(DriverError):
    """The build cannot succeed on any host."""

    reschedulable = False


class GuestMissing(DriverError):
    """The host has no such guest."""

    reschedulable = False


class MigrationAborted(DriverError):
    """The live migration was aborted before the switch; the guest runs where it was."""

    reschedulable = False


class HostUnresponsive(DriverError):
    """The compute host did not answer in time."""


class InstanceMoved(Conflict):
    """The instance is elsewhere by now."""


class HostClosed(DriverError):
    """The host accepts no commands now: a maintenance reserves it."""


class CanaryFailed(NovellaError):
    """A host that was tried with a canary did not bring it to life."""


class ActionFailed(NovellaError):
    """The action was accepted and has failed."""


class NotSupported(NovellaError):
    """The driver of this host cannot do that."""


def is_cancel(error: Mapping[str, Any] | None) -> bool:
    """Whether a run ended on request: by a cancel, or by the abort of a move that its source has carried out."""
    return (error or {}).get("class") in ("Cancelled", MigrationAborted.__name__)
