"""Subscriptions of live pages: each change is read and rendered once for all viewers that see the same.

    follower ──▶ Hub ──▶ Channel of a topic and a view ──▶ one rendering per kind of viewer ──▶ the same bytes to many

Each subscription has a position in the event log up to which its page is current. The response to a subscription covers
the events between that position and the follower's; from there on the channel covers the follower's events. So each
event is reported exactly once.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conductor.core.context import RequestContext
from conductor.core.errors import CellUnavailable, Invalid, NotFound
from conductor.events import EventNotification
from conductor.services.workflows import event_log
from portal.live import follower, fragments, viewers
from portal.live.connections import BROKEN, MOVED, SIGN_IN_AGAIN, Connection, TopicSubscription
from portal.live.fragments import TopicKind
from portal.live.viewers import Ticket, Viewer

log = logging.getLogger(__name__)

HEAL_SECONDS = 15.0  # between checks for rights that may have ended without an event
LEAST_PAUSE_SECONDS = 0.25  # at most four updates per second, topic and view
MOST_TOPICS = 32
MOST_ROWS = 20  # with more changed rows at once, the page reloads its list
MOST_ROUNDS = 5  # of catching up with a log that grows too fast

Key = tuple[str, str, str]  # topic, view, scope
Payload = Mapping[str, Any]
Drawn = tuple[Payload, list[str]]  # the message, and the topics that feed the channel now


class Channel:
    """The subscriptions to one topic in one view, within one project or all projects."""

    def __init__(self, live_hub: Hub, key: Key, kind: TopicKind, ident: str) -> None:
        self.key, self.kind, self.ident = key, kind, ident
        self.subscriptions: set[TopicSubscription] = set()
        self.topics: set[str] = set()
        self._hub = live_hub
        self._news: dict[str, int] = {}  # the newest unpublished event of each log
        self._changed: set[tuple[str, str]] = set()  # pairs of run and instance of the unpublished events
        self._last_kind = ""
        self._meanwhile: list[EventNotification] = []  # events since the rendering in progress began
        self._task: asyncio.Task[None] | None = None

    def note(self, event: EventNotification) -> None:
        """Note an event of a kind that matters; the channel's pages may change."""
        if not event.kind.startswith(self.kind.kinds or ("",)):
            return
        self._news[event.alias] = event.cursor
        self._last_kind = event.kind
        self._changed.add((event.run_uuid, event.instance_uuid))
        self.publish_soon()

    def overhear(self, events: Iterable[EventNotification]) -> None:
        """Keep events during a rendering, which may show that more topics feed the channel."""
        if self._task is not None and not self.kind.is_wide:
            self._meanwhile.extend(events)

    def publish_soon(self) -> None:
        """Publish the changes, then pause; events in between are coalesced into one update."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._publish())

    def stop(self) -> None:
        """Cancel publishing, after the last subscription has ended."""
        if self._task is not None:
            self._task.cancel()

    # -- publishing ---------------------------------------------------------------------------------------------

    async def _publish(self) -> None:
        try:
            while self._news or any(subscription.is_behind for subscription in self.subscriptions):
                await self._publish_once()
                await asyncio.sleep(LEAST_PAUSE_SECONDS)
        except Exception:
            log.exception("live update failed: topic=%s", self.key[0])
            for subscription in list(self.subscriptions):
                subscription.connection.end(BROKEN)
        finally:
            self._task = None
            self._meanwhile.clear()

    async def _publish_once(self) -> None:
        place, news, changed = dict(self._hub.place), self._news, self._changed
        self._news, self._changed = {}, set()
        self._meanwhile.clear()
        waiting = [
            subscription for subscription in self.subscriptions if subscription.is_behind or subscription.lacks(news)
        ]
        for subscription in waiting:
            subscription.is_behind = False
        drawn = await self._drawn(waiting, changed)
        texts: dict[tuple[int, int], str] = {}  # most subscriptions have the same position, so the same text
        for subscription in waiting:
            payload = drawn.get(subscription)
            if payload is None or subscription not in self.subscriptions:
                continue
            subscription.reach(place)
            which = id(payload), id(subscription.seen)
            if which not in texts:
                texts[which] = message(self.key, payload, event_log.write_cursor(subscription.seen))
            subscription.connection.deliver(texts[which])

    async def _drawn(
        self, waiting: Sequence[TopicSubscription], changed: set[tuple[str, str]]
    ) -> Mapping[TopicSubscription, Payload]:
        """Return the message for each of the subscriptions."""
        if self.kind.is_reread:
            return dict.fromkeys(waiting, LIST)
        draw = self._rows(changed) if self.key[0] in ROWS else self._pieces
        if draw is None:
            return dict.fromkeys(waiting, LIST)
        shown, drawn = await follower.read(
            lambda: _draw_for({subscription.connection.ticket for subscription in waiting}, draw)
        )
        topics = {topic for one in drawn.values() if one is not None for topic in one[1]}
        if new := topics - self.topics:
            self._hub.feed(self, new)
            for event in self._meanwhile:  # these came before the new topics were known
                if not new.isdisjoint(_topics_of(event)):
                    self.note(event)
        fields: dict[TopicSubscription, Payload] = {}
        for subscription in waiting:
            viewer = shown[subscription.connection.ticket]
            payload = drawn[id(viewer)] if viewer is not None else None
            if viewer is None or viewer.scope != self.key[2]:
                subscription.connection.end(SIGN_IN_AGAIN if viewer is None else MOVED)
            elif payload is None:
                subscription.connection.end(BROKEN)
            else:
                fields[subscription] = payload[0]
        return fields

    def _pieces(self, caller: RequestContext, viewer: Viewer) -> Drawn:
        try:
            html = self.kind.render(caller, self.ident, self.key[1])
            return {"kind": "fragments", "html": html, "event": self._last_kind}, self.kind.topics(caller, self.ident)
        except NotFound:
            return {"kind": "gone"}, []
        except CellUnavailable:  # the page stays as it was, and shows that
            return {"kind": "unresponsive"}, []

    def _rows(self, changed: set[tuple[str, str]]) -> Callable[[RequestContext, Viewer], Drawn] | None:
        """Return how to render the changed rows; None for too many or unknown ones."""
        position, prefix, render = ROWS[self.key[0]]
        uuids = sorted({pair[position] for pair in changed if pair[position]})
        if not uuids or len(uuids) > MOST_ROWS:
            return None

        def draw(caller: RequestContext, viewer: Viewer) -> Drawn:
            found = render(caller, uuids, viewer.columns)
            rows = [{"id": f"{prefix}-{uuid}", "html": found.get(uuid)} for uuid in uuids]
            return {"kind": "rows", "rows": rows}, []

        return draw


def _draw_for(
    tickets: Collection[Ticket], draw: Callable[[RequestContext, Viewer], Drawn]
) -> tuple[dict[Ticket, Viewer | None], dict[int, Drawn | None]]:
    """Return the current viewer of each ticket, and the rendering for each viewer, by `id`. Runs in a reader thread."""
    shown = viewers.read_all(tickets)
    drawn: dict[Viewer, Drawn | None] = {}
    distinct = {id(viewer): viewer for viewer in shown.values() if viewer is not None}
    for viewer in set(distinct.values()):
        try:
            with viewer.words():
                drawn[viewer] = draw(viewer.request(), viewer)
        except Exception:  # an error of one viewer does not affect the others
            log.exception("live piece cannot be drawn: project=%s", viewer.caller.project_id)
            drawn[viewer] = None
    return shown, {number: drawn[viewer] for number, viewer in distinct.items()}


LIST: Payload = {"kind": "list"}
Rows = Callable[[RequestContext, Sequence[str], tuple[str, ...]], Mapping[str, str]]
ROWS: dict[str, tuple[int, str, Rows]] = {
    "servers": (1, "server", fragments.server_rows),
    "workflows": (0, "run", fragments.workflow_rows),
}


def message(key: Sequence[str], payload: Payload, seq: str = "") -> str:
    """Return the text that a browser is sent about a topic and a view."""
    where = {"seq": seq} if seq else {}
    return json.dumps({"topic": key[0], "view": key[1], **payload, **where})


def _topics_of(event: EventNotification) -> set[str]:
    """Return the event's topics. A step of a server's workflow changes the server's page too."""
    return {event.topic, f"server:{event.instance_uuid}"} if event.instance_uuid else {event.topic}


@dataclass(frozen=True)
class _Arrival:
    """State of a topic for a new subscription, as of the positions `here`."""

    viewer: Viewer
    topics: list[str]
    here: event_log.Cursor
    missed: int
    is_too_much: bool


class Hub:
    """The channels and connections of one process."""

    def __init__(self) -> None:
        self._channels: dict[Key, Channel] = {}
        self._by_topic: defaultdict[str, set[Channel]] = defaultdict(set)
        self._wide: defaultdict[str, set[Channel]] = defaultdict(set)
        self._connections: dict[Connection, dict[tuple[str, str], Channel]] = {}
        self._healing: asyncio.Task[None] | None = None

    @property
    def place(self) -> event_log.Cursor:
        """Positions in the event logs up to which every channel has noted the events."""
        return follower.here().place

    # -- connections --------------------------------------------------------------------------------------------

    async def welcome(self, connection: Connection) -> None:
        """Register a connection."""
        self._connections[connection] = {}
        await follower.here().join(self)
        if self._healing is None:
            self._healing = asyncio.get_running_loop().create_task(self._heal())

    def dismiss(self, connection: Connection) -> None:
        """Remove a connection and its subscriptions."""
        for topic, view in list(self._connections.get(connection, ())):
            self.leave(connection, topic, view)
        self._connections.pop(connection, None)
        if not self._connections:
            follower.here().leave(self)
            if self._healing is not None:
                self._healing.cancel()
                self._healing = None

    async def follow(self, connection: Connection, topic: str, view: str, since: str) -> None:
        """Subscribe: report events missed since a position in the log, then every update. Raises SignedOut."""
        found = fragments.parse(topic)
        if found is None or view not in found[0].views or len(self._connections.get(connection, ())) >= MOST_TOPICS:
            connection.deliver(message((topic, view), {"kind": "refused"}))
            return
        kind, ident = found
        self.leave(connection, topic, view)
        try:
            seen = dict(event_log.read_cursor(since))
            arrival, missed, is_too_much = await self._catch_up(connection.ticket, kind, ident, seen)
        except (NotFound, Invalid):
            connection.deliver(message((topic, view), {"kind": "refused"}))
            return
        if connection not in self._connections:
            return  # disconnected meanwhile
        channel = self._channel((topic, view, arrival.viewer.scope), kind, ident)
        subscription = TopicSubscription(connection, {**seen, **arrival.here})
        channel.subscriptions.add(subscription)
        self._connections[connection][topic, view] = channel
        self.feed(channel, arrival.topics)
        if is_too_much or (missed and kind.is_wide):
            reset = {"kind": "reset", "missed": missed}
            connection.deliver(message(channel.key, reset, event_log.write_cursor(subscription.seen)))
        elif missed or not seen.keys() <= arrival.here.keys():  # or a cell became unreachable since the page was read
            if missed:
                connection.deliver(message(channel.key, {"kind": "behind", "missed": missed}))
            subscription.is_behind = True
            channel.publish_soon()
        else:
            connection.deliver(message(channel.key, {"kind": "current"}, event_log.write_cursor(subscription.seen)))

    async def _catch_up(
        self, ticket: Ticket, kind: TopicKind, ident: str, since: event_log.Cursor
    ) -> tuple[_Arrival, int, bool]:
        """Read until the follower's position; the channel reports the follower's later events."""
        missed, is_too_much, after = 0, False, since
        for _ in range(MOST_ROUNDS):
            arrival = await follower.read(lambda after=after: _arrive(ticket, kind, ident, after))  # type: ignore[misc]
            missed += arrival.missed
            is_too_much |= arrival.is_too_much
            after = {**after, **arrival.here}
            if all(after.get(alias, 0) >= number for alias, number in self.place.items()):
                return arrival, missed, is_too_much
        return arrival, missed, True

    def leave(self, connection: Connection, topic: str, view: str) -> None:
        """End a subscription."""
        channel = self._connections.get(connection, {}).pop((topic, view), None)
        if channel is None:
            return
        channel.subscriptions = {
            subscription for subscription in channel.subscriptions if subscription.connection is not connection
        }
        if not channel.subscriptions:
            channel.stop()
            del self._channels[channel.key]
            self._wide[channel.key[2]].discard(channel)
            for name in channel.topics:
                self._by_topic[name].discard(channel)
                if not self._by_topic[name]:
                    del self._by_topic[name]

    def _channel(self, key: Key, kind: TopicKind, ident: str) -> Channel:
        if key not in self._channels:
            made = self._channels[key] = Channel(self, key, kind, ident)
            if kind.is_wide:
                self._wide[key[2]].add(made)
        return self._channels[key]

    def feed(self, channel: Channel, topics: Iterable[str]) -> None:
        """Let events of these topics update the channel."""
        for topic in topics:
            channel.topics.add(topic)
            self._by_topic[topic].add(channel)

    # -- events of the follower ---------------------------------------------------------------------------------

    def hear(self, events: Sequence[EventNotification]) -> None:
        for channel in self._channels.values():
            channel.overhear(events)
        for event in events:
            concerned = set(self._wide.get(viewers.ALL_PROJECTS, ()))
            if event.project_id:
                concerned |= self._wide.get(event.project_id, set())
            for topic in _topics_of(event):
                concerned |= self._by_topic.get(topic, set())
            for channel in concerned:
                channel.note(event)

    def start_anew(self) -> None:
        """Reload all pages: unknown events were missed."""
        place = self.place
        for channel in self._channels.values():
            for subscription in channel.subscriptions:
                subscription.seen = {**subscription.seen, **place}
                subscription.connection.deliver(
                    message(channel.key, {"kind": "reset"}, event_log.write_cursor(subscription.seen))
                )

    def cells_changed(self) -> None:
        """Render all pages again: each may show something of the changed cell."""
        for channel in self._channels.values():
            for subscription in channel.subscriptions:
                subscription.is_behind = True
            channel.publish_soon()

    async def _heal(self) -> None:
        """Check rights periodically: a right may end without an event."""
        loop = asyncio.get_running_loop()
        healed_at = loop.time()
        while True:
            await asyncio.sleep(min(HEAL_SECONDS, follower.TICK_SECONDS))
            if loop.time() - healed_at < HEAL_SECONDS:
                continue
            healed_at = loop.time()
            try:
                tickets = {connection.ticket for connection in self._connections}
                found = await follower.read(lambda tickets=tickets: viewers.read_all(tickets))  # type: ignore[misc]
            except Exception:
                log.exception("rights of open pages cannot be read")
                continue
            for connection, followed in list(self._connections.items()):
                viewer = found.get(connection.ticket, _UNASKED)
                if viewer is None:
                    connection.end(SIGN_IN_AGAIN)
                elif isinstance(viewer, Viewer) and any(one.key[2] != viewer.scope for one in followed.values()):
                    connection.end(MOVED)


_UNASKED = object()


def _arrive(ticket: Ticket, kind: TopicKind, ident: str, after: event_log.Cursor) -> _Arrival:
    """Read a topic's state, in a reader thread.

    Raises SignedOut, and NotFound for a topic that the viewer may not follow.
    """
    viewer = viewers.read(ticket)
    caller = viewer.request()
    here = event_log.here()  # read first: the channel reports later events
    topics = kind.topics(caller, ident)
    news = event_log.news(caller, after, topics=topics, kinds=kind.kinds)
    is_anew = any(number < after.get(alias, 0) for alias, number in here.items())  # the log was restored
    return _Arrival(viewer, topics, here, news.up_to(here), news.is_too_much or is_anew)


_hubs: dict[asyncio.AbstractEventLoop, Hub] = {}


def live_hub() -> Hub:
    """Return the hub of the running loop."""
    for other in [one for one in _hubs if one.is_closed()]:
        del _hubs[other]
    return _hubs.setdefault(asyncio.get_running_loop(), Hub())
