"""Idempotency keys: a request with a client's key is executed once, and repeats get the same response.

claim ──▶ work ──▶ response stored (24 h)  repeated: the stored response; another body: Conflict
  │        └─ refused: the key is free again
  └─ the process died: after CLAIM_SECONDS the next one takes over, under the same name
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings
from django.db import IntegrityError
from django.utils.crypto import salted_hmac

from conductor.api_db.models import ClientRequest
from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, NovellaError, Unavailable
from conductor.core.phrases import phrase
from conductor.core.sealing import box
from conductor.db.transactions import database_now, database_time, write_tx

KEEP_SECONDS = 24 * 3600.0
CLAIM_SECONDS = 60.0
MOST_REMOVED = 100  # expired rows, with each new one


class KeyInUse(Conflict):
    """A request with this key is under way; ask again in a moment."""


class KeyUsedOtherwise(Conflict):
    """This key was sent with another request before."""


@dataclass(frozen=True)
class StoredResponse:
    """The response to a request, as HTTP needs it."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class KeyedResponse:
    """The response under a key, the key's name, and whether it was stored before."""

    response: StoredResponse
    name: str
    is_replayed: bool


@dataclass(frozen=True)
class IdempotentRequest:
    """A key, and a text that is equal for equal requests."""

    key: str
    request: str


def once(
    context: RequestContext,
    requested: IdempotentRequest,
    work: Callable[[str], StoredResponse],
    *,
    is_one_commit: bool = False,
) -> KeyedResponse:
    """Run `work` unless it was done under this key. Return its response, or the stored one.

    `work` gets a name that stays the same until the key expires. With `is_one_commit` all its writes to the API
    database commit together with the response. Otherwise a process that takes over from a dead one runs it again, and
    must use the name to avoid duplicates.

    Raises:
        KeyInUse: a request with this key is under way.
        KeyUsedOtherwise: the key was used for another request.
    """
    digest = _digest("key", json.dumps([context.project_id, context.user_id, context.delegated_by, requested.key]))
    fingerprint = _digest("request", requested.request)
    whole: AbstractContextManager[None] = write_tx(API_ALIAS) if is_one_commit else nullcontext()
    with whole:
        row = _claim(digest, fingerprint)
        if row.answer:
            return KeyedResponse(_open(row.answer, requested.key), str(row.uuid), is_replayed=True)
        try:
            answer = work(str(row.uuid))
        except NovellaError as error:
            if not is_one_commit:  # with is_one_commit the rollback removes the claim
                _give_back(row, is_over=not isinstance(error, Unavailable))
            raise
        except BaseException:
            if not is_one_commit:
                _give_back(row, is_over=False)
            raise
        with write_tx(API_ALIAS):
            ClientRequest.objects.filter(pk=row.pk).update(answer=_seal(answer, requested.key))
        return KeyedResponse(answer, str(row.uuid), is_replayed=False)


def _claim(digest: str, fingerprint: str) -> ClientRequest:
    """Return the row of this key: new, taken over, or with its response."""
    with write_tx(API_ALIAS):
        over = ClientRequest.objects.filter(expires_at__lt=database_now()).values_list("pk", flat=True)
        ClientRequest.objects.filter(pk__in=list(over[:MOST_REMOVED])).delete()
    fresh = ClientRequest(
        key_digest=digest,
        fingerprint=fingerprint,
        claimed_until=database_now(CLAIM_SECONDS),
        expires_at=database_now(KEEP_SECONDS),
    )
    try:
        with write_tx(API_ALIAS):
            fresh.save(force_insert=True)
    except IntegrityError:
        return _known(digest, fingerprint)
    return fresh


def _known(digest: str, fingerprint: str) -> ClientRequest:
    with write_tx(API_ALIAS):
        row = ClientRequest.objects.select_for_update().filter(key_digest=digest).first()
        if row is None:
            raise KeyInUse(retry_after=1)  # the other request was refused at this moment, and its key is free again
        if row.fingerprint != fingerprint:
            raise KeyUsedOtherwise()
        if row.answer:
            return row
        if row.claimed_until > database_time(API_ALIAS):
            raise KeyInUse(retry_after=1)
        ClientRequest.objects.filter(pk=row.pk).update(claimed_until=database_now(CLAIM_SECONDS))
        return row


def _give_back(row: ClientRequest, *, is_over: bool) -> None:
    """Release the key of a failed request.

    A refusal has changed nothing, so its row is deleted. The effects of other failures are unknown, so the name stays.
    """
    with write_tx(API_ALIAS):
        rows = ClientRequest.objects.filter(pk=row.pk)
        if is_over:
            rows.delete()
        else:
            rows.update(claimed_until=database_now())


def _digest(what: str, text: str) -> str:
    return salted_hmac(f"novella.idempotency.{what}", text, algorithm="sha256").hexdigest()


def _box(key: str) -> Fernet:
    return box(settings.SECRET_KEY, f"novella idempotency {key}")


def _seal(answer: StoredResponse, key: str) -> str:
    return _box(key).encrypt(json.dumps(asdict(answer)).encode()).decode()


def _open(sealed: str, key: str) -> StoredResponse:
    try:
        return StoredResponse(**json.loads(_box(key).decrypt(sealed.encode())))
    except InvalidToken:
        raise Unavailable(
            phrase("The stored answer for this key can't be read: it was stored with another secret key.")
        ) from None
