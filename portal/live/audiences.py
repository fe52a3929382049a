"""All who look at the same piece of a page: what changed is read and drawn once for those who see the same.

follower ──▶ Desk ──▶ Audience of a topic and a view ──▶ one drawing per kind of viewer ──▶ the same bytes to many

Each seat remembers the place in the log up to which its page is known. The answer to a subscription tells what lies
between that place and the follower's; from there on the follower's events count. So an event is told by the one or
by the other, and never by both.
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
from conductor.events import Announcement
from conductor.services import event_log
from portal.live import follower, fragments, viewers
from portal.live.fragments import Kind
from portal.live.seats import BROKEN, MOVED, SIGN_IN_AGAIN, Guest, Seat
from portal.live.viewers import Ticket, Viewer

log = logging.getLogger(__name__)

HEAL_SECONDS = 15.0  # between looks at rights that may have ended without an event
LEAST_PAUSE_SECONDS = 0.25  # at most four updates per second, topic and view
MOST_TOPICS = 32
MOST_ROWS = 20  # more than these at once, and the page reads its list again
MOST_ROUNDS = 5  # of catching up with a log that runs away

Key = tuple[str, str, str]  # topic, view, scope
Payload = Mapping[str, Any]
Drawn = tuple[Payload, list[str]]  # what is told, and the topics that feed it now


class Audience:
    """Those who follow one topic in one view, within one project or within all."""

    def __init__(self, desk: Desk, key: Key, kind: Kind, ident: str) -> None:
        self.key, self.kind, self.ident = key, kind, ident
        self.seats: set[Seat] = set()
        self.topics: set[str] = set()
        self._desk = desk
        self._news: dict[str, int] = {}  # the newest event of each log that is not told yet
        self._changed: set[tuple[str, str]] = set()  # pairs of run and instance that they were about
        self._last_kind = ""
        self._meanwhile: list[Announcement] = []  # since the drawing that is under way began
        self._task: asyncio.Task[None] | None = None

    def note(self, event: Announcement) -> None:
        """It changes what this audience sees, where it is of a kind that matters."""
        if not event.kind.startswith(self.kind.kinds or ("",)):
            return
        self._news[event.alias] = event.cursor
        self._last_kind = event.kind
        self._changed.add((event.run_uuid, event.instance_uuid))
        self.tell_soon()

    def overhear(self, events: Iterable[Announcement]) -> None:
        """While a drawing is under way it may turn out that more topics feed it."""
        if self._task is not None and not self.kind.is_wide:
            self._meanwhile.extend(events)

    def tell_soon(self) -> None:
        """Tell what is not told yet, and rest; events in between melt into one update."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._tell())

    def stop(self) -> None:
        """Nobody is left."""
        if self._task is not None:
            self._task.cancel()

    # -- telling ------------------------------------------------------------------------------------------------

    async def _tell(self) -> None:
        try:
            while self._news or any(seat.is_behind for seat in self.seats):
                await self._tell_once()
                await asyncio.sleep(LEAST_PAUSE_SECONDS)
        except Exception:
            log.exception("live update failed: topic=%s", self.key[0])
            for seat in list(self.seats):
                seat.guest.end(BROKEN)
        finally:
            self._task = None
            self._meanwhile.clear()

    async def _tell_once(self) -> None:
        place, news, changed = dict(self._desk.place), self._news, self._changed
        self._news, self._changed = {}, set()
        self._meanwhile.clear()
        waiting = [seat for seat in self.seats if seat.is_behind or seat.lacks(news)]
        for seat in waiting:
            seat.is_behind = False
        drawn = await self._drawn(waiting, changed)
        texts: dict[tuple[int, int], str] = {}  # most have seen the same: one and the same cursor, by then
        for seat in waiting:
            payload = drawn.get(seat)
            if payload is None or seat not in self.seats:
                continue
            seat.reach(place)
            which = id(payload), id(seat.seen)
            if which not in texts:
                texts[which] = message(self.key, payload, event_log.write_cursor(seat.seen))
            seat.guest.tell(texts[which])

    async def _drawn(self, waiting: Sequence[Seat], changed: set[tuple[str, str]]) -> Mapping[Seat, Payload]:
        """What each of them is told."""
        if self.kind.is_reread:
            return dict.fromkeys(waiting, LIST)
        draw = self._rows(changed) if self.key[0] in ROWS else self._pieces
        if draw is None:
            return dict.fromkeys(waiting, LIST)
        shown, drawn = await follower.read(lambda: _draw_for({seat.guest.ticket for seat in waiting}, draw))
        topics = {topic for one in drawn.values() if one is not None for topic in one[1]}
        if new := topics - self.topics:
            self._desk.feed(self, new)
            for event in self._meanwhile:  # they came when nobody knew yet that they matter
                if not new.isdisjoint(_topics_of(event)):
                    self.note(event)
        told: dict[Seat, Payload] = {}
        for seat in waiting:
            viewer = shown[seat.guest.ticket]
            payload = drawn[id(viewer)] if viewer is not None else None
            if viewer is None or viewer.scope != self.key[2]:
                seat.guest.end(SIGN_IN_AGAIN if viewer is None else MOVED)
            elif payload is None:
                seat.guest.end(BROKEN)
            else:
                told[seat] = payload[0]
        return told

    def _pieces(self, asker: RequestContext, viewer: Viewer) -> Drawn:
        try:
            html = self.kind.render(asker, self.ident, self.key[1])
            return {"kind": "fragments", "html": html, "event": self._last_kind}, self.kind.topics(asker, self.ident)
        except NotFound:
            return {"kind": "gone"}, []
        except CellUnavailable:  # it stays as it was, and says so
            return {"kind": "silent"}, []

    def _rows(self, changed: set[tuple[str, str]]) -> Callable[[RequestContext, Viewer], Drawn] | None:
        """How to draw the rows that changed; None when they are too many, or not known."""
        position, prefix, render = ROWS[self.key[0]]
        uuids = sorted({pair[position] for pair in changed if pair[position]})
        if not uuids or len(uuids) > MOST_ROWS:
            return None

        def draw(asker: RequestContext, viewer: Viewer) -> Drawn:
            found = render(asker, uuids, viewer.columns)
            rows = [{"id": f"{prefix}-{uuid}", "html": found.get(uuid)} for uuid in uuids]
            return {"kind": "rows", "rows": rows}, []

        return draw


def _draw_for(
    tickets: Collection[Ticket], draw: Callable[[RequestContext, Viewer], Drawn]
) -> tuple[dict[Ticket, Viewer | None], dict[int, Drawn | None]]:
    """Whoever the tickets stand for now, and what each of these is shown, by `id`. In a thread that reads."""
    shown = viewers.read_all(tickets)
    drawn: dict[Viewer, Drawn | None] = {}
    distinct = {id(viewer): viewer for viewer in shown.values() if viewer is not None}
    for viewer in set(distinct.values()):
        try:
            with viewer.words():
                drawn[viewer] = draw(viewer.request(), viewer)
        except Exception:  # what one cannot be shown is no reason to leave out the others
            log.exception("live piece cannot be drawn: project=%s", viewer.asker.project_id)
            drawn[viewer] = None
    return shown, {number: drawn[viewer] for number, viewer in distinct.items()}


LIST: Payload = {"kind": "list"}
Rows = Callable[[RequestContext, Sequence[str], tuple[str, ...]], Mapping[str, str]]
ROWS: dict[str, tuple[int, str, Rows]] = {
    "servers": (1, "server", fragments.server_rows),
    "workflows": (0, "run", fragments.workflow_rows),
}


def message(key: Sequence[str], payload: Payload, seq: str = "") -> str:
    """What a browser is sent about a topic and a view."""
    where = {"seq": seq} if seq else {}
    return json.dumps({"topic": key[0], "view": key[1], **payload, **where})


def _topics_of(event: Announcement) -> set[str]:
    """A step of a server's workflow changes what the server's page shows, so it counts there too."""
    return {event.topic, f"server:{event.instance_uuid}"} if event.instance_uuid else {event.topic}


@dataclass(frozen=True)
class _Arrival:
    """What was found out about somebody who wants to follow a topic, as far as `here`."""

    viewer: Viewer
    topics: list[str]
    here: event_log.Cursor
    missed: int
    is_too_much: bool


class Desk:
    """The audiences of one process, and who sits where."""

    def __init__(self) -> None:
        self._audiences: dict[Key, Audience] = {}
        self._by_topic: defaultdict[str, set[Audience]] = defaultdict(set)
        self._wide: defaultdict[str, set[Audience]] = defaultdict(set)
        self._guests: dict[Guest, dict[tuple[str, str], Audience]] = {}
        self._healing: asyncio.Task[None] | None = None

    @property
    def place(self) -> event_log.Cursor:
        """How far the log has been read, and every audience noted what matters to it."""
        return follower.here().place

    # -- who comes and goes -------------------------------------------------------------------------------------

    async def welcome(self, guest: Guest) -> None:
        """Somebody who may follow topics from now on."""
        self._guests[guest] = {}
        await follower.here().join(self)
        if self._healing is None:
            self._healing = asyncio.get_running_loop().create_task(self._heal())

    def dismiss(self, guest: Guest) -> None:
        """They have gone."""
        for topic, view in list(self._guests.get(guest, ())):
            self.leave(guest, topic, view)
        self._guests.pop(guest, None)
        if not self._guests:
            follower.here().leave(self)
            if self._healing is not None:
                self._healing.cancel()
                self._healing = None

    async def follow(self, guest: Guest, topic: str, view: str, since: str) -> None:
        """Tell what was missed since a place in the log, and from now on what comes. Raises SignedOut."""
        found = fragments.parse(topic)
        if found is None or view not in found[0].views or len(self._guests.get(guest, ())) >= MOST_TOPICS:
            guest.tell(message((topic, view), {"kind": "refused"}))
            return
        kind, ident = found
        self.leave(guest, topic, view)
        try:
            seen = dict(event_log.read_cursor(since))
            arrival, missed, is_too_much = await self._catch_up(guest.ticket, kind, ident, seen)
        except (NotFound, Invalid):
            guest.tell(message((topic, view), {"kind": "refused"}))
            return
        if guest not in self._guests:
            return  # gone meanwhile
        audience = self._audience((topic, view, arrival.viewer.scope), kind, ident)
        seat = Seat(guest, {**seen, **arrival.here})
        audience.seats.add(seat)
        self._guests[guest][topic, view] = audience
        self.feed(audience, arrival.topics)
        if is_too_much or (missed and kind.is_wide):
            reset = {"kind": "reset", "missed": missed}
            guest.tell(message(audience.key, reset, event_log.write_cursor(seat.seen)))
        elif missed or not seen.keys() <= arrival.here.keys():  # or a cell fell silent since the page was read
            if missed:
                guest.tell(message(audience.key, {"kind": "behind", "missed": missed}))
            seat.is_behind = True
            audience.tell_soon()
        else:
            guest.tell(message(audience.key, {"kind": "current"}, event_log.write_cursor(seat.seen)))

    async def _catch_up(
        self, ticket: Ticket, kind: Kind, ident: str, since: event_log.Cursor
    ) -> tuple[_Arrival, int, bool]:
        """Read on until we are as far as the follower is; what it hears afterwards is told by the audience."""
        missed, is_too_much, after = 0, False, since
        for _ in range(MOST_ROUNDS):
            arrival = await follower.read(lambda after=after: _arrive(ticket, kind, ident, after))  # type: ignore[misc]
            missed += arrival.missed
            is_too_much |= arrival.is_too_much
            after = {**after, **arrival.here}
            if all(after.get(alias, 0) >= number for alias, number in self.place.items()):
                return arrival, missed, is_too_much
        return arrival, missed, True

    def leave(self, guest: Guest, topic: str, view: str) -> None:
        """They follow it no more."""
        audience = self._guests.get(guest, {}).pop((topic, view), None)
        if audience is None:
            return
        audience.seats = {seat for seat in audience.seats if seat.guest is not guest}
        if not audience.seats:
            audience.stop()
            del self._audiences[audience.key]
            self._wide[audience.key[2]].discard(audience)
            for name in audience.topics:
                self._by_topic[name].discard(audience)
                if not self._by_topic[name]:
                    del self._by_topic[name]

    def _audience(self, key: Key, kind: Kind, ident: str) -> Audience:
        if key not in self._audiences:
            made = self._audiences[key] = Audience(self, key, kind, ident)
            if kind.is_wide:
                self._wide[key[2]].add(made)
        return self._audiences[key]

    def feed(self, audience: Audience, topics: Iterable[str]) -> None:
        """Events of these topics concern it."""
        for topic in topics:
            audience.topics.add(topic)
            self._by_topic[topic].add(audience)

    # -- what the follower says ---------------------------------------------------------------------------------

    def hear(self, events: Sequence[Announcement]) -> None:
        for audience in self._audiences.values():
            audience.overhear(events)
        for event in events:
            concerned = set(self._wide.get(viewers.ALL_PROJECTS, ()))
            if event.project_id:
                concerned |= self._wide.get(event.project_id, set())
            for topic in _topics_of(event):
                concerned |= self._by_topic.get(topic, set())
            for audience in concerned:
                audience.note(event)

    def start_anew(self) -> None:
        """Nobody knows what was missed: everybody reads their page again."""
        place = self.place
        for audience in self._audiences.values():
            for seat in audience.seats:
                seat.seen = {**seat.seen, **place}
                seat.guest.tell(message(audience.key, {"kind": "reset"}, event_log.write_cursor(seat.seen)))

    def cells_changed(self) -> None:
        """Every page may show something of that cell, and is drawn anew."""
        for audience in self._audiences.values():
            for seat in audience.seats:
                seat.is_behind = True
            audience.tell_soon()

    async def _heal(self) -> None:
        """Look again from time to time: a right may end without an event."""
        loop = asyncio.get_running_loop()
        healed_at = loop.time()
        while True:
            await asyncio.sleep(min(HEAL_SECONDS, follower.TICK_SECONDS))
            if loop.time() - healed_at < HEAL_SECONDS:
                continue
            healed_at = loop.time()
            try:
                tickets = {guest.ticket for guest in self._guests}
                found = await follower.read(lambda tickets=tickets: viewers.read_all(tickets))  # type: ignore[misc]
            except Exception:
                log.exception("rights of open pages cannot be read")
                continue
            for guest, followed in list(self._guests.items()):
                viewer = found.get(guest.ticket, _UNASKED)
                if viewer is None:
                    guest.end(SIGN_IN_AGAIN)
                elif isinstance(viewer, Viewer) and any(one.key[2] != viewer.scope for one in followed.values()):
                    guest.end(MOVED)


_UNASKED = object()


def _arrive(ticket: Ticket, kind: Kind, ident: str, after: event_log.Cursor) -> _Arrival:
    """In a thread that reads. Raises SignedOut, and NotFound for somebody who may not follow the topic."""
    viewer = viewers.read(ticket)
    asker = viewer.request()
    here = event_log.here()  # first: what comes later is the follower's to tell
    topics = kind.topics(asker, ident)
    news = event_log.news(asker, after, topics=topics, kinds=kind.kinds)
    is_anew = any(number < after.get(alias, 0) for alias, number in here.items())  # the log was put back
    return _Arrival(viewer, topics, here, news.up_to(here), news.is_too_much or is_anew)


_desks: dict[asyncio.AbstractEventLoop, Desk] = {}


def desk() -> Desk:
    """The desk of the running loop."""
    for other in [one for one in _desks if one.is_closed()]:
        del _desks[other]
    return _desks.setdefault(asyncio.get_running_loop(), Desk())
