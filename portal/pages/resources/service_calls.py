"""Calls the services for the pages of resources, with what the APIs' views do around each call.

A change counts against the rate limits, needs the policy of its action, and is recorded in the audit log as the request
of the API that does the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from urllib.parse import unquote

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Forbidden, NotSupported, NovellaError, QuotaExceeded, TooManyRequests
from conductor.core.page import Page
from conductor.services.audit import audit
from portal import callers
from portal.api import audited, errors, member_changes, rate_limits
from portal.api.member_changes import ApiChange, ChangeResult
from portal.api.validation import validate
from portal.pages import policies
from portal.pages.resources.model import (
    ActionResult,
    Call,
    FieldOption,
    Item,
    ItemOptions,
    Query,
    Resource,
    ResourceAction,
    SubmittedForm,
)

Wanted = TypeVar("Wanted")
Found = TypeVar("Found")
# Errors of actions of servers that the audit log records: a valid request that was refused.
REFUSALS = (Conflict, Forbidden, NotSupported, QuotaExceeded)
_log = logging.getLogger(__name__)


def list_items(caller: RequestContext, resource: Resource, query: Query) -> Page[Item]:
    """Return a page of a kind. Raises Forbidden, and Invalid for an unknown marker."""
    return read(caller, resource.service, resource.rule, resource.reader.list_, query)


def get_item(caller: RequestContext, resource: Resource, ident: str) -> Item:
    """Return one resource of a kind. Raises Forbidden, NotFound."""
    rule = resource.reader.get_rule or resource.rule
    return read(caller, resource.service, rule, resource.reader.get, ident)


def list_options(caller: RequestContext, options: ItemOptions, limit: int) -> Sequence[FieldOption]:
    """Return the options of a field. Raises Forbidden."""
    page = read(caller, options.service, options.rule, options.list_, {"limit": limit})
    return [FieldOption(options.value(item), options.words(item)) for item in page.items if options.wanted(item)]


def read(
    caller: RequestContext, service: str, rule: str, find: Callable[[RequestContext, Wanted], Found], wanted: Wanted
) -> Found:
    """Return what a function of a service finds; it counts as a request. Raises Forbidden, TooManyRequests."""
    _count(caller, "GET")
    policies.require(caller, service, rule)
    return find(caller, wanted)


@dataclass(frozen=True)
class ServiceOperation:
    """A change, with the API's service, its policy, and the request that does the same."""

    service: str
    rule: str
    call: Call


def execute(
    caller: RequestContext, resource: Resource, action: ResourceAction, form: SubmittedForm, call: Call
) -> ActionResult:
    """Carry out an action; `call` is the API's request that does the same. A refusal is returned too."""

    def run(caller: RequestContext) -> Item | None:
        body = validate(call.body, action.schema) if action.schema else call.body
        return action.execute(caller, replace(form, body=body))

    result = change(caller, ServiceOperation(action.service or resource.service, action.rule, call), run, resource.one)
    if action.refused_as and isinstance(result.error, REFUSALS):
        audit.record_refusal(caller, action.refused_as, str(form.item["id"]), result.error)
    return result


def change(
    caller: RequestContext, operation: ServiceOperation, run: Callable[[RequestContext], Item | None], noun: str = ""
) -> ActionResult:
    """Carry out a change, which returns the created or changed item. A refusal is returned too."""
    call, service = operation.call, operation.service
    path = unquote(call.path.partition("?")[0])
    try:
        _count(caller, call.method)
    except TooManyRequests as error:
        return _refused(error, service, caller.request_id)
    before = member_changes.before(caller, call.method, path)
    record = ApiChange(call.method, path, call.body, audited.plain(call.reason))
    try:
        policies.require(caller, service, operation.rule)
        made = run(caller)
    except Exception as error:
        audited.record(caller, record, ChangeResult(error=error, is_refused=True, before=before))
        return _refused(error, service, caller.request_id)
    answer = {noun: made} if made else None
    audited.record(caller, record, ChangeResult(body=answer, before=before))
    return ActionResult(200, answer)


@contextmanager
def recorded_refusals(caller: RequestContext, action: str, server_id: str) -> Iterator[None]:
    """Record a refusal by a service under the Compute API's name of the action."""
    try:
        yield
    except (Conflict, Forbidden, NotSupported) as error:
        audit.record_refusal(caller, action, server_id, error)
        raise


def _refused(error: Exception, service: str, request_id: str) -> ActionResult:
    status = errors.status_of(error, service)
    if status == 500 and not isinstance(error, NovellaError):
        _log.error("page_action_failed request_id=%s", request_id, exc_info=error)
    details: Mapping[str, Any] = getattr(error, "details", {})
    message = errors.message_of(error, status, request_id)
    return ActionResult(status, message=message, field=str(details.get("field") or ""), error=error)


def _count(caller: RequestContext, method: str) -> None:
    rate_limits.charge_for(method, callers.share_of(caller.project_id, caller.user_id))
