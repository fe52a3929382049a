"""The APIs on a real port of this process, for clients that bring their own HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.servers.basehttp import WSGIRequestHandler, WSGIServer
from django.core.wsgi import get_wsgi_application
from django.db import connections


class QuietHandler(WSGIRequestHandler):
    """Serves, and writes no log of it."""

    def log_message(self, *args: Any) -> None:
        """Log nothing: tests report by themselves."""


@pytest.fixture
def url(people: Any) -> Iterator[str]:
    """`http://127.0.0.1:port` of a server in one thread, with the users of tests/people.py in its databases."""
    server = WSGIServer(("127.0.0.1", 0), QuietHandler, allow_reuse_address=False)
    server.set_app(get_wsgi_application())

    def serve() -> None:
        try:
            server.serve_forever(poll_interval=0.05)
        finally:
            connections.close_all()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join(timeout=60)
    server.server_close()
