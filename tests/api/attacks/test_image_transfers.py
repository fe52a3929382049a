"""Transfers of image data that never end: they take their own project's share, and only for a while."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings

from conductor.image.models import Image
from portal import request_limits, transfers
from portal.request_limits import RequestLimitsMiddleware, TransferLimits
from portal.transfers import TransferShares
from tests.api.image.calls import DATA, create, upload
from tests.loops import run_at_most
from tests.waiting import WAIT_SECONDS


class Upload:
    """A PUT of image data as a web server passes it on; one that `is_stuck` sends too little until it is cut off."""

    def __init__(self, token: str, image_id: str, *, is_stuck: bool, pass_time: Callable[[], None] = int) -> None:
        headers = {"x-auth-token": token, "content-type": "application/octet-stream", "host": "localhost"}
        headers["content-length"] = str(len(DATA))
        self.scope: dict[str, Any] = {
            "type": "http",
            "http_version": "1.1",
            "method": "PUT",
            "scheme": "http",
            "path": f"/image/v2/images/{image_id}/file",
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "server": ("localhost", 80),
            "client": ("127.0.0.1", 50000),
        }
        self._pieces = [DATA[:100]] if is_stuck else [DATA]
        self._is_stuck = is_stuck
        self._pass_time = pass_time
        self.begun, self.drips = asyncio.Event(), asyncio.Event()
        self.sent: list[Any] = []

    async def receive(self) -> Any:
        self.begun.set()
        if self._pieces:
            return {"type": "http.request", "body": self._pieces.pop(), "more_body": self._is_stuck}
        await self.drips.wait()
        self._pass_time()
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def through(self, middleware: RequestLimitsMiddleware) -> tuple[int, dict[bytes, bytes], bytes]:
        await middleware(self.scope, self.receive, self.send)
        body = b"".join(message.get("body", b"") for message in self.sent)
        return self.sent[0]["status"], dict(self.sent[0]["headers"]), body


def test_stalled_uploads_leave_slots_for_other_projects_and_are_disconnected(
    people: Any, api_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from portal import asgi

    now = [0.0]
    monkeypatch.setattr(request_limits, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def pass_time() -> None:
        now[0] += 1.0

    ana, chi = api_client("ana"), api_client("chi")
    most = settings.NOVELLA_PROJECT_IMAGE_TRANSFERS
    stuck_ids = [create(ana)["id"] for _ in range(most)]
    late_id, other_id = create(ana)["id"], create(chi)["id"]
    tokens = {"ana": people.ana.token(), "chi": people.chi.token()}

    async def work() -> None:
        pool: Any = asgi.WSGIMiddleware(asgi._http, workers=most + 2)
        middleware = RequestLimitsMiddleware(
            asgi.WatchedBodies(pool), workers=1, streams=16, pace=TransferLimits(window=0.5, rate=1e9)
        )
        stuck = [Upload(tokens["ana"], image_id, is_stuck=True, pass_time=pass_time) for image_id in stuck_ids]
        cut = [asyncio.create_task(one.through(middleware)) for one in stuck]
        await asyncio.gather(*(one.begun.wait() for one in stuck))
        status, headers, body = await Upload(tokens["ana"], late_id, is_stuck=False).through(middleware)
        names = {name.lower(): value for name, value in headers.items()}
        assert (status, names[b"retry-after"]) == (503, b"5"), body
        assert (await Upload(tokens["chi"], other_id, is_stuck=False).through(middleware))[0] == 204
        for one in stuck:
            one.drips.set()
        for one in await asyncio.gather(*cut):
            assert one[0] == 408
            assert "too slowly" in json.dumps(one[2].decode())
        assert (await Upload(tokens["ana"], late_id, is_stuck=False).through(middleware))[0] == 204

    run_at_most(WAIT_SECONDS, work())
    assert set(Image.objects.filter(uuid__in=stuck_ids).values_list("status", flat=True)) == {"queued"}
    assert set(Image.objects.filter(uuid__in=[late_id, other_id]).values_list("status", flat=True)) == {"active"}


def test_one_project_has_at_most_half_of_the_transfers() -> None:
    shares = TransferShares(total=6, per_project=6)
    for _ in range(3):
        shares.take("shop")
    with pytest.raises(Exception, match="3 transfers"):
        shares.take("shop")
    for name in ("lab", "den", "inn"):
        shares.take(name)
        with pytest.raises(Exception, match="1 transfers"):
            shares.take(name)
    with pytest.raises(Exception, match="Too many"):
        shares.take("bar")
    shares.release("lab")
    shares.take("bar")


def test_a_stalled_download_releases_its_slot(api_client: Any, monkeypatch: Any) -> None:
    ana = api_client("ana")
    image_id = create(ana)["id"]
    assert upload(ana, image_id).status_code == 204
    monkeypatch.setattr("portal.api.image.views.image_data.shares", TransferShares(2, 1))
    path = f"/image/v2/images/{image_id}/file"
    answer = ana.get(path)
    refused = ana.get(path)
    assert (refused.status_code, refused["Retry-After"]) == (503, "5")
    answer.close()
    whole = ana.get(path)
    assert (whole.content if not whole.streaming else b"".join(whole.streaming_content)) == DATA
    assert transfers.shares._taken.total() == 0
