"""One socket of one browser: it follows topics, and is sent what their pages show anew."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit

from channels.db import DatabaseSyncToAsync
from channels.exceptions import StopConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.contrib.sessions.backends.db import SessionStore
from django.http.request import split_domain_port, validate_host

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid, NotFound
from conductor.services import event_log
from portal import languages
from portal.askers import asker_of
from portal.live import fragments, hub
from portal.live.fragments import Kind
from portal.request_ids import new_request_id

log = logging.getLogger(__name__)
T = TypeVar("T")

HEAL_SECONDS = 15.0
LEAST_PAUSE_SECONDS = 0.25  # at most four updates per second, topic and socket
MOST_TOPICS = 32
LONGEST_MESSAGE = 4096
MOST_ROWS = 20  # more than these at once, and the page reads its list again

# Why a socket was closed, for the page's script.
SIGN_IN_AGAIN = 4401
NOT_FROM_HERE = 4403
MISUNDERSTOOD = 4400
BROKEN = 1011

readers = ThreadPoolExecutor(max_workers=4, thread_name_prefix="live")


class SignedOut(Exception):
    """The session has ended, or is about another project now."""


@dataclass
class Following:
    """A topic that this socket follows, and the topics of the log that feed it.

    `changed` gathers what a wide topic's events were about: pairs of run and instance. `told` are the numbers of
    events that were announced after the cursor, where that does not tell that all before them are known too.
    """

    topic: str
    kind: Kind
    ident: str
    view: str
    cursor: dict[str, int]
    told: dict[str, set[int]] = field(default_factory=dict)
    topics: set[str] = field(default_factory=set)
    changed: set[tuple[str, str]] = field(default_factory=set)
    last_kind: str = ""
    is_dirty: bool = False
    task: asyncio.Task[None] | None = None

    @property
    def key(self) -> tuple[str, str]:
        return self.topic, self.view

    def wants(self, message: dict[str, Any]) -> bool:
        if self.kind.is_wide:
            return bool(message["kind"].startswith(self.kind.kinds))
        return not self.topics.isdisjoint((message["topic"], f"server:{message['instance_uuid']}"))

    def reach(self, cursor: event_log.Cursor) -> None:
        """Everything up to `cursor` is known."""
        for alias, place in cursor.items():
            self.cursor[alias] = max(self.cursor.get(alias, 0), place)

    def forget(self, news: event_log.News) -> None:
        """Events that the log has shown are before the cursor now, or will be found once more."""
        for alias, numbers in news.numbers.items():
            self.told.get(alias, set()).difference_update(numbers)

    def note(self, message: dict[str, Any]) -> None:
        alias, number = message["alias"], message["cursor"]
        if event_log.is_by_commit(alias):
            self.reach({alias: number})
        else:
            self.told.setdefault(alias, set()).add(number)
        self.last_kind = message["kind"]
        self.is_dirty = True
        if self.kind.is_wide:
            self.changed.add((message["run_uuid"], message["instance_uuid"]))


class LiveConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """Messages in: {"subscribe": topic, "view", "since"}, {"unsubscribe": topic, "view"}.

    Messages out: {"topic", "view", "kind", "seq", …}.

    Kinds out: `fragments` (html: each with the id of what it replaces), `row` (id, html), `list` (read the list
    again), `reset` (too much was missed: read the page again), `refused` (there is no such topic for you).
    """

    async def connect(self) -> None:
        self._following: dict[tuple[str, str], Following] = {}
        self._project_id = self._wide_group = ""
        self._healing: asyncio.Task[None] | None = None
        hub.serve_from(asyncio.get_running_loop())
        if not is_from_here(self.scope):
            await self.close(code=NOT_FROM_HERE)
            return
        try:
            asker = await self._read(lambda asker: asker)
        except SignedOut:
            await self.accept()  # a browser's script learns the code of an accepted socket only
            await self.close(code=SIGN_IN_AGAIN)
            return
        self._project_id = asker.project_id
        self._wide_group = hub.project_group(hub.ALL_PROJECTS if asker.is_admin else asker.project_id)
        await self.accept()
        self._healing = asyncio.create_task(self._guarded(self._heal()))

    async def disconnect(self, code: int) -> None:
        if self._healing is not None:
            self._healing.cancel()
        for following in self._following.values():
            await self._leave(following)
        self._following.clear()
        if self._wide_group:
            await self.channel_layer.group_discard(self._wide_group, self.channel_name)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        message = _parse(text_data)
        if message is None:
            await self.close(code=MISUNDERSTOOD)
        elif "subscribe" in message:
            await self._guarded(self._subscribe(message))
        elif "unsubscribe" in message:
            key = (str(message["unsubscribe"]), str(message.get("view", "")))
            following = self._following.pop(key, None)
            if following is not None:
                await self._leave(following)

    async def live_events(self, message: dict[str, Any]) -> None:
        """Events from the hub: mark what they touch, and send soon."""
        for following in self._following.values():
            for event in message["events"]:
                if following.wants(event):
                    following.note(event)
            if following.is_dirty:
                self._send_soon(following)

    # -- following ----------------------------------------------------------------------------------------------

    async def _subscribe(self, message: dict[str, Any]) -> None:
        topic, view = str(message["subscribe"]), str(message.get("view", ""))
        found = fragments.parse(topic)
        if found is None or view not in found[0].views or len(self._following) >= MOST_TOPICS:
            await self._say((topic, view), "refused")
            return
        kind, ident = found
        try:
            since = dict(event_log.read_cursor(str(message.get("since", ""))))
            topics = await self._read(lambda asker: kind.topics(asker, ident))
        except (NotFound, Invalid):
            await self._say((topic, view), "refused")
            return
        following = Following(topic, kind, ident, view, since)
        before = self._following.pop(following.key, None)
        if before is not None:
            await self._leave(before)
        self._following[following.key] = following
        if kind.is_wide:
            await self.channel_layer.group_add(self._wide_group, self.channel_name)
        await self._feed_from(following, topics)
        await self._catch_up(following)

    async def _catch_up(self, following: Following, *, is_first: bool = True) -> None:
        """What happened between the page and its socket, while the socket was cut, or in a message that was lost."""
        topics, kinds, after = sorted(following.topics), following.kind.kinds, dict(following.cursor)

        def ask(asker: RequestContext) -> tuple[event_log.News, event_log.Cursor]:
            here = event_log.here()  # first: what comes in between is found twice rather than never
            return event_log.news(asker, after, topics=topics, kinds=kinds), here

        news, here = await self._read(ask)
        missed = news.beyond(following.told)
        following.reach(here)
        following.forget(news)
        if news.is_too_much or (missed and following.kind.is_wide):
            await self._say(following.key, "reset", seq=following.cursor)
        elif missed:
            following.is_dirty = True
            self._send_soon(following)
        elif is_first:
            await self._say(following.key, "current", seq=following.cursor)

    async def _heal(self) -> None:
        """Look again from time to time: the layer may drop a message, and a right may end without an event."""
        while True:
            await asyncio.sleep(HEAL_SECONDS)
            for following in list(self._following.values()):
                if not following.is_dirty:
                    await self._catch_up(following, is_first=False)

    async def _feed_from(self, following: Following, topics: list[str]) -> bool:
        """Join the groups of topics that are new; whether there were any."""
        new = set(topics) - following.topics
        for topic in new:
            await self.channel_layer.group_add(hub.topic_group(topic), self.channel_name)
        following.topics |= new
        return bool(new)

    async def _leave(self, following: Following) -> None:
        if following.task is not None:
            following.task.cancel()
        others = set().union(*(other.topics for other in self._following.values() if other is not following))
        for topic in following.topics - others:
            await self.channel_layer.group_discard(hub.topic_group(topic), self.channel_name)

    # -- sending ------------------------------------------------------------------------------------------------

    def _send_soon(self, following: Following) -> None:
        if following.task is None or following.task.done():
            following.task = asyncio.create_task(self._guarded(self._send_while_dirty(following)))

    async def _send_while_dirty(self, following: Following) -> None:
        """Send, rest, and send again what came meanwhile: events in between melt into one update."""
        while following.is_dirty:
            following.is_dirty = False
            changed, following.changed = following.changed, set()
            await self._send_news(following, changed)
            await asyncio.sleep(LEAST_PAUSE_SECONDS)

    async def _send_news(self, following: Following, changed: set[tuple[str, str]]) -> None:
        seq = dict(following.cursor)
        if following.kind.is_reread:
            await self._say(following.key, "list", seq=seq)
            return
        if following.topic in ROWS:
            await self._send_rows(following, changed, seq)
            return
        try:
            html, topics = await self._read(lambda asker: _render(asker, following))
        except NotFound:
            await self._say(following.key, "gone", seq=seq)
            return
        # Work may have been handed on to a run that nobody followed yet: look once more, now that we do.
        following.is_dirty |= await self._feed_from(following, topics)
        await self._say(following.key, "fragments", seq=seq, html=html, event=following.last_kind)

    async def _send_rows(self, following: Following, changed: set[tuple[str, str]], seq: event_log.Cursor) -> None:
        position, prefix, render = ROWS[following.topic]
        uuids = sorted({pair[position] for pair in changed if pair[position]})
        if not uuids or len(uuids) > MOST_ROWS:
            await self._say(following.key, "list", seq=seq)
            return
        rows = await self._read(lambda asker: render(asker, uuids))
        for uuid in uuids:
            await self._say(following.key, "row", seq=seq, id=f"{prefix}-{uuid}", html=rows.get(uuid))

    async def _say(self, key: tuple[str, str], kind: str, *, seq: event_log.Cursor | None = None, **more: Any) -> None:
        topic, view = key
        where = {"seq": event_log.write_cursor(seq)} if seq is not None else {}
        await self.send(text_data=json.dumps({"topic": topic, "view": view, "kind": kind, **where, **more}))

    # -- reading with the viewer's rights -----------------------------------------------------------------------

    async def _read(self, ask: Callable[[RequestContext], T]) -> T:
        """Ask as the session's person, whose rights are read anew each time. Raises SignedOut."""
        key = self.scope["session"].session_key
        project_id = self._project_id
        language = languages.of_header(dict(self.scope["headers"]).get(b"accept-language", b"").decode("latin1"))

        def read() -> T:
            asker = asker_of(SessionStore(key), new_request_id(), language=language) if key else None
            if asker is None or (project_id and asker.project_id != project_id):
                raise SignedOut
            return ask(asker)

        return await DatabaseSyncToAsync(read, thread_sensitive=False, executor=readers)()  # type: ignore[no-any-return]

    async def _guarded(self, work: Any) -> None:
        """Whatever ends the work ends the socket; one that is gone already has nobody to tell."""
        try:
            await work
        except SignedOut:
            await self._end(SIGN_IN_AGAIN)
        except (asyncio.CancelledError, StopConsumer):
            raise
        except OSError:
            log.debug("socket is gone")
        except Exception:
            log.exception("live update failed")
            await self._end(BROKEN)

    async def _end(self, code: int) -> None:
        with suppress(OSError):
            await self.close(code=code)


Rows = Callable[[RequestContext, list[str]], dict[str, str]]
ROWS: dict[str, tuple[int, str, Rows]] = {
    "servers": (1, "server", fragments.server_rows),
    "workflows": (0, "run", fragments.workflow_rows),
}


def is_from_here(scope: dict[str, Any]) -> bool:
    """Whether a page of this portal opens the socket: the origin is the host that was asked, and one of ours."""
    headers = dict(scope["headers"])
    host = headers.get(b"host", b"").decode("latin1").lower()
    origin = urlsplit(headers.get(b"origin", b"").decode("latin1").lower())
    domain, _ = split_domain_port(host)
    return bool(host) and origin.netloc == host and validate_host(domain, settings.ALLOWED_HOSTS or ["localhost"])


def _render(asker: RequestContext, following: Following) -> tuple[list[str], list[str]]:
    """The fragments, and the topics that feed them now. Raises NotFound."""
    kind, ident = following.kind, following.ident
    return kind.render(asker, ident, following.view), kind.topics(asker, ident)


def _parse(text: str | None) -> dict[str, Any] | None:
    if not text or len(text) > LONGEST_MESSAGE:
        return None
    try:
        message = json.loads(text)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None
