"""A web server to which webhooks are sent; the fixture `receiver` is one."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

PASSWORD = "seven-ducks-swim"


class Receiver:
    """A web server that stores its requests; `answers` are its next statuses (200 when empty)."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[int] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = receiver.answers.pop(0) if receiver.answers else 200
                receiver.got.append((dict(self.headers.items()), body))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                """Tests are quiet."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?key={PASSWORD}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def types(self) -> list[str]:
        return [headers["Novella-Event"] for headers, _ in self.got]

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
