"""The campaign's users keep working whatever happens to a web process, and one that stops is reported."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any, cast

from tests.chaos.campaign import at_work
from tests.chaos.people import Answers, Person

REFUSAL = b"HTTP/1.1 409 Conflict\r\nTransfer-Encoding: chunked\r\nX-OpenStack-Request-Id: req-1\r\n\r\n"


def test_a_refusal_counts_although_its_web_process_dies(tmp_path: Path) -> None:
    def refuse() -> None:
        caller, _ = listener.accept()
        with caller:
            caller.recv(65536)
            caller.sendall(REFUSAL + b"40\r\nhalf of")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(120)
        web = threading.Thread(target=refuse)
        web.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        ana = Person("ana", "1", webs=[url], tokens={"own": "t"}, answers=Answers(tmp_path / "answers"))
        assert ana.ask("GET", "/") == (409, "", "req-1")
        web.join(timeout=120)


def test_a_user_thread_that_fails_is_reported() -> None:
    class Bo:
        name = "bo"

        def work(self, *tests: Any) -> None:
            raise KeyError("server")

    with at_work([cast(Person, Bo())]) as broken:
        pass
    assert broken == ["bo broke down: KeyError: 'server'"]
